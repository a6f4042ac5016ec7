//! Who is to be woken once the lock is released.

use std::task::Waker;

/// Wakers collected under a lock, to be woken or dropped outside of it: either may run anything, even this limiter.
#[derive(Debug, Default)]
#[must_use = "whoever is in here sleeps until it is woken"]
pub(crate) struct Wakes {
    // Most operations wake nobody or one: no allocation for them.
    first: Option<Waker>,
    rest: Vec<Waker>,
    dropped: Option<Waker>,
}

impl Wakes {
    pub(crate) fn push(&mut self, waker: Waker) {
        match self.first {
            None => self.first = Some(waker),
            Some(_) => self.rest.push(waker),
        }
    }

    /// Keeps a waker that is no longer needed until it can be dropped. Operations that replace several replace
    /// copies of the same.
    pub(crate) fn bury(&mut self, waker: Option<Waker>) {
        if waker.is_some() {
            self.dropped = waker;
        }
    }

    /// Wakes all, oldest first.
    pub(crate) fn wake(self) {
        self.first.into_iter().chain(self.rest).for_each(Waker::wake);
    }
}
