//! Who is to be woken once the lock is released.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::Waker;

use crate::Timestamp;

/// The instant at which a wait queue is worked on, and who is to be woken afterwards.
#[derive(Debug)]
pub(crate) struct QueueMoment<'a> {
    pub(crate) now: Timestamp,
    pub(crate) wakes: &'a mut WakeList,
}

/// Wakers collected under a lock, to be woken or dropped outside of it: either may run anything, even the same limiter.
#[derive(Debug, Default)]
#[must_use = "whoever is in here sleeps until it is woken"]
pub(crate) struct WakeList {
    // Most operations wake nobody or one: no allocation for them.
    first: Option<Waker>,
    rest: Vec<Waker>,
    dropped: Option<Waker>,
    more_dropped: Vec<Waker>,
}

impl WakeList {
    /// Adds one to be woken.
    pub(crate) fn push(&mut self, waker: Waker) {
        match self.first {
            None => self.first = Some(waker),
            Some(_) => self.rest.push(waker),
        }
    }

    /// Adds one to be dropped, once that is safe.
    pub(crate) fn discard(&mut self, waker: Option<Waker>) {
        match self.dropped {
            None => self.dropped = waker,
            Some(_) => self.more_dropped.extend(waker),
        }
    }

    /// Wakes all, oldest first.
    ///
    /// # Panics
    ///
    /// If a waker panics: with the first such panic, once all have been woken.
    pub(crate) fn wake(self) {
        let mut panicked = None;
        for waker in self.first.into_iter().chain(self.rest) {
            let woken = catch_unwind(AssertUnwindSafe(|| waker.wake()));
            panicked = panicked.or(woken.err());
        }
        if let Some(panic) = panicked {
            resume_unwind(panic);
        }
    }
}
