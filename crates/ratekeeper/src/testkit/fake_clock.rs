//! A clock that moves only when told.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::port::Clock;
use crate::{Nanos, Timestamp};

/// A clock for tests: it stands still until it is moved, forwards or backwards. Clones are the same clock.
///
/// ```
/// use ratekeeper::port::Clock;
/// use ratekeeper::testkit::FakeClock;
/// use ratekeeper::{Nanos, Timestamp};
/// let clock = FakeClock::at(Timestamp::from_secs(100));
/// clock.advance(Nanos::from_secs(6));
/// assert_eq!(clock.now(), Timestamp::from_secs(106));
/// ```
#[derive(Clone, Debug, Default)]
pub struct FakeClock(Arc<AtomicI64>);

impl FakeClock {
    /// Returns a clock that stands at `now`.
    pub fn at(now: Timestamp) -> Self {
        FakeClock(Arc::new(AtomicI64::new(now.as_nanos())))
    }

    /// Moves the clock forwards. Threads that do so at once all do.
    pub fn advance(&self, span: Nanos) {
        let later = |now| Some((Timestamp::from_nanos(now) + span).as_nanos());
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later);
    }

    /// Moves the clock to any instant, past or future.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.as_nanos(), Ordering::SeqCst);
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.0.load(Ordering::SeqCst))
    }
}
