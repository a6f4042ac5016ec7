//! About what time it is on the server.

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
    /// What the server's clock would have shown at `since`, in nanoseconds.
    then: AtomicI64,
}

impl Default for ServerClock {
    fn default() -> Self {
        Self::starting_at(Timestamp::from(SystemTime::now()))
    }
}

impl ServerClock {
    /// A guess that starts from a clock of this process that shows `now`.
    pub(crate) fn starting_at(now: Timestamp) -> Self {
        ServerClock { since: Instant::now(), then: AtomicI64::new(now.as_nanos()) }
    }

    /// About what time it is there, rather a little early: the edges that are sent cover what follows.
    pub(crate) fn guess(&self) -> Timestamp {
        const SLACK: Nanos = Nanos::from_secs(1);
        (Timestamp::from_nanos(self.then.load(Ordering::Relaxed)) + self.elapsed()).saturating_sub(SLACK)
    }

    /// It was this time there just now.
    pub(crate) fn correct(&self, now: Timestamp) {
        self.then.store(now.saturating_sub(self.elapsed()).as_nanos(), Ordering::Relaxed);
    }

    fn elapsed(&self) -> Nanos {
        Nanos::from(self.since.elapsed())
    }
}
