//! Waiting for several limiters at once.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::all_parts::AllParts;
use super::blocking::{BlockingFuture, block_on};
use super::core::LockedQueue;
use super::error::{AcquireError, AcquireErrorKind, LimiterKind};
use super::granted::Granted;
use super::queue::{Admission, WaitRequest, WaiterId, WaiterKind, WakeList, ticket};
use super::statistics::LimiterStatistics;
use super::timer;
use crate::{Cost, Decision, Nanos, Reason, Timestamp};

/// A future that waits in turn for all of several limiters; made by [`All::acquire`](super::All::acquire).
///
/// Once its turn has come at one of them it decides by itself, when it is polled: one that is kept but not polled holds
/// up everybody behind it there. Poll it, or drop it.
///
/// # Cancel safety
///
/// Dropping it leaves every queue, and takes nothing from any limiter.
///
/// # Panics
///
/// If it is polled after it was ready.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct AcquireAll<'a> {
    all: &'a AllParts,
    cost: Cost,
    within: Option<Nanos>,
    stage: AllStage,
    stands: Vec<Stand>,
    /// It has come back to where its turn had come before: it leaves no queue any more.
    stays: bool,
    blocking: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AllStage {
    /// Not polled yet.
    Start,
    /// Of this age.
    Waiting(u64),
    Done,
}

/// How one who waits for several stands with one of them.
#[derive(Clone, Copy, Debug)]
struct Stand {
    waiter: Option<WaiterId>,
    visited: bool,
    /// By this limiter's clock.
    deadline: Option<Timestamp>,
}

impl<'a> AcquireAll<'a> {
    pub(super) fn new(all: &'a AllParts, cost: Cost) -> Self {
        let (within, stage, stands) = (None, AllStage::Start, Vec::new());
        AcquireAll { all, cost, within, stage, stands, stays: false, blocking: false }
    }

    /// Waits no longer than this, counted from the first poll. If that cannot be enough, it fails at once.
    pub fn within(mut self, time: Duration) -> Self {
        self.within = Some(time.into());
        self
    }

    /// Waits on this thread instead of in a task: in the same queues, and without any runtime.
    ///
    /// # Errors
    ///
    /// As [`Acquire::wait`](super::Acquire::wait).
    pub fn wait(self) -> Result<Granted, AcquireError> {
        block_on(self)
    }

