//! Spans of time that a server sets, and how long they may be.

use std::time::Duration;

use tokio::time::Instant;

use crate::instant::later;

/// A span of time that the server has set. Answers may prolong it, but not for ever: a server that asks for another
/// minute with every answer would never be sent anything again.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerSpan {
    began: Instant,
    pub(super) until: Instant,
}

impl ServerSpan {
    pub(super) fn new(now: Instant, until: Instant) -> Self {
        ServerSpan { began: now, until }
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.until <= now
    }

    /// Returns true if every request that waited for its end has been sent, so that what is said now is said anew: none
    /// comes back later than the `jitter` after it.
    pub(super) fn is_history(&self, now: Instant, jitter: Duration) -> bool {
        later(self.until, jitter) < now
    }

    /// Prolongs it until then, but to no longer than `longest` in all.
    pub(super) fn prolong(&mut self, until: Instant, longest: Duration) {
        self.until = self.until.max(until.min(later(self.began, longest)));
    }

    /// Returns how much is left; `None` if it is over.
    pub(super) fn left(&self, now: Instant) -> Option<Duration> {
        self.until.checked_duration_since(now).filter(|left| !left.is_zero())
    }
}

/// How long a server can make us wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitBounds {
    /// The longest time that it can set.
    pub(super) longest: Duration,
    /// How much later than asked a request comes back, at most.
    pub(super) jitter: Duration,
}
