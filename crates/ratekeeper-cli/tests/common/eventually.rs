//! Waiting for what another process does.

use std::thread;
use std::time::{Duration, Instant};

/// Far longer than anything here takes, even on a machine that is busy with something else.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);
/// Between two looks: too short for a test to be slower by it, and the processor is left to whoever is waited for.
const PAUSE: Duration = Duration::from_millis(5);

/// Looks until there is something to see, and returns it.
#[track_caller]
pub(crate) fn eventually_some<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < deadline, "never: {what}");
        thread::park_timeout(PAUSE);
    }
}

/// Looks until it shows what is waited for.
#[track_caller]
pub(crate) fn eventually(what: &str, mut look: impl FnMut() -> bool) {
    eventually_some(what, || look().then_some(()));
}
