//! How reloads went: counted for the metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// How many reloads succeeded and failed, and when the last one succeeded. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct ReloadCounts(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
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

    /// Counts a reload that changed nothing, because something was wrong.
    pub fn failed(&self) {
        self.0.failed.fetch_add(1, Ordering::Relaxed);
        self.0.last_failed.store(true, Ordering::Relaxed);
    }

    /// Notes that what runs now was read now.
    pub fn started(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.0.last_success.store(now.as_secs(), Ordering::Relaxed);
    }

    /// Returns what the metrics tell, or nothing without a file.
    pub fn read(&self) -> Option<ReloadReading> {
        let last_success = self.0.last_success.load(Ordering::Relaxed);
        (last_success != 0).then(|| ReloadReading {
            succeeded: self.0.succeeded.load(Ordering::Relaxed),
            failed: self.0.failed.load(Ordering::Relaxed),
            last_failed: self.0.last_failed.load(Ordering::Relaxed),
            last_success,
        })
    }
}

/// What was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReloadReading {
    /// Reloads that took effect.
    pub succeeded: u64,
    /// Reloads that changed nothing, because something was wrong.
    pub failed: u64,
    /// True if the last one failed: what runs is not what the file says.
    pub last_failed: bool,
    /// When what runs now was read, in seconds since the epoch.
    pub last_success: u64,
}
