//! How many requests were recorded, and how many could not be.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of recorded requests. Clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordCounts(Arc<RecordCounters>);

#[derive(Debug, Default)]
struct RecordCounters {
    written: AtomicU64,
    dropped: AtomicU64,
}

impl RecordCounts {
    /// Counts requests that were written.
    pub(super) fn written(&self, requests: u64) {
        self.0.written.fetch_add(requests, Ordering::Relaxed);
    }

    /// Counts requests that were not: too many waited to be written, or the file cannot be written.
    pub(super) fn dropped(&self, requests: u64) {
        self.0.dropped.fetch_add(requests, Ordering::Relaxed);
    }

    /// Returns how many were written, and how many were not.
    pub(crate) fn read(&self) -> (u64, u64) {
        (self.0.written.load(Ordering::Relaxed), self.0.dropped.load(Ordering::Relaxed))
    }
}
