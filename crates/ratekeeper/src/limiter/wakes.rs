//! Who is to be woken once the lock is released.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::Waker;

/// Wakers collected under a lock, to be woken or dropped outside of it: either may run anything, even this limiter.
#[derive(Debug, Default)]
#[must_use = "whoever is in here sleeps until it is woken"]
pub(crate) struct Wakes {
    // Most operations wake nobody or one: no allocation for them.
    first: Option<Waker>,
    rest: Vec<Waker>,
    dropped: Option<Waker>,
    more_dropped: Vec<Waker>,
}

impl Wakes {
    pub(crate) fn push(&mut self, waker: Waker) {
        match self.first {
            None => self.first = Some(waker),
            Some(_) => self.rest.push(waker),
        }
    }

    /// Keeps a waker that is no longer needed until it can be dropped.
    pub(crate) fn bury(&mut self, waker: Option<Waker>) {
        match self.dropped {
            None => self.dropped = waker,
            Some(_) => self.more_dropped.extend(waker),
        }
    }

    /// Wakes all, oldest first. One that panics keeps nobody else from being woken.
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
