//! Blocking a thread on what a task would await: the same future, the same queue.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Wake, Waker};

use super::sync::Arc;
use crate::Nanos;

#[cfg(loom)]
use loom::thread::{self, Thread};
#[cfg(not(loom))]
use std::thread::{self, Thread};

/// A future that a thread can wait for without anybody keeping the time for it.
pub(crate) trait Blockable: Future + Unpin {
    /// Says that a thread polls from now on: nobody is hired to keep the time.
    fn block(&mut self);

    /// Does what is due, and tells how long to sleep at most; none for until woken.
    fn turn(&mut self) -> Option<Nanos>;
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits on this thread.
pub(crate) fn block_on<F: Blockable>(mut future: F) -> F::Output {
    future.block();
    // A free limiter answers at once, and nothing is allocated for it.
    if let Poll::Ready(output) = pin!(&mut future).poll(&mut Context::from_waker(Waker::noop())) {
        return output;
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = pin!(&mut future).poll(&mut context) {
            return output;
        }
        match future.turn() {
            Some(Nanos::ZERO) => {}
            #[cfg(not(loom))]
            Some(wait) => thread::park_timeout(wait.as_duration()),
            #[cfg(loom)]
            Some(_) => thread::yield_now(),
            None => thread::park(),
        }
    }
}
