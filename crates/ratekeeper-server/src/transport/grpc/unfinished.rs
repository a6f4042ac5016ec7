//! Bytes of messages that are not complete yet, which have to be kept until they are.
//!
//! Each connection may keep some for itself. What exceeds that is taken from a pool that all connections of an event loop
//! share: many large requests at once are served, and a flood of messages that are never finished is bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::bounds::{MAX_MESSAGE, MAX_RLS_MESSAGE};

/// Bytes that a connection may keep in any case: one message of the largest kind, and one of the others.
const OWN: usize = MAX_RLS_MESSAGE + MAX_MESSAGE;
/// Bytes that all connections of an event loop may keep beyond that.
const POOL: usize = 32 * 1024 * 1024;

/// What connections may keep beyond what each has for itself.
#[derive(Debug)]
pub(super) struct MessagePool {
    free: AtomicUsize,
}

impl Default for MessagePool {
    fn default() -> Self {
        MessagePool { free: AtomicUsize::new(POOL) }
    }
}

/// What the unfinished messages of one connection take.
#[derive(Debug)]
pub(super) struct UnfinishedBytes {
    kept: AtomicUsize,
    pool: Arc<MessagePool>,
}

impl UnfinishedBytes {
    pub(super) fn new(pool: &Arc<MessagePool>) -> Arc<Self> {
        Arc::new(UnfinishedBytes { kept: AtomicUsize::new(0), pool: Arc::clone(pool) })
    }

    /// Keeps so many bytes more. Returns false if there is no room for them.
    fn keep(&self, bytes: usize) -> bool {
        // All calls of a connection are polled by its task: nobody else writes this meanwhile.
        let before = self.kept.load(Ordering::Relaxed);
        let after = before + bytes;
        let borrowed = beyond(after) - beyond(before);
        let take = |free: usize| free.checked_sub(borrowed);
        if borrowed > 0 && self.pool.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            return false;
        }
        self.kept.store(after, Ordering::Relaxed);
        true
    }

    /// Keeps so many bytes less.
    fn let_go(&self, bytes: usize) {
        let before = self.kept.load(Ordering::Relaxed);
        let after = before.saturating_sub(bytes);
        self.kept.store(after, Ordering::Relaxed);
        self.pool.free.fetch_add(beyond(before) - beyond(after), Ordering::Relaxed);
    }
}

/// What one request takes of it.
#[derive(Debug)]
pub(super) struct KeptBytes {
    unfinished: Arc<UnfinishedBytes>,
    bytes: usize,
}

impl KeptBytes {
    pub(super) fn new(unfinished: Arc<UnfinishedBytes>) -> Self {
        KeptBytes { unfinished, bytes: 0 }
    }

    /// Keeps so many bytes more. Returns false if there is no room for them.
    pub(super) fn keep(&mut self, bytes: usize) -> bool {
        let is_kept = self.unfinished.keep(bytes);
        self.bytes += if is_kept { bytes } else { 0 };
        is_kept
    }

    /// Keeps so many bytes less, at most all.
    pub(super) fn let_go(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.unfinished.let_go(bytes);
    }
}

impl Drop for KeptBytes {
    fn drop(&mut self) {
        self.unfinished.let_go(self.bytes);
    }
}

fn beyond(kept: usize) -> usize {
    kept.saturating_sub(OWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_exceeds_a_connections_own_is_taken_from_the_pool_and_given_back() {
        let pool = Arc::new(MessagePool::default());
        let (greedy, modest) = (UnfinishedBytes::new(&pool), UnfinishedBytes::new(&pool));
        assert!(greedy.keep(OWN - 1) && greedy.keep(1));
        assert_eq!(pool.free.load(Ordering::Relaxed), POOL, "its own comes first");
        assert!(greedy.keep(POOL) && !greedy.keep(1), "and then all that there is");
        assert!(modest.keep(OWN) && !modest.keep(1), "others still have their own");
        greedy.let_go(10);
        assert!(modest.keep(10) && !modest.keep(1));
        modest.let_go(OWN + 10);
        greedy.let_go(OWN + POOL - 10);
        assert_eq!(pool.free.load(Ordering::Relaxed), POOL);
    }
}
