//! The future of a grant.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::blocking::{BlockingFuture, block_on};
use super::core::WordOutcome;
use super::core_ref::CoreRef;
use super::error::{AcquireError, LimiterKind};
use super::queue::{Admission, WaitOutcome, WaitRequest, WaiterId, WaiterKind, ticket};
use super::timer;
use crate::{Cost, Decision, Nanos, Timestamp};

/// A future that waits in turn, and yields the [`Decision`] by which it was granted; made by `acquire`.
///
/// Nothing happens before it is first polled: that is when it enters the queue, and when the time of
/// [`within`](Acquire::within) begins. On a free limiter it is ready at once, and neither allocates nor starts a timer.
///
/// # Cancel safety
///
/// Dropping it leaves the queue and takes nothing. A grant that was on its way to it goes to the next in turn. A new
/// `acquire` starts at the end of the queue: to keep the turn over a `select!`, keep the future and poll it again.
///
/// # Panics
///
/// If it is polled after it was ready, or if it has to wait and the process can start no thread to keep the time.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Acquire<'a> {
    // Boxed, because it is seldom there and every waiter would have to have room for it.
    core: Result<CoreRef<'a>, Box<AcquireError>>,
    cost: Cost,
    within: Option<Nanos>,
    stage: AcquireStage,
    /// A thread polls, and keeps the time itself.
    blocking: bool,
}

#[derive(Clone, Copy, Debug)]
enum AcquireStage {
    Start,
    Waiting(WaiterId),
    Done,
}

impl<'a> Acquire<'a> {
    pub(crate) fn new(core: CoreRef<'a>, cost: Cost) -> Self {
        Acquire { core: Ok(core), cost, within: None, stage: AcquireStage::Start, blocking: false }
    }

    /// Fails when polled: there is no limiter to wait for.
    pub(crate) fn failed(error: AcquireError, cost: Cost) -> Self {
        Acquire {
            core: Err(Box::new(error)),
            cost,
            within: None,
            stage: AcquireStage::Start,
            blocking: false,
        }
    }

    /// Waits no longer than this, counted from the first poll. If that cannot be enough, it fails at once; a time of zero
    /// means now or never.
    pub fn within(mut self, time: Duration) -> Self {
        self.within = Some(time.into());
        self
    }

    /// Waits on this thread instead of in a task: in the same queue, and without any runtime.
    ///
    /// ```
    /// use ratekeeper::Limiter;
    /// let limiter = Limiter::new("1000/s burst 1".parse()?)?;
    /// for _ in 0..3 {
    ///     limiter.acquire(1).wait()?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Do not block the thread of an asynchronous runtime: other tasks stand still.
    ///
    /// # Errors
    ///
    /// As the future. Where tokio's time is paused, a thread of its runtime that waits keeps that time from moving: this
    /// fails with [`ClockStopped`](super::AcquireErrorKind::ClockStopped) after a second. A thread outside of the runtime
    /// may wait for paused time, if the runtime is driven: it has ten seconds to move it.
    pub fn wait(self) -> Result<Decision, AcquireError> {
        block_on(self)
    }

    // Out of line: inlined, the queue's registers would be saved on the way past it, too.
    #[inline(never)]
    fn wait_in_turn(&mut self, cx: &mut Context<'_>) -> Poll<Result<Decision, AcquireError>> {
        let core = match &self.core {
            Ok(core) => core,
            Err(error) => return Poll::Ready(Err(**error)),
        };
        if let AcquireStage::Start = self.stage {
            let (cost, within) = (self.cost, self.within);
            let admission = core.with(|queue, at| {
                let deadline = within.map(|within| at.now + within);
                let kind = WaiterKind::Single;
                queue.enter(WaitRequest { cost, deadline, ticket: ticket(), kind }, at)
            });
            self.stage = AcquireStage::Done;
            match admission {
                Ok(Admission::Waiting(id)) => self.stage = AcquireStage::Waiting(id),
                Ok(Admission::Granted(decision)) => return Poll::Ready(Ok(decision)),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        let AcquireStage::Waiting(id) = self.stage else { panic!("polled after it was ready") };
        let (outcome, starts_timer) = core.poll(id, cx.waker(), !self.blocking);
        if starts_timer {
            timer::start(core);
        }
        let Some(outcome) = outcome else { return Poll::Pending };
        self.stage = AcquireStage::Done;
        Poll::Ready(match outcome {
            WaitOutcome::Granted(decision, _) => Ok(decision),
            WaitOutcome::Failed(error) => Err(error),
        })
    }
}

impl Future for Acquire<'_> {
    type Output = Result<Decision, AcquireError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let (AcquireStage::Start, Ok(core)) = (this.stage, &this.core)
            && let WordOutcome::Passed(decision) = core.take_from_word(this.cost)
        {
            this.stage = AcquireStage::Done;
            return Poll::Ready(Ok(decision));
        }
        this.wait_in_turn(cx)
    }
}

impl BlockingFuture for Acquire<'_> {
    type Waited = Decision;

    fn block(&mut self, keeps_time: bool) {
        self.blocking = keeps_time;
    }

    fn turn(&mut self) -> Option<Nanos> {
        let (Ok(core), AcquireStage::Waiting(id)) = (&self.core, self.stage) else {
            return Some(Nanos::ZERO);
        };
        core.turn_of_thread(id)
    }

    fn runtime_now(&self) -> Option<Timestamp> {
        self.core.as_ref().ok()?.clock.runtime_now()
    }

    fn limiter(&self) -> LimiterKind {
        self.core.as_ref().map_or_else(|error| error.limiter(), |core| core.kind)
    }
}

impl Drop for Acquire<'_> {
    fn drop(&mut self) {
        if let (Ok(core), AcquireStage::Waiting(id)) = (&self.core, self.stage) {
            core.with(|queue, at| queue.leave(id, at));
        }
    }
}
