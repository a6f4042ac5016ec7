//! How snapshots went, for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Counts snapshots that were written and that could not be, and files that could not be read. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct SnapshotCounts(Arc<SnapshotCounters>);

#[derive(Debug, Default)]
struct SnapshotCounters {
    succeeded: AtomicU64,
    failed: AtomicU64,
    unreadable: AtomicU64,
    state: Mutex<SnapshotState>,
}

/// What is known of the newest snapshot.
#[derive(Clone, Copy, Debug, Default)]
struct SnapshotState {
    /// When what is in it was read from the store, since the epoch.
    last: Option<Duration>,
    took: Duration,
    bytes: u64,
    interval: Duration,
}

impl SnapshotCounts {
    /// Notes how often state is to be written; zero: on stop alone.
    pub(crate) fn is_due_every(&self, interval: Duration) {
        self.state(|state| state.interval = interval);
    }

    /// Notes that state was read that had been written then.
    pub(crate) fn restored(&self, written: SystemTime) {
        self.state(|state| state.last = written.duration_since(UNIX_EPOCH).ok());
    }

    /// Counts a file that was there and could not be read.
    pub(crate) fn unreadable(&self) {
        self.0.unreadable.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a snapshot of so many bytes, which took this long.
    pub(crate) fn succeeded(&self, bytes: usize, took: Duration) {
        self.0.succeeded.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok();
        self.state(|state| {
            // What is in it is as old as its beginning.
            state.last = now.map(|now| now.saturating_sub(took));
            (state.took, state.bytes) = (took, bytes as u64);
        });
    }

    /// Counts a snapshot that could not be written.
    pub(crate) fn failed(&self) {
        self.0.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counts at this instant.
    pub(crate) fn read(&self) -> SnapshotReading {
        let SnapshotState { last, took, bytes, interval } = self.state(|state| *state);
        SnapshotReading {
            succeeded: self.0.succeeded.load(Ordering::Relaxed),
            failed: self.0.failed.load(Ordering::Relaxed),
            unreadable: self.0.unreadable.load(Ordering::Relaxed),
            last,
            took,
            bytes,
            interval,
        }
    }

    fn state<T>(&self, with: impl FnOnce(&mut SnapshotState) -> T) -> T {
        with(&mut self.0.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How snapshots went, at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotReading {
    /// Snapshots that were written.
    pub(crate) succeeded: u64,
    /// Snapshots that could not be written.
    pub(crate) failed: u64,
    /// Files that were there at the start and could not be read.
    pub(crate) unreadable: u64,
    /// When the state in the newest snapshot was read from the store, since the epoch; none if there is no snapshot yet.
    pub(crate) last: Option<Duration>,
    /// How long the last one took.
    pub(crate) took: Duration,
    /// The size of the last one.
    pub(crate) bytes: u64,
    /// How often state is written; zero: on stop alone.
    pub(crate) interval: Duration,
}
