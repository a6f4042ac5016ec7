//! Tokio's time as a clock.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime};

use tokio::runtime::Handle;

use crate::port::Clock;
use crate::{Nanos, Timestamp};

/// Tokio's time, anchored once to the wall clock: it stands still while a test has paused tokio's time, and moves with
/// it.
///
/// A store or limiter that is built where tokio's time is paused follows it by itself, also when threads outside of
/// the runtime use it. Pass this clock to one that is built earlier: in a `static`, or before `tokio::time::pause()`.
/// Outside of tests, prefer the default clock: it is several times cheaper to read.
///
/// ```
/// use std::time::Duration;
/// use ratekeeper::{Limiter, TokioClock};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let limiter = Limiter::builder("1/h".parse()?).clock(TokioClock).build()?;
/// tokio::time::pause();
/// assert!(limiter.try_acquire(1).allowed);
/// tokio::time::advance(Duration::from_secs(3_600)).await;
/// assert!(limiter.try_acquire(1).allowed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioClock;

/// Taken from the real clock: a paused one may be far ahead of those of other runtimes in the process.
static ANCHOR: OnceLock<(Instant, Timestamp)> = OnceLock::new();

/// How often to look again when a look cannot tell, because the real clock ticks too coarsely.
const LOOKS: usize = 3;

impl TokioClock {
    /// Returns true within a runtime whose time is not the process's, because it is paused or was paused once. Costs
    /// three readings of a clock.
    ///
    /// Tokio has no function that tells. But until it is paused, its clock shows exactly what the real one does: a
    /// reading lies between two readings of that. A paused one has been left behind, or was moved ahead.
    pub(crate) fn is_apart() -> bool {
        if Handle::try_current().is_err() {
            return false;
        }
        for _ in 0..LOOKS {
            let before = Instant::now();
            let tokio = tokio::time::Instant::now().into_std();
            if tokio < before || tokio > Instant::now() {
                return true;
            }
            // A tie may be a clock that was paused within this very tick.
            if tokio > before {
                return false;
            }
        }
        false
    }

    /// Reads in the runtime that this is called in; outside of any, in `home`.
    pub(super) fn within<R>(home: Option<&Handle>, read: impl FnOnce() -> R) -> R {
        // Only what was built in paused time has a home: nobody else pays for the question.
        let _entered = home.filter(|_| Handle::try_current().is_err()).map(Handle::enter);
        read()
    }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_runtime_is_apart_once_its_time_was_paused() {
        assert!(!TokioClock::is_apart(), "outside of any runtime");
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        for _ in 0..1_000 {
            assert!(!runtime().block_on(async { TokioClock::is_apart() }), "never paused");
        }
        runtime().block_on(async {
            tokio::time::pause();
            assert!(TokioClock::is_apart(), "left behind");
            tokio::time::advance(Duration::from_secs(60)).await;
            assert!(TokioClock::is_apart(), "moved ahead");
            tokio::time::resume();
            assert!(TokioClock::is_apart(), "runs again, from another time");
        });
    }
}
