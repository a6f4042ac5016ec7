//! Spans that have ended, until they are sent.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Thread;

use super::otlp_message::OtlpSpan;

/// The most spans that wait to be sent. What ends beyond them is counted and lost.
const MOST_SPANS: usize = 4_096;
/// So many are sent at once.
pub(super) const BATCH: usize = 512;

/// Spans that wait to be sent, and counts of those that were. Clones are one queue.
#[derive(Clone, Debug, Default)]
pub(super) struct SpanQueue(Arc<SpanQueueState>);

#[derive(Debug, Default)]
struct SpanQueueState {
    ended: Mutex<Vec<OtlpSpan>>,
    /// The thread that sends them.
    sender: OnceLock<Thread>,
    is_stopped: AtomicBool,
    sent: AtomicU64,
    dropped: AtomicU64,
}

impl SpanQueue {
    /// Has this thread woken when there is a batch.
    pub(super) fn wakes(&self, sender: Thread) {
        // There is one.
        let _ = self.0.sender.set(sender);
    }

    /// Keeps a span that has ended.
    pub(super) fn add(&self, span: OtlpSpan) {
        let waiting = {
            let mut ended = self.0.ended.lock().unwrap_or_else(PoisonError::into_inner);
            if ended.len() >= MOST_SPANS {
                return self.count(0, 1);
            }
            ended.push(span);
            ended.len()
        };
        if waiting == BATCH {
            self.wake();
        }
    }

    /// Takes the spans that have ended.
    pub(super) fn take(&self) -> Vec<OtlpSpan> {
        std::mem::take(&mut *self.0.ended.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Asks for the last spans to be sent: nobody waits for those that end from now on.
    pub(super) fn stop(&self) {
        self.0.is_stopped.store(true, Ordering::Release);
        self.wake();
    }

    /// Returns true once nobody waits for more.
    pub(super) fn is_stopped(&self) -> bool {
        self.0.is_stopped.load(Ordering::Acquire)
    }

    /// Counts spans that a collector has taken, or that are lost.
    pub(super) fn count(&self, sent: usize, dropped: usize) {
        self.0.sent.fetch_add(sent as u64, Ordering::Relaxed);
        self.0.dropped.fetch_add(dropped as u64, Ordering::Relaxed);
    }

    /// Returns how many spans were sent, and how many were lost.
    pub(super) fn read(&self) -> (u64, u64) {
        (self.0.sent.load(Ordering::Relaxed), self.0.dropped.load(Ordering::Relaxed))
    }

    fn wake(&self) {
        if let Some(sender) = self.0.sender.get() {
            sender.unpark();
        }
    }
}
