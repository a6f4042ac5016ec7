//! Waiting for several limiters at once.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::acquire::ticket;
use super::all::{All, Granted};
use super::core::Open;
use super::desk::{Desk, Entry, Request};
use super::error::AcquireError;
use super::park::{Blockable, block_on};
use super::queue::{Kind, Phase, Place};
use super::timer;
use super::wakes::Wakes;
use crate::{Cost, Decision, Nanos, Reason, Timestamp};

/// Waits in turn for all of several limiters; made by [`All::acquire`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct AcquireAll<'a> {
    all: &'a All,
    cost: Cost,
    within: Option<Nanos>,
    /// None before it was first polled.
    ticket: Option<u64>,
    stands: Vec<Stand>,
    /// It has come back to where its turn had come before: it gives up no place any more.
    stays: bool,
    done: bool,
    blocking: bool,
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
            ticket: None,
            stands: Vec::new(),
            stays: false,
            done: false,
            blocking: false,
        }
    }

    /// Waits no longer than this. If that cannot be enough, it fails at once.
    pub fn within(mut self, time: Duration) -> Self {
        self.within = Some(time.into());
        self
    }

    /// Waits on this thread instead of in a task: in the same queues, and without any runtime.
    pub fn wait(self) -> Result<Granted, AcquireError> {
        block_on(self)
    }

    /// One try with all locks held: nothing changes between the look and the leap.
    fn attempt(
        &mut self,
        opens: &mut [Open<'_>],
        waker: &Waker,
        wakes: &mut Wakes,
    ) -> Poll<Result<Decision, AcquireError>> {
        let ticket = *self.ticket.get_or_insert_with(ticket);
        if self.stands.is_empty() {
            let stand = |open: &Open<'_>| {
                let deadline = self.within.map(|within| open.now + within);
                Stand { place: None, visited: false, deadline }
            };
            self.stands = opens.iter().map(stand).collect();
        }
        if let Some(error) = self.failure(opens, wakes) {
            self.withdraw(opens, wakes);
            return Poll::Ready(Err(error));
        }
        let decisions = self.all.judge(opens, self.cost, ticket, wakes);
        if decisions.iter().all(|decision| decision.allowed) {
            let decision = self.all.take(opens, self.cost);
            self.withdraw(opens, wakes);
            return Poll::Ready(Ok(decision));
        }
        let Some(at) = longest(&decisions) else { return Poll::Ready(Err(AcquireError::Closed)) };
        if let Err(error) = self.stand_at(at, ticket, opens, wakes) {
            self.withdraw(opens, wakes);
            return Poll::Ready(Err(error));
        }
        for (stand, open) in self.stands.iter().zip(opens) {
            if let Some(place) = stand.place {
                let now = open.now;
                open.desk().collect(place, Some(waker), now, wakes);
            }
        }
        Poll::Pending
    }

    /// What has become of the places it holds, if it is bad news.
    fn failure(&mut self, opens: &mut [Open<'_>], wakes: &mut Wakes) -> Option<AcquireError> {
        let mut failure = None;
        for (stand, open) in self.stands.iter_mut().zip(opens) {
            let phase = stand.place.and_then(|place| open.desk().queue.get(place)).map(|waiter| waiter.phase);
            if let Some(Phase::Failed(fault)) = phase {
                stand.place.take().into_iter().for_each(|place| open.desk().step_aside(place, wakes));
                failure = Some(fault.into());
            }
        }
        failure
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
            opens[at].desk().recall(place, now, wakes);
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
            let now = open.now;
            if stand.place.is_some() && !self.blocking && open.desk().promise_keeper(now) {
                promised.push(part);
            }
        }
        promised
    }
}

/// The one that must be waited for longest. One that can never grant comes first; those that cannot be foreseen
/// come last: it would be a pity to hold their places while waiting for a certain time elsewhere.
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
    /// One that was called could not use its turn, because this limiter has changed its mind: it waits again.
    fn recall(&mut self, place: Place, now: Timestamp, wakes: &mut Wakes) {
        if let Some(waiter) = self.queue.get_mut(place)
            && waiter.phase == Phase::Called
        {
            waiter.phase = Phase::Waiting;
            // Nobody keeps the time of one that was called: whoever sleeps may sleep for too long now.
            self.poke(now, wakes);
        }
    }
}

impl Future for AcquireAll<'_> {
    type Output = Result<Granted, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        assert!(!this.done, "polled after it was ready");
        let mut wakes = Wakes::default();
        let mut opens = this.all.open();
        let attempt = this.attempt(&mut opens, cx.waker(), &mut wakes);
        let promised = this.promise_keepers(&mut opens);
        drop(opens);
        wakes.wake();
        promised.into_iter().for_each(|part| timer::hire(&this.all.parts[part].core));
        this.done = attempt.is_ready();
        attempt.map_ok(|decision| this.all.granted(decision, this.cost))
    }
}

impl Blockable for AcquireAll<'_> {
    fn block(&mut self) {
        self.blocking = true;
    }

    fn turn(&mut self) -> Option<Nanos> {
        let stands = self.stands.iter().zip(&self.all.parts);
        stands.filter_map(|(stand, part)| part.core.turn_of(stand.place?)).min()
    }
}

impl Drop for AcquireAll<'_> {
    fn drop(&mut self) {
        // It counts as cancelled once, where it stood.
        for (stand, part) in self.stands.iter_mut().zip(&self.all.parts) {
            if let Some(place) = stand.place.take() {
                part.core.with(|desk, now, wakes| desk.leave(place, now, wakes));
            }
        }
    }
}
