//! The future of a grant.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use super::core::Core;
use super::desk::{Collected, Entry, Request};
use super::error::{AcquireError, LimiterKind};
use super::park::{Blockable, block_on};
use super::queue::{Kind, Place};
use super::timer;
use crate::sync::Arc;
use crate::{Cost, Decision, Nanos, Timestamp};

/// Numbers every request that waits, in the order in which they came, over all limiters of the process.
static TICKETS: AtomicU64 = AtomicU64::new(1);

pub(crate) fn ticket() -> u64 {
    TICKETS.fetch_add(1, Ordering::Relaxed)
}

/// Whose limiter it is: borrowed from a handle, or looked up by key.
#[derive(Clone, Debug)]
pub(crate) enum Held<'a> {
    Borrowed(&'a Arc<Core>),
    Owned(Arc<Core>),
}

impl std::ops::Deref for Held<'_> {
    type Target = Arc<Core>;

    fn deref(&self) -> &Arc<Core> {
        match self {
            Held::Borrowed(core) => core,
            Held::Owned(core) => core,
        }
    }
}

/// Waits in turn; made by `acquire`.
///
/// Nothing happens before it is first polled: that is when its place in the queue is taken, and when the time of
/// [`within`](Acquire::within) begins. Dropping it gives the place up, and hands on a grant that was not taken up.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Acquire<'a> {
    core: Result<Held<'a>, AcquireError>,
    cost: Cost,
    within: Option<Nanos>,
    stage: Stage,
    /// A thread polls, and keeps the time itself.
    blocking: bool,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Start,
    Waiting(Place),
    Done,
}

impl<'a> Acquire<'a> {
    pub(crate) fn new(core: Held<'a>, cost: Cost) -> Self {
        Acquire { core: Ok(core), cost, within: None, stage: Stage::Start, blocking: false }
    }

    /// There is no limiter to wait for.
    pub(crate) fn failed(error: AcquireError, cost: Cost) -> Self {
        Acquire { core: Err(error), cost, within: None, stage: Stage::Start, blocking: false }
    }

    /// Waits no longer than this. If that cannot be enough, it fails at once; nothing at all means: now or never.
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
    /// Do not block the thread of an asynchronous runtime: other tasks stand still. Where tokio's time is paused, that
    /// time would stand still too: this fails with
    /// [`ClockStopped`](super::AcquireErrorKind::ClockStopped) after a second. A thread outside of the runtime may wait
    /// for paused time, if the runtime is driven: it has ten seconds to move it.
    pub fn wait(self) -> Result<Decision, AcquireError> {
        block_on(self)
    }
}

impl Future for Acquire<'_> {
    type Output = Result<Decision, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let core = match &this.core {
            Ok(core) => core,
            Err(error) => return Poll::Ready(Err(*error)),
        };
        if let Stage::Start = this.stage {
            if let Some(decision) = core.try_fast(this.cost).filter(|decision| decision.allowed) {
                this.stage = Stage::Done;
                return Poll::Ready(Ok(decision));
            }
            let (cost, within) = (this.cost, this.within);
            let entry = core.with(|desk, now, wakes| {
                let deadline = within.map(|within| now + within);
                desk.enter(Request { cost, deadline, ticket: ticket(), kind: Kind::Solo }, now, wakes)
            });
            this.stage = Stage::Done;
            match entry {
                Ok(Entry::Waiting(place)) => this.stage = Stage::Waiting(place),
                Ok(Entry::Granted(decision)) => return Poll::Ready(Ok(decision)),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        let Stage::Waiting(place) = this.stage else { panic!("polled after it was ready") };
        let (outcome, hire) = core.poll(place, cx.waker(), !this.blocking);
        if hire {
            timer::hire(core);
        }
        let Some(outcome) = outcome else { return Poll::Pending };
        this.stage = Stage::Done;
        Poll::Ready(match outcome {
            Collected::Granted(decision, _) => Ok(decision),
            Collected::Failed(error) => Err(error),
        })
    }
}

impl Blockable for Acquire<'_> {
    type Grant = Decision;

    fn block(&mut self, keeps_time: bool) {
        self.blocking = keeps_time;
    }

    fn turn(&mut self) -> Option<Nanos> {
        let (Ok(core), Stage::Waiting(place)) = (&self.core, self.stage) else { return Some(Nanos::ZERO) };
        core.turn_of(place)
    }

    fn paused_clock(&self) -> Option<Timestamp> {
        self.core.as_ref().ok()?.paused_now()
    }

    fn limiter(&self) -> LimiterKind {
        self.core.as_ref().map_or_else(AcquireError::limiter, |core| core.kind)
    }
}

impl Drop for Acquire<'_> {
    fn drop(&mut self) {
        if let (Ok(core), Stage::Waiting(place)) = (&self.core, self.stage) {
            core.with(|desk, now, wakes| desk.leave(place, now, wakes));
        }
    }
}
