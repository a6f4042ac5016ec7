//! How reloads of the configuration went, for the metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Counts reloads that succeeded and failed, and when the last one succeeded. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct ReloadCounts(Arc<ReloadCounters>);

#[derive(Debug, Default)]
struct ReloadCounters {
    succeeded: AtomicU64,
    failed: AtomicU64,
    last_failed: AtomicBool,
    /// Seconds since the epoch; 0 for never.
    last_success: AtomicU64,
}

impl ReloadCounts {
    /// Counts a reload that took effect. A file that was read at the start sets the time too, by
    /// [`started`](Self::started).
    pub fn succeeded(&self) {
        self.0.succeeded.fetch_add(1, Ordering::Relaxed);
        self.0.last_failed.store(false, Ordering::Relaxed);
        self.started();
    }

    /// Counts a reload that failed and changed nothing.
    pub fn failed(&self) {
        self.0.failed.fetch_add(1, Ordering::Relaxed);
        self.0.last_failed.store(true, Ordering::Relaxed);
    }

    /// Notes that the configuration in force was read now.
    pub fn started(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.0.last_success.store(now.as_secs(), Ordering::Relaxed);
    }

    /// Returns the counts; `None` if there is no configuration file.
    pub(crate) fn read(&self) -> Option<ReloadReading> {
        let last_success = self.0.last_success.load(Ordering::Relaxed);
        (last_success != 0).then(|| ReloadReading {
            succeeded: self.0.succeeded.load(Ordering::Relaxed),
            failed: self.0.failed.load(Ordering::Relaxed),
            last_failed: self.0.last_failed.load(Ordering::Relaxed),
            last_success,
        })
    }
}

/// How reloads went, at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReloadReading {
    /// Reloads that took effect.
    pub(crate) succeeded: u64,
    /// Reloads that failed and changed nothing.
    pub(crate) failed: u64,
    /// True if the last one failed: the configuration in force is not the file's.
    pub(crate) last_failed: bool,
    /// When the configuration in force was read, in seconds since the epoch.
    pub(crate) last_success: u64,
}
