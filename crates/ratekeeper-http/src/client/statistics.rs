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
    /// Requests that were sent again; `sent` counts them too.
    pub retried: u64,
    /// Requests that were not sent, because they would have had to wait too long or the pace was closed.
    pub rejected: u64,
    /// Requests that are on their way.
    pub in_flight: u64,
    /// Requests that wait to be sent.
    pub waiting: u64,
    /// How many hosts are remembered.
    pub hosts: usize,
}

/// What is known of one host's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostStatistics {
    /// Statistics of the client's own limit, if there is one.
    pub local: Option<LimiterStatistics>,
    /// Requests that are on their way.
    pub in_flight: u64,
    /// For how long the server has asked to be left alone.
    pub paused_for: Option<Duration>,
    /// How many more the server has said that it takes, and for how long that holds.
    pub budget: Option<(u64, Duration)>,
}

/// Counts for [`PaceStatistics`].
#[derive(Debug, Default)]
pub(super) struct PaceCounters {
    pub(super) sent: AtomicU64,
    pub(super) retried: AtomicU64,
    pub(super) rejected: AtomicU64,
    pub(super) waiting: AtomicU64,
}

impl PaceCounters {
    /// Counts one that waits, until the guard is dropped.
    pub(super) fn wait(&self) -> WaitingGuard<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        WaitingGuard(self)
    }
}

/// Counts one that waits, until it is dropped.
pub(super) struct WaitingGuard<'a>(&'a PaceCounters);

impl Drop for WaitingGuard<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
