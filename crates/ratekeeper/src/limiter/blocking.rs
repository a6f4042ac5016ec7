//! Blocking a thread on what a task would await: the same future, the same queue.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use super::error::{AcquireError, AcquireErrorKind, LimiterKind};
use crate::clock::is_in_runtime;
use crate::sync::Arc;
use crate::{Nanos, Timestamp};

#[cfg(loom)]
use loom::thread::{self, Thread};
#[cfg(not(loom))]
use std::thread::{self, Thread};

/// For how long, in real time, a thread of the runtime waits for a paused clock that does not move: long enough for
/// whoever moves it by hand, and short enough to learn what is wrong.
const PATIENCE: Duration = Duration::from_secs(1);

/// For how long a thread outside of the runtime does: the runtime may just be busy.
const PATIENCE_OUTSIDE: Duration = Duration::from_secs(10);

/// A future that a thread can wait for without a timer.
pub(crate) trait BlockingFuture: Future<Output = Result<Self::Waited, AcquireError>> + Unpin {
    /// What it waits for.
    type Waited;

    /// Says that a thread polls from now on, and whether it keeps the time itself: then no timer is started.
    fn block(&mut self, keeps_time: bool);

    /// Does what is due, and returns how long to sleep at most; `None` for until woken.
    fn turn(&mut self) -> Option<Nanos>;

    /// Returns what the clock shows, if a runtime may have stopped it.
    fn runtime_now(&self) -> Option<Timestamp>;

    /// Returns what sort of limiter it waits for.
    fn limiter(&self) -> LimiterKind;
}

struct UnparkWaker(Thread);

impl Wake for UnparkWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits on this thread. Allocates nothing if the answer is there at once.
pub(crate) fn block_on<F: BlockingFuture>(mut future: F) -> F::Output {
    let runtime_now = future.runtime_now();
    // Who waits for paused time needs a timer of the runtime that moves it.
    future.block(runtime_now.is_none());
    if let Poll::Ready(output) = pin!(&mut future).poll(&mut Context::from_waker(Waker::noop())) {
        return output;
    }
    let waker = Waker::from(Arc::new(UnparkWaker(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut watch = runtime_now.map(ClockWatch::new);
    loop {
        if let Poll::Ready(output) = pin!(&mut future).poll(&mut context) {
            return output;
        }
        let sleep = match (future.turn(), &mut watch) {
            (Some(wait), Some(watch)) => {
                let Some(patience) = watch.patience(future.runtime_now()) else {
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

/// Watches whether a runtime's clock moves.
struct ClockWatch {
    /// What it showed; none for a clock that was real time when it was looked at.
    clock: Option<Timestamp>,
    since: std::time::Instant,
    patience: Duration,
}

impl ClockWatch {
    fn new(clock: Timestamp) -> Self {
        let patience = if is_in_runtime() { PATIENCE } else { PATIENCE_OUTSIDE };
        ClockWatch { clock: Some(clock), since: std::time::Instant::now(), patience }
    }

    /// Returns how much longer to wait for the clock to move; none if that was long enough.
    fn patience(&mut self, clock: Option<Timestamp>) -> Option<Duration> {
        if clock.is_none() || clock != self.clock {
            (self.clock, self.since) = (clock, std::time::Instant::now());
        }
        self.patience.checked_sub(self.since.elapsed()).filter(|left| !left.is_zero())
    }
}