    /// One try with all locks held: nothing changes between the look and the leap.
    fn attempt(
        &mut self,
        ticket: u64,
        locked: &mut [LockedQueue<'_>],
        waker: &Waker,
        wakes: &mut WakeList,
    ) -> Poll<Result<Decision, AcquireError>> {
        if let Some(error) = self.failure(locked) {
            self.withdraw(locked, wakes);
            return Poll::Ready(Err(error));
        }
        let decisions = self.all.judge(locked, self.cost, ticket);
        let Some(at) = longest(&decisions) else {
            let decision = self.all.take(locked, self.cost);
            self.withdraw(locked, wakes);
            return Poll::Ready(Ok(decision));
        };
        if let Err(error) = self.stand_at(at, ticket, locked, wakes) {
            self.withdraw(locked, wakes);
            return Poll::Ready(Err(error.of_part(at)));
        }
        for (stand, locked) in self.stands.iter().zip(locked) {
            if let Some(waiter) = stand.waiter {
                locked.queue().listen(waiter, waker, wakes);
            }
        }
        Poll::Pending
    }

    /// Why it was sent away from one of the queues it stands in, if it was.
    fn failure(&self, locked: &mut [LockedQueue<'_>]) -> Option<AcquireError> {
        let mut stands = self.stands.iter().zip(locked).enumerate();
        stands.find_map(|(part, (stand, locked))| {
            let (now, cost) = (locked.now, self.all.cost_of(part, self.cost));
            Some(locked.queue().failure_of(stand.waiter?, cost, now)?.of_part(part))
        })
    }

    /// Enters the queue of the limiter that must be waited for longest, and leaves the others, unless it has been sent
    /// back here.
    fn stand_at(
        &mut self,
        at: usize,
        ticket: u64,
        locked: &mut [LockedQueue<'_>],
        wakes: &mut WakeList,
    ) -> Result<(), AcquireError> {
        let Stand { waiter, visited, deadline } = self.stands[at];
        if let Some(waiter) = waiter {
            let (queue, mut at) = locked[at].open(wakes);
            queue.recall(waiter, deadline, &mut at);
            return Ok(());
        }
        self.stays |= visited;
        if !self.stays {
            self.withdraw(locked, wakes);
        }
        let cost = self.all.cost_of(at, self.cost);
        let request = WaitRequest { cost, deadline, ticket, kind: WaiterKind::Composite };
        let stand = &mut self.stands[at];
        stand.visited = true;
        let (queue, mut at) = locked[at].open(wakes);
        if let Admission::Waiting(waiter) = queue.enter(request, &mut at)? {
            stand.waiter = Some(waiter);
        }
        Ok(())
    }

    /// Leaves every queue.
    fn withdraw(&mut self, locked: &mut [LockedQueue<'_>], wakes: &mut WakeList) {
        for (stand, locked) in self.stands.iter_mut().zip(locked) {
            if let Some(waiter) = stand.waiter.take() {
                let (queue, mut at) = locked.open(wakes);
                queue.step_aside(waiter, at.wakes);
                queue.pump(&mut at);
            }
        }
    }

    /// Returns the parts whose timers the caller has to start.
    fn promise_timers(&self, locked: &mut [LockedQueue<'_>]) -> Vec<usize> {
        let stands = self.stands.iter().zip(locked).enumerate();
        let promised = stands.filter_map(|(part, (stand, locked))| {
            let starts = stand.waiter.is_some() && !self.blocking && locked.queue().promise_timer();
            starts.then_some(part)
        });
        promised.collect()
    }

    /// Leaves every queue, as one that has given up: it counts as cancelled where it stood.
    fn leave(&mut self) {
        for (stand, part) in self.stands.iter_mut().zip(&self.all.parts) {
            if let Some(waiter) = stand.waiter.take() {
                part.core.with(|queue, at| queue.leave(waiter, at));
            }
        }
    }

    /// All of it was closed.
    fn close(&mut self, ticket: u64) -> Poll<Result<Granted, AcquireError>> {
        self.stage = AllStage::Done;
        self.leave();
        self.all.state.leave(ticket, |counts| counts.rejected += 1);
        Poll::Ready(Err(AcquireError::new(AcquireErrorKind::Closed, LimiterKind::All)))
    }
}

/// The one that must be waited for longest; none if none has to be. One that can never grant comes first; those that
/// cannot be foreseen come last: it would be a pity to stand there while waiting for a certain time elsewhere.
fn longest(decisions: &[Decision]) -> Option<usize> {
    let rank = |decision: &Decision| match (decision.reason, decision.retry_after) {
        (Reason::NeverFits | Reason::Closed, _) => (2, Nanos::ZERO),
        (_, Some(wait)) => (1, wait),
        (_, None) => (0, Nanos::ZERO),
    };
    let refusing = decisions.iter().enumerate().filter(|(_, decision)| !decision.allowed);
    refusing.max_by_key(|(_, decision)| rank(decision)).map(|(part, _)| part)
}

impl Future for AcquireAll<'_> {
    type Output = Result<Granted, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let ticket = match this.stage {
            AllStage::Start => ticket(),
            AllStage::Waiting(ticket) => ticket,
            AllStage::Done => panic!("polled after it was ready"),
        };
        if this.all.state.is_closed() {
            return this.close(ticket);
        }
        let mut wakes = WakeList::default();
        let mut locked = this.all.lock(&mut wakes);
        if this.stage == AllStage::Start {
            this.stage = AllStage::Waiting(ticket);
            let within = this.within;
            let stand = |locked: &LockedQueue<'_>| {
                let deadline = within.map(|within| locked.now + within);
                Stand { waiter: None, visited: false, deadline }
            };
            this.stands = locked.iter().map(stand).collect();
        }
        let attempt = this.attempt(ticket, &mut locked, cx.waker(), &mut wakes);
        let promised = this.promise_timers(&mut locked);
        drop(locked);
        wakes.wake();
        promised.into_iter().for_each(|part| timer::start(&this.all.parts[part].core));
        let (cost, state) = (this.cost, &this.all.state);
        match &attempt {
            // Who closes wakes everybody that was entered: who is not, because it is closed by now, finds out here.
            Poll::Pending if !state.enter(ticket, cx.waker()) => return this.close(ticket),
            Poll::Pending => return Poll::Pending,
            Poll::Ready(outcome) => state.leave(ticket, |counts: &mut LimiterStatistics| match outcome {
                Ok(_) => counts.acquired += u64::from(cost != Cost::ZERO),
                Err(_) => counts.rejected += 1,
            }),
        }
        this.stage = AllStage::Done;
        attempt.map_ok(|decision| this.all.granted(decision, this.cost))
    }
}

impl BlockingFuture for AcquireAll<'_> {
    type Waited = Granted;

    fn block(&mut self, keeps_time: bool) {
        self.blocking = keeps_time;
    }

    fn turn(&mut self) -> Option<Nanos> {
        let stands = self.stands.iter().zip(&self.all.parts);
        stands.filter_map(|(stand, part)| part.core.turn_of_thread(stand.waiter?)).min()
    }

    fn runtime_now(&self) -> Option<Timestamp> {
        self.all.parts.iter().find_map(|part| part.core.clock.runtime_now())
    }

    fn limiter(&self) -> LimiterKind {
        LimiterKind::All
    }
}

impl Drop for AcquireAll<'_> {
    fn drop(&mut self) {
        if let AllStage::Waiting(ticket) = self.stage {
            self.leave();
            self.all.state.leave(ticket, |counts| counts.cancelled += 1);
        }
    }
}
