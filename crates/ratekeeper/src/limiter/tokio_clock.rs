//! Tokio's time as a clock.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime};

use tokio::runtime::Handle;

use crate::port::Clock;
use crate::{Nanos, Timestamp};

/// The monotonic clock as tokio tells it, anchored once to the wall clock: when a test pauses tokio's time, this
/// clock stands still, and moves with it. Outside of a test it is the process's monotonic clock.
///
/// A limiter that is made where tokio's time is paused follows it by itself, also when threads outside of the runtime
/// use it. One that is made earlier (in a `static`,
/// before `tokio::time::pause()`) must be given this clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioClock;

/// Taken from the real clock: a paused one may be far ahead of those of other runtimes in the process.
static ANCHOR: OnceLock<(Instant, Timestamp)> = OnceLock::new();

impl TokioClock {
    /// True within a runtime whose time is paused. Tokio does not tell, but a running clock goes forward exactly as far
    /// as the real one does: a paused one stands still, or somebody moves it just now and it leaps.
    pub(crate) fn is_paused() -> bool {
        if Handle::try_current().is_err() {
            return false;
        }
        // A leap that happens to be as long as the look is taken for running: hardly three times in a row.
        (0..3).any(|_| !goes_with_the_real_one())
    }
}

fn goes_with_the_real_one() -> bool {
    let before = Instant::now();
    let first = tokio::time::Instant::now();
    let after_first = Instant::now();
    let mut before_second = Instant::now();
    while before_second == after_first {
        std::hint::spin_loop();
        before_second = Instant::now();
    }
    let went = tokio::time::Instant::now() - first;
    before_second - after_first <= went && went <= before.elapsed()
}

/// What the runtime's time is that this is called in; outside of any, that of `home`.
#[inline]
pub(crate) fn now_at(home: Option<&Handle>) -> Timestamp {
    let _entered = enter(home);
    TokioClock.now()
}

/// True if that time is paused.
pub(crate) fn is_paused_at(home: Option<&Handle>) -> bool {
    let _entered = enter(home);
    TokioClock::is_paused()
}

#[inline]
fn enter(home: Option<&Handle>) -> Option<tokio::runtime::EnterGuard<'_>> {
    // Only a limiter that was made in paused time has a home: nobody else pays for the question.
    home.filter(|_| Handle::try_current().is_err()).map(Handle::enter)
}

impl Clock for TokioClock {
    #[inline]
    fn now(&self) -> Timestamp {
        let (start, wall) = *ANCHOR.get_or_init(|| (Instant::now(), Timestamp::from(SystemTime::now())));
        let now = tokio::time::Instant::now().into_std();
        match now.checked_duration_since(start) {
            Some(after) => wall + Nanos::from(after),
            None => wall.saturating_sub(Nanos::from(start.duration_since(now))),
        }
    }
}
