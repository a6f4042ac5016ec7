//! Keys that something was given back to.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::Timestamp;
use crate::sync::Arc;

/// Keys that something was given back to, by whatever handle, since they were last looked at: they may be as good as
/// fresh earlier than it seemed.
#[derive(Debug, Default)]
pub(crate) struct ReturnedKeys {
    hashes: Mutex<Vec<u64>>,
}

impl ReturnedKeys {
    /// Takes out up to so many of them, to be looked at.
    pub(crate) fn take_some(&self, count: usize) -> impl Iterator<Item = u64> + use<> {
        let mut hashes = self.hashes.lock();
        let rest = hashes.len().saturating_sub(count);
        hashes.split_off(rest).into_iter()
    }
}

/// Which key a limiter is that of.
#[derive(Debug)]
pub(crate) struct KeyOrigin {
    returned: Arc<ReturnedKeys>,
    hash: u64,
    /// When the limiter was made.
    pub(crate) made_at: Timestamp,
    /// The key is among the returned ones already.
    is_noted: AtomicBool,
}

impl KeyOrigin {
    pub(crate) fn new(returned: &Arc<ReturnedKeys>, hash: u64, made_at: Timestamp) -> Self {
        KeyOrigin { returned: Arc::clone(returned), hash, made_at, is_noted: AtomicBool::new(false) }
    }

    /// Notes that something was given back.
    pub(crate) fn note(&self) {
        if !self.is_noted.swap(true, Ordering::AcqRel) {
            self.returned.hashes.lock().push(self.hash);
        }
    }

    /// The key is about to be looked at: what is given back from now on is noted anew.
    pub(crate) fn clear(&self) {
        self.is_noted.store(false, Ordering::Release);
    }
}
