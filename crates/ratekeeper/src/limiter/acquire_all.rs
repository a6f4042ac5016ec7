//! Waiting for several limiters at once.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::acquire::ticket;
use super::all::{All, Granted};
use super::core::Open;
use super::desk::{Desk, Entry, Request};
use super::error::{AcquireError, AcquireErrorKind, LimiterKind};
use super::park::{Blockable, block_on};
use super::queue::{Fault, Kind, Phase, Place};
use super::timer;
use super::wakes::Wakes;
use crate::{Cost, Decision, Nanos, Reason, Timestamp};

/// Waits in turn for all of several limiters; made by [`All::acquire`].
///
/// # Cancel safety
///
/// Dropping it gives up its place, and takes nothing from any of them.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct AcquireAll<'a> {
    all: &'a All,
    cost: Cost,
    within: Option<Nanos>,
    stage: Stage,
    stands: Vec<Stand>,
    /// It has come back to where its turn had come before: it gives up no place any more.
    stays: bool,
    blocking: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Not polled yet.
    Start,
    /// With the number of its place in time.
    Waiting(u64),
    Done,
}

/// How one waiter stands with one limiter.
#[derive(Clone, Copy, Debug)]
struct Stand {
    place: Option<Place>,
    visited: bool,
    /// By this limiter's clock.
    deadline: Option<Timestamp>,
}

impl<'a> AcquireAll<'a> {
    pub(super) fn new(all: &'a All, cost: Cost) -> Self {
        AcquireAll {
            all,
            cost,
            within: None,
            stage: Stage::Start,
            stands: Vec::new(),
            stays: false,
            blocking: false,
        }
    }

    /// Waits no longer than this. If that cannot be enough, it fails at once.
    pub fn within(mut self, time: Duration) -> Self {
        self.within = Some(time.into());
        self
    }

    /// Waits on this thread instead of in a task: in the same queues, and without any runtime. See
    /// [`Acquire::wait`](super::Acquire::wait).
    pub fn wait(self) -> Result<Granted, AcquireError> {
        block_on(self)
    }

