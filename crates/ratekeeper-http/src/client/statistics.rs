//! What a client has sent, and what it has not.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratekeeper::limiter::LimiterStatistics;

/// What a [`Pace`](super::Pace) has done so far, over all hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PaceStatistics {
    /// Requests that were sent; one that was sent again counts once for each time.
    pub sent: u64,
    /// Those of them that were sent again.
    pub retried: u64,
    /// Requests that were not sent.
    pub rejected: u64,
    /// How many are on their way.
    pub in_flight: u64,
    /// How many wait to be sent.
    pub waiting: u64,
    /// How many hosts are remembered.
    pub hosts: usize,
}

/// Where one host stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostStatistics {
    /// The client's own limit; none if there is none.
    pub local: Option<LimiterStatistics>,
    /// How many are on their way.
    pub in_flight: u64,
    /// For how long the server has asked to be left alone.
    pub paused_for: Option<Duration>,
    /// How many more the server has said that it takes, and for how long that holds.
    pub budget: Option<(u64, Duration)>,
}

/// Counts for [`PaceStatistics`].
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) sent: AtomicU64,
    pub(super) retried: AtomicU64,
    pub(super) rejected: AtomicU64,
    pub(super) waiting: AtomicU64,
}

impl Counters {
    /// One waits, until what this returns is dropped.
    pub(super) fn wait(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(self)
    }
}

/// One that waits.
pub(super) struct Waiting<'a>(&'a Counters);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
