//! A guess at the server's time.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Instant, SystemTime};

use ratekeeper::{Nanos, Timestamp};

/// A guess at the server's time, for one purpose: to send the edges of the right windows along with a request.
///
/// No decision rests on it. It starts as the time of this process, however wrong that is; when the server says that
/// a guess was off, it is set right, and goes on by the monotonic clock.
#[derive(Debug)]
pub(crate) struct ServerClock {
    since: Instant,
    /// The server's time at `since`, in nanoseconds since the epoch.
    then: AtomicI64,
}

impl Default for ServerClock {
    fn default() -> Self {
        Self::starting_at(Timestamp::from(SystemTime::now()))
    }
}

impl ServerClock {
    /// Returns a guess that starts at `now`.
    pub(crate) fn starting_at(now: Timestamp) -> Self {
        ServerClock { since: Instant::now(), then: AtomicI64::new(now.as_nanos()) }
    }

    /// Returns about what time it is on the server, rather a little early: the edges that are sent cover what follows.
    pub(crate) fn guess(&self) -> Timestamp {
        const SLACK: Nanos = Nanos::from_secs(1);
        (Timestamp::from_nanos(self.then.load(Ordering::Relaxed)) + self.elapsed()).saturating_sub(SLACK)
    }

    /// Sets the guess right: the server's clock shows `now`.
    pub(crate) fn correct(&self, now: Timestamp) {
        self.then.store(now.saturating_sub(self.elapsed()).as_nanos(), Ordering::Relaxed);
    }

    fn elapsed(&self) -> Nanos {
        Nanos::from(self.since.elapsed())
    }
}
