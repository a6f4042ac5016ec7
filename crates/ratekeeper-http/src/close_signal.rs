//! What can be closed while others wait.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use tokio::sync::Notify;

/// Whether something was closed; those who wait are woken then.
#[derive(Debug, Default)]
pub(crate) struct CloseSignal {
    is_closed: AtomicBool,
    news: Notify,
}

impl CloseSignal {
    /// Closes, for good. Whoever waits in [`unless_closed`](CloseSignal::unless_closed) stops waiting.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.news.notify_waiters();
    }

    /// Returns true once it was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Waits for the future; `None` once this is closed, and then the future is dropped.
    pub(crate) async fn unless_closed<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        let mut news = pin!(self.news.notified());
        poll_fn(|context| {
            if self.is_closed() {
                return Poll::Ready(None);
            }
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            // Looked at again after having begun to listen: it may have been closed in between.
            if news.as_mut().poll(context).is_ready() || self.is_closed() {
                return Poll::Ready(None);
            }
            Poll::Pending
        })
        .await
    }
}
