//! The signal that it is over.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Raised once, for all event loops.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    raised: AtomicBool,
    notify: Notify,
}

impl Stop {
    /// Wakes everyone who waits for it.
    pub(crate) fn raise(&self) {
        self.raised.store(true, Ordering::Release);
        self.notify.notify_waiters();
    }

    /// Whether it is over.
    #[inline]
    pub(crate) fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Acquire)
    }

    /// Wakes the task that polls it when it is over. To be asked for before [`is_raised`](Stop::is_raised), so that
    /// nothing falls between the two.
    pub(crate) fn bell(&self) -> Notified<'_> {
        self.notify.notified()
    }

    /// Waits until it is over.
    pub(crate) async fn wait(&self) {
        let mut bell = pin!(self.bell());
        // From here on no notification is missed.
        bell.as_mut().enable();
        if !self.is_raised() {
            bell.await;
        }
    }
}
