//! The signal that the server stops.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// A flag that is raised once, for all event loops, and wakes everyone who waits for it.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    raised: AtomicBool,
    notify: Notify,
}

impl Stop {
    /// Raises the flag, and wakes everyone who waits for it.
    pub(crate) fn raise(&self) {
        self.raised.store(true, Ordering::Release);
        self.notify.notify_waiters();
    }

    /// Returns true once the flag was raised.
    #[inline]
    pub(crate) fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Acquire)
    }

    /// Returns what wakes its task when the flag is raised; for [`StopWatch::new`].
    pub(crate) fn bell(&self) -> Notified<'_> {
        self.notify.notified()
    }

    /// Waits until the flag is raised.
    pub(crate) async fn wait(&self) {
        let mut bell = pin!(self.bell());
        // Registered before the flag is read: a `raise` between the two is not missed.
        bell.as_mut().enable();
        if !self.is_raised() {
            bell.await;
        }
    }
}

/// Polls the work of one connection, and has it polled again when the server stops.
///
/// Registers with [`Stop`] at the first poll and never again: all connections of all loops share that list and its
/// lock, so a connection must not touch it for every read. That is enough as long as the same task polls.
pub(crate) struct StopWatch<'b, 's> {
    stop: &'s Stop,
    bell: Pin<&'b mut Notified<'s>>,
    is_registered: bool,
}

impl<'b, 's> StopWatch<'b, 's> {
    /// Watches this flag by its bell, which the caller pins.
    pub(crate) fn new(stop: &'s Stop, bell: Pin<&'b mut Notified<'s>>) -> Self {
        StopWatch { stop, bell, is_registered: false }
    }

    /// Waits for the work, which is told at each poll whether the server stops.
    pub(crate) async fn poll<T>(&mut self, mut work: impl FnMut(&mut Context<'_>, bool) -> Poll<T>) -> T {
        poll_fn(|context| {
            if !self.is_registered {
                self.is_registered = true;
                let _ = self.bell.as_mut().poll(context);
            }
            work(context, self.stop.is_raised())
        })
        .await
    }
}