    /// One try with all locks held: nothing changes between the look and the leap.
    fn attempt(
        &mut self,
        ticket: u64,
        opens: &mut [Open<'_>],
        waker: &Waker,
        wakes: &mut Wakes,
    ) -> Poll<Result<Decision, AcquireError>> {
        if let Some(error) = self.failure(opens) {
            self.withdraw(opens, wakes);
            return Poll::Ready(Err(error));
        }
        let decisions = self.all.judge(opens, self.cost, ticket);
        let Some(at) = longest(&decisions) else {
            let decision = self.all.take(opens, self.cost);
            self.withdraw(opens, wakes);
            return Poll::Ready(Ok(decision));
        };
        if let Err(error) = self.stand_at(at, ticket, opens, wakes) {
            self.withdraw(opens, wakes);
            return Poll::Ready(Err(error.of_part(at)));
        }
        for (stand, open) in self.stands.iter().zip(opens) {
            if let Some(place) = stand.place {
                open.desk().listen(place, waker, wakes);
            }
        }
        Poll::Pending
    }

    /// What has become of the places it holds, if it is bad news.
    fn failure(&self, opens: &mut [Open<'_>]) -> Option<AcquireError> {
        let mut stands = self.stands.iter().zip(opens).enumerate();
        stands.find_map(|(part, (stand, open))| {
            let now = open.now;
            let fault = open.desk().fault_at(stand.place?)?;
            Some(open.desk().failure(fault, self.all.cost_of(part, self.cost), now).of_part(part))
        })
    }

    /// Takes its place at the limiter that must be waited for longest, and gives up the others, unless it has been
    /// sent back here.
    fn stand_at(
        &mut self,
        at: usize,
        ticket: u64,
        opens: &mut [Open<'_>],
        wakes: &mut Wakes,
    ) -> Result<(), AcquireError> {
        let Stand { place, visited, deadline } = self.stands[at];
        let now = opens[at].now;
        if let Some(place) = place {
            opens[at].desk().recall(place, deadline, now, wakes);
            return Ok(());
        }
        self.stays |= visited;
        if !self.stays {
            self.withdraw(opens, wakes);
        }
        let cost = self.all.cost_of(at, self.cost);
        let request = Request { cost, deadline, ticket, kind: Kind::Group };
        self.stands[at].visited = true;
        if let Entry::Waiting(place) = opens[at].desk().enter(request, now, wakes)? {
            self.stands[at].place = Some(place);
        }
        Ok(())
    }

    /// Gives up every place.
    fn withdraw(&mut self, opens: &mut [Open<'_>], wakes: &mut Wakes) {
        for (stand, open) in self.stands.iter_mut().zip(opens) {
            if let Some(place) = stand.place.take() {
                let now = open.now;
                open.desk().step_aside(place, wakes);
                open.desk().pump(now, wakes);
            }
        }
    }

    /// Who has promised a keeper of time to those that need one.
    fn promise_keepers(&self, opens: &mut [Open<'_>]) -> Vec<usize> {
        let mut promised = Vec::new();
        for (part, (stand, open)) in self.stands.iter().zip(opens).enumerate() {
            if stand.place.is_some() && !self.blocking && open.desk().promise_keeper() {
                promised.push(part);
            }
        }
        promised
    }

    /// Gives up every place, as one that has given up: it counts as cancelled where it stood.
    fn leave(&mut self) {
        for (stand, part) in self.stands.iter_mut().zip(&self.all.parts) {
            if let Some(place) = stand.place.take() {
                part.core.with(|desk, now, wakes| desk.leave(place, now, wakes));
            }
        }
    }

    /// All of it was closed.
    fn close(&mut self, ticket: u64) -> Poll<Result<Granted, AcquireError>> {
        self.stage = Stage::Done;
        self.leave();
        self.all.group.conclude(ticket, false);
        Poll::Ready(Err(AcquireError::new(AcquireErrorKind::Closed, LimiterKind::All)))
    }
}

/// The one that must be waited for longest; none if none has to be. One that can never grant comes first; those that
/// cannot be foreseen come last: it would be a pity to hold their places while waiting for a certain time elsewhere.
fn longest(decisions: &[Decision]) -> Option<usize> {
    let rank = |decision: &Decision| match (decision.reason, decision.retry_after) {
        (Reason::NeverFits | Reason::Closed, _) => (2, Nanos::ZERO),
        (_, Some(wait)) => (1, wait),
        (_, None) => (0, Nanos::ZERO),
    };
    let refusing = decisions.iter().enumerate().filter(|(_, decision)| !decision.allowed);
    refusing.max_by_key(|(_, decision)| rank(decision)).map(|(part, _)| part)
}

impl Desk {
    /// Why the waiter at this place was sent away, if it was.
    fn fault_at(&self, place: Place) -> Option<Fault> {
        match self.queue.get(place)?.phase {
            Phase::Failed(fault) => Some(fault),
            Phase::Waiting | Phase::Called | Phase::Granted { .. } => None,
        }
    }

    /// One that was called could not use its turn, because this limiter has changed its mind: it waits again.
    fn recall(&mut self, place: Place, deadline: Option<Timestamp>, now: Timestamp, wakes: &mut Wakes) {
        if let Some(waiter) = self.queue.get_mut(place)
            && waiter.phase == Phase::Called
        {
            waiter.phase = Phase::Waiting;
            // It has come, so it has no more time than it had before.
            deadline.into_iter().for_each(|deadline| self.queue.set_deadline(place, deadline));
            // Nobody keeps the time of one that was called: whoever sleeps may sleep for too long now.
            self.poke(now, wakes);
        }
    }
}

impl Future for AcquireAll<'_> {
    type Output = Result<Granted, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let ticket = match this.stage {
            Stage::Start => ticket(),
            Stage::Waiting(ticket) => ticket,
            Stage::Done => panic!("polled after it was ready"),
        };
        if this.all.is_closed() {
            return this.close(ticket);
        }
        let mut wakes = Wakes::default();
        let mut opens = this.all.open(&mut wakes);
        if this.stage == Stage::Start {
            this.stage = Stage::Waiting(ticket);
            let within = this.within;
            let stand = |open: &Open<'_>| {
                let deadline = within.map(|within| open.now + within);
                Stand { place: None, visited: false, deadline }
            };
            this.stands = opens.iter().map(stand).collect();
        }
        let attempt = this.attempt(ticket, &mut opens, cx.waker(), &mut wakes);
        let promised = this.promise_keepers(&mut opens);
        drop(opens);
        wakes.wake();
        promised.into_iter().for_each(|part| timer::hire(&this.all.parts[part].core));
        match &attempt {
            // Who closes wakes everybody that was entered: who is not, because it is closed by now, is told here.
            Poll::Pending if !this.all.group.enter(ticket, cx.waker()) => return this.close(ticket),
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(_)) if this.cost == Cost::PEEK => this.all.group.forget(ticket),
            Poll::Ready(outcome) => this.all.group.conclude(ticket, outcome.is_ok()),
        }
        this.stage = Stage::Done;
        attempt.map_ok(|decision| this.all.granted(decision, this.cost))
    }
}

impl Blockable for AcquireAll<'_> {
    type Grant = Granted;

    fn block(&mut self, keeps_time: bool) {
        self.blocking = keeps_time;
    }

    fn turn(&mut self) -> Option<Nanos> {
        let stands = self.stands.iter().zip(&self.all.parts);
        stands.filter_map(|(stand, part)| part.core.turn_of(stand.place?)).min()
    }

    fn paused_clock(&self) -> Option<Timestamp> {
        self.all.parts.iter().find_map(|part| part.core.paused_now())
    }

    fn limiter(&self) -> LimiterKind {
        LimiterKind::All
    }
}

impl Drop for AcquireAll<'_> {
    fn drop(&mut self) {
        if let Stage::Waiting(ticket) = self.stage {
            self.leave();
            self.all.group.cancel(ticket);
        }
    }
}
