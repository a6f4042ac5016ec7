//! Blocking a thread on what a task would await: the same future, the same queue.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use super::error::{AcquireError, AcquireErrorKind, LimiterKind};
use crate::sync::Arc;
use crate::{Nanos, Timestamp};

#[cfg(loom)]
use loom::thread::{self, Thread};
#[cfg(not(loom))]
use std::thread::{self, Thread};

/// For how long, in real time, a thread of the runtime waits for a paused clock that does not move: long enough for
/// whoever moves it by hand, and short enough to learn what is wrong.
const PATIENCE: Duration = Duration::from_secs(1);

/// For how long a thread outside of the runtime does, which may just be busy.
const PATIENCE_OUTSIDE: Duration = Duration::from_secs(10);

/// A future that a thread can wait for without anybody keeping the time for it.
pub(crate) trait Blockable: Future<Output = Result<Self::Grant, AcquireError>> + Unpin {
    /// What it waits for.
    type Grant;

    /// Says that a thread polls from now on, and whether it keeps the time itself: then nobody is hired to.
    fn block(&mut self, keeps_time: bool);

    /// Does what is due, and tells how long to sleep at most; none for until woken.
    fn turn(&mut self) -> Option<Nanos>;

    /// What the clock shows, if it moves only when somebody moves it.
    fn paused_clock(&self) -> Option<Timestamp>;

    /// What it waits for.
    fn limiter(&self) -> LimiterKind;
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits on this thread.
pub(crate) fn block_on<F: Blockable>(mut future: F) -> F::Output {
    let paused = future.paused_clock();
    // Who waits for paused time needs a timer of the runtime that moves it.
    future.block(paused.is_none());
    // A free limiter answers at once, and nothing is allocated for it.
    if let Poll::Ready(output) = pin!(&mut future).poll(&mut Context::from_waker(Waker::noop())) {
        return output;
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut watch = paused.map(Watch::new);
    loop {
        if let Poll::Ready(output) = pin!(&mut future).poll(&mut context) {
            return output;
        }
        let sleep = match (future.turn(), &mut watch) {
            (Some(wait), Some(watch)) => {
                let Some(patience) = watch.patience(future.paused_clock()) else {
                    return Err(AcquireError::new(AcquireErrorKind::ClockStopped, future.limiter()));
                };
                Some(patience.min(wait.into()))
            }
            (wait, _) => wait.map(Duration::from),
        };
        match sleep {
            Some(Duration::ZERO) => {}
            #[cfg(not(loom))]
            Some(wait) => thread::park_timeout(wait),
            #[cfg(loom)]
            Some(_) => thread::yield_now(),
            None => thread::park(),
        }
    }
}

/// Watches whether a paused clock moves.
struct Watch {
    /// What it showed; none for a clock that ran when it was looked at.
    clock: Option<Timestamp>,
    since: std::time::Instant,
    patience: Duration,
}

impl Watch {
    fn new(clock: Timestamp) -> Self {
        let patience = if crate::clock::is_in_runtime() { PATIENCE } else { PATIENCE_OUTSIDE };
        Watch { clock: Some(clock), since: std::time::Instant::now(), patience }
    }

    /// How much longer to wait for the clock to move; none if that was long enough.
    fn patience(&mut self, clock: Option<Timestamp>) -> Option<Duration> {
        if clock.is_none() || clock != self.clock {
            (self.clock, self.since) = (clock, std::time::Instant::now());
        }
        self.patience.checked_sub(self.since.elapsed()).filter(|left| !left.is_zero())
    }
}
