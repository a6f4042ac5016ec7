//! The clock of a process: monotonic, anchored once to the wall clock.

use std::fmt;
use std::sync::LazyLock;
use std::time::SystemTime;

use crate::port::Clock;
use crate::{Nanos, Timestamp};

/// The clock to use in process. It never steps: it was set by the wall clock when the process first asked, and has
/// counted by itself since.
///
/// Every copy tells the same time.
#[derive(Clone, Copy, Default)]
pub struct MonotonicClock;

/// Reads the processor's counter where it is invariant, which costs half of what the operating system's clock does.
static ANCHOR: LazyLock<Anchor> = LazyLock::new(|| {
    let counter = quanta::Clock::new();
    Anchor { start: counter.raw(), wall: Timestamp::from(SystemTime::now()), counter }
});

struct Anchor {
    counter: quanta::Clock,
    start: u64,
    wall: Timestamp,
}

impl Clock for MonotonicClock {
    #[inline]
    fn now(&self) -> Timestamp {
        let anchor = &*ANCHOR;
        anchor.wall + Nanos::from_nanos(anchor.counter.delta_as_nanos(anchor.start, anchor.counter.raw()))
    }
}

impl fmt::Debug for MonotonicClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MonotonicClock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_wall_clock_and_never_steps_back() {
        let first = MonotonicClock.now();
        let wall = Timestamp::from(SystemTime::now());
        assert!(wall.since(first).max(first.since(wall)) < Nanos::from_secs(60));
        assert!(MonotonicClock.now() >= first);
    }
}
