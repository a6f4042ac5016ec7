//! The desk: a tank, the queue in front of it, and the rules between them (semantics §5). Plain data: every method
//! takes the instant, and names who is to be woken. Locks, tasks, threads and timers are the business of
//! [`Core`](super::core::Core).

use std::task::Waker;

use super::Inherit;
use super::error::AcquireError;
use super::keeper::Keeper;
use super::projection::Projection;
use super::queue::{Fault, Kind, Phase, Place, Queue, Waiter};
use super::statistics::Statistics;
use super::tank::{Outlook, Tank};
use super::wakes::Wakes;
use crate::{Cost, Decision, Nanos, Quota, Reason, Timestamp};

#[derive(Debug)]
pub(crate) struct Desk {
    pub(super) tank: Tank,
    pub(super) queue: Queue,
    /// How many may wait.
    bound: usize,
    closed: bool,
    /// It has another quota than it was made with.
    changed: bool,
    acquired: u64,
    rejected: u64,
    cancelled: u64,
    pub(super) keeper: Keeper,
    /// What the keeper of time sleeps until.
    pub(super) armed: Option<Timestamp>,
    pub(super) projection: Option<Projection>,
    #[cfg(feature = "adaptive")]
    pub(super) adaptive: Option<super::adaptive::Limit>,
}

/// What became of a request that is willing to wait.
#[derive(Debug)]
pub(crate) enum Entry {
    Granted(Decision),
    Waiting(Place),
}

/// A request that is willing to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) cost: Cost,
    pub(crate) deadline: Option<Timestamp>,
    pub(crate) ticket: u64,
    pub(crate) kind: Kind,
}

impl Desk {
    pub(crate) fn new(tank: Tank, bound: usize) -> Self {
        Desk {
            tank,
            queue: Queue::default(),
            bound,
            closed: false,
            changed: false,
            acquired: 0,
            rejected: 0,
            cancelled: 0,
            keeper: Keeper::Nobody,
            armed: None,
            projection: None,
            #[cfg(feature = "adaptive")]
            adaptive: None,
        }
    }

    /// True if nobody waits and nothing forbids to decide without asking here.
    pub(crate) fn is_open_and_empty(&self) -> bool {
        !self.closed && self.queue.is_empty()
    }

    /// The time until this desk could be thrown away and made anew without anybody noticing; the longest time if
    /// that cannot be told.
    pub(crate) fn fresh_in(&self, now: Timestamp) -> Nanos {
        let is_bound = self.closed || self.changed || !self.queue.is_unused();
        if is_bound { Nanos::MAX } else { self.tank.reset_after(now) }
    }

    /// Takes without waiting, and without overtaking anybody.
    pub(crate) fn try_acquire(&mut self, cost: Cost, now: Timestamp, wakes: &mut Wakes) -> Decision {
        self.pump(now, wakes);
        let decision = match self.is_open_and_empty() {
            true => self.tank.try_take(cost, now),
            false => self.judge(cost, u64::MAX, now),
        };
        match decision.allowed {
            true if cost != Cost::PEEK => self.acquired += 1,
            true => {}
            false => self.rejected += 1,
        }
        decision
    }

    /// What one with this ticket would be told now. Only those with an earlier ticket count as waiting.
    pub(crate) fn judge(&mut self, cost: Cost, ticket: u64, now: Timestamp) -> Decision {
        if self.closed {
            return self.deny(None, Reason::Closed, now);
        }
        let waits = |waiter: &Waiter| waiter.ticket < ticket;
        let overtakes = self.queue.head().and_then(|head| self.queue.get(head)).is_some_and(waits);
        if !overtakes || cost == Cost::PEEK {
            return self.tank.look(cost, now);
        }
        if self.tank.outlook(cost, now) == Outlook::Never {
            return self.tank.look(cost, now);
        }
        let wait = self.project(cost, now).map(|ready| ready.since(now));
        self.deny(wait, Reason::Queued, now)
    }

    /// Takes what was judged to pass.
    pub(crate) fn take(&mut self, cost: Cost, now: Timestamp) -> Decision {
        self.tank.charge(cost, now);
        self.projection = None;
        self.acquired += 1;
        self.tank.look(Cost::PEEK, now)
    }

    /// Counts a refusal that was decided elsewhere.
    pub(crate) fn count_rejection(&mut self) {
        self.rejected += 1;
    }

    /// What a request of this cost would be told if nobody waited. Takes nothing, moves nothing.
    pub(crate) fn peek(&self, cost: Cost, now: Timestamp) -> Decision {
        match self.closed {
            true => self.deny(None, Reason::Closed, now),
            false => self.tank.look(cost, now),
        }
    }

    /// Takes now, or waits in turn; fails at once if waiting would be in vain.
    pub(crate) fn enter(
        &mut self,
        request: Request,
        now: Timestamp,
        wakes: &mut Wakes,
    ) -> Result<Entry, AcquireError> {
        self.pump(now, wakes);
        let entry = self.admit(request, now);
        match entry {
            Err(_) => self.rejected += 1,
            // A deadline may be earlier than what the keeper of time sleeps until.
            Ok(_) => self.poke(now, wakes),
        }
        entry
    }

    fn admit(&mut self, request: Request, now: Timestamp) -> Result<Entry, AcquireError> {
        let Request { cost, deadline, ticket, kind } = request;
        if self.closed {
            return Err(AcquireError::Closed);
        }
        if cost == Cost::PEEK {
            return Ok(Entry::Granted(self.tank.look(cost, now)));
        }
        match self.tank.outlook(cost, now) {
            Outlook::Never => return Err(AcquireError::NeverFits),
            Outlook::Ready if self.queue.is_empty() && kind == Kind::Solo => {
                return Ok(Entry::Granted(self.take(cost, now)));
            }
            _ => {}
        }
        if self.queue.waiting() >= self.bound || self.line_is_full(now) {
            return Err(AcquireError::QueueFull);
        }
        if let Some(deadline) = deadline {
            let ready = self.project(cost, now);
            if deadline <= now || ready.is_some_and(|ready| ready > deadline) {
                return Err(AcquireError::Deadline { ready_in: ready.map(|ready| ready.since(now)) });
            }
        }
        let waiter = Waiter { ticket, cost: cost.get(), deadline, kind, phase: Phase::Waiting, waker: None };
        let place = self.queue.insert(waiter).ok_or(AcquireError::QueueFull)?;
        if self.queue.next(place).is_some() {
            self.projection = None;
        }
        Ok(Entry::Waiting(place))
    }

    /// A line holds those who wait and those who did not wait but have not leaked yet.
    fn line_is_full(&self, now: Timestamp) -> bool {
        match &self.tank {
            Tank::Line(line) => {
                line.occupied(now).saturating_add(self.queue.waiting() as u64) >= line.capacity
            }
            _ => false,
        }
    }

    /// The outcome, if there is one: it is given once, and the place with it. If not, `waker` will be told.
    pub(crate) fn collect(
        &mut self,
        place: Place,
        waker: Option<&Waker>,
        now: Timestamp,
        wakes: &mut Wakes,
    ) -> Option<Result<Decision, AcquireError>> {
        let waiter = self.queue.get_mut(place)?;
        let outcome = match waiter.phase {
            Phase::Waiting | Phase::Called => {
                let known = waiter.waker.as_ref();
                if let Some(waker) = waker.filter(|waker| !known.is_some_and(|known| known.will_wake(waker)))
                {
                    wakes.bury(waiter.waker.replace(waker.clone()));
                }
                return None;
            }
            Phase::Granted(_) => Ok(self.tank.look(Cost::PEEK, now)),
            Phase::Failed(fault) => Err(fault.into()),
        };
        self.queue.release(place);
        Some(outcome)
    }

    /// Gives up, in whatever phase. A grant that was not taken up goes to the next in turn.
    pub(crate) fn leave(&mut self, place: Place, now: Timestamp, wakes: &mut Wakes) {
        let Some(phase) = self.queue.get(place).map(|waiter| waiter.phase) else { return };
        match phase {
            Phase::Waiting | Phase::Called => {
                self.queue.unlink(place);
                self.cancelled += 1;
            }
            Phase::Granted(mark) => {
                let cost = self.queue.get(place).map_or(0, |waiter| waiter.cost);
                self.tank.give_back(Cost::new(cost), mark, now);
                self.acquired -= 1;
                self.cancelled += 1;
            }
            Phase::Failed(_) => {}
        }
        wakes.bury(self.queue.release(place).and_then(|waiter| waiter.waker));
        self.projection = None;
        self.pump(now, wakes);
    }

    /// Gives up what was taken. Nothing at all was neither taken nor counted.
    pub(crate) fn give_up(&mut self, cost: Cost, mark: Timestamp, now: Timestamp, wakes: &mut Wakes) {
        if cost != Cost::PEEK {
            self.acquired -= 1;
            self.cancelled += 1;
            self.give_back(cost, mark, now, wakes);
        }
    }

    /// Gives back what is left of a charge, and lets in whom that has made room for.
    pub(crate) fn give_back(&mut self, cost: Cost, mark: Timestamp, now: Timestamp, wakes: &mut Wakes) {
        self.tank.give_back(cost, mark, now);
        self.projection = None;
        self.pump(now, wakes);
    }

    /// Takes a waiter out, wherever it stands, as one that was served.
    pub(crate) fn conclude(&mut self, place: Place, wakes: &mut Wakes) -> Option<Phase> {
        let phase = self.queue.get(place)?.phase;
        if let Phase::Waiting | Phase::Called = phase {
            self.acquired += 1;
        }
        self.step_aside(place, wakes);
        Some(phase)
    }

    /// A waiter of several limiters leaves this queue for another: neither a grant nor a cancellation.
    pub(crate) fn step_aside(&mut self, place: Place, wakes: &mut Wakes) {
        if let Some(Phase::Waiting | Phase::Called) = self.queue.get(place).map(|waiter| waiter.phase) {
            self.queue.unlink(place);
        }
        wakes.bury(self.queue.release(place).and_then(|waiter| waiter.waker));
        self.projection = None;
    }

    /// Gives back, and lets in whom that has made room for.
    pub(crate) fn refund(&mut self, cost: Cost, now: Timestamp, wakes: &mut Wakes) {
        self.tank.refund(cost, now);
        self.projection = None;
        self.pump(now, wakes);
    }

    /// Charges what has been used already, whether it is there or not: what is missing is paid before anybody
    /// else gets anything.
    pub(crate) fn owe(&mut self, cost: Cost, now: Timestamp, wakes: &mut Wakes) {
        self.projection = None;
        let debt = Waiter {
            ticket: 0,
            cost: cost.get(),
            deadline: None,
            kind: Kind::Debt,
            phase: Phase::Waiting,
            waker: None,
        };
        if cost != Cost::PEEK && !self.closed {
            self.queue.insert(debt);
        }
        self.pump(now, wakes);
    }

    pub(crate) fn reset(&mut self, now: Timestamp, wakes: &mut Wakes) {
        self.tank.reset(now);
        self.projection = None;
        self.pump(now, wakes);
    }

    pub(crate) fn set_quota(&mut self, quota: Quota, inherit: Inherit, now: Timestamp, wakes: &mut Wakes) {
        self.tank.set_quota(quota, inherit, now);
        self.changed = true;
        self.projection = None;
        self.turn_away(
            |waiter| waiter.cost > quota.burst() && waiter.kind != Kind::Debt,
            Fault::NeverFits,
            wakes,
        );
        self.pump(now, wakes);
    }

    /// Another number of permits. Those beyond it that are in flight stay so until they are given back.
    pub(crate) fn set_limit(&mut self, new: u64, now: Timestamp, wakes: &mut Wakes) {
        #[cfg(feature = "adaptive")]
        let new = self.adaptive.as_mut().map_or(new, |adaptive| adaptive.move_to(new, now));
        if let Tank::Permits { limit, .. } = &mut self.tank {
            *limit = new;
        }
        self.turn_away(|waiter| waiter.cost > new, Fault::NeverFits, wakes);
        self.pump(now, wakes);
    }

    /// Every waiter fails now, and everybody who comes later.
    pub(crate) fn close(&mut self, wakes: &mut Wakes) {
        self.closed = true;
        self.turn_away(|_| true, Fault::Closed, wakes);
        self.dismiss_keeper(wakes);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(crate) fn statistics(&self, now: Timestamp) -> Statistics {
        Statistics {
            acquired: self.acquired,
            rejected: self.rejected,
            cancelled: self.cancelled,
            available: self.tank.remaining(now),
            max: self.tank.limit(),
            queue_depth: self.queue.waiting(),
        }
    }

    fn turn_away(&mut self, whom: impl Fn(&Waiter) -> bool, fault: Fault, wakes: &mut Wakes) {
        let mut next = self.queue.head();
        while let Some(place) = next {
            next = self.queue.next(place);
            if self.queue.get(place).is_some_and(&whom) {
                self.fail(place, fault, wakes);
            }
        }
    }

    fn fail(&mut self, place: Place, fault: Fault, wakes: &mut Wakes) {
        self.queue.unlink(place);
        self.projection = None;
        let Some(waiter) = self.queue.get_mut(place) else { return };
        waiter.phase = Phase::Failed(fault);
        if let Some(waker) = waiter.waker.take() {
            wakes.push(waker);
        }
        match waiter.kind {
            Kind::Debt => drop(self.queue.release(place)),
            _ => self.rejected += 1,
        }
    }

    /// Lets in everybody whose turn has come, sends away everybody whose time is up.
    ///
    /// In this order: who could be granted at the instant of its deadline is, even if the timer was late.
    pub(crate) fn pump(&mut self, now: Timestamp, wakes: &mut Wakes) {
        if self.queue.is_empty() && matches!(self.keeper, Keeper::Nobody) {
            return;
        }
        loop {
            while let Some(head) = self.queue.head() {
                if !self.grant(head, now, wakes) {
                    break;
                }
            }
            let mut expired = false;
            while let Some((deadline, place)) = self.queue.first_deadline() {
                if deadline > now {
                    break;
                }
                self.fail(place, Fault::Deadline, wakes);
                expired = true;
            }
            // Behind one that gave up there may be one that fits.
            if !expired {
                break;
            }
        }
        self.poke(now, wakes);
    }

    /// Grants the head's request, if it can be; true if there is a new head.
    fn grant(&mut self, head: Place, now: Timestamp, wakes: &mut Wakes) -> bool {
        let limit = self.tank.limit();
        let Some(waiter) = self.queue.get_mut(head) else { return false };
        if waiter.phase == Phase::Called {
            return false;
        }
        let part = part(waiter, limit);
        let lost = self.tank.full_since().map_or(Nanos::ZERO, |since| now.since(since));
        match self.tank.outlook(Cost::new(part), now) {
            Outlook::Ready => {}
            Outlook::Never => {
                self.fail(head, Fault::NeverFits, wakes);
                return true;
            }
            Outlook::After(_) if waiter.kind == Kind::Debt => {
                // What is there is taken, so that nobody gets it who comes in between.
                let there = Cost::new(self.tank.remaining(now).min(waiter.cost));
                waiter.cost -= there.get();
                self.tank.charge(there, now);
                self.projection = None;
                return false;
            }
            Outlook::After(_) | Outlook::OnRelease => return false,
        }
        match waiter.kind {
            Kind::Group => {
                waiter.phase = Phase::Called;
                if let Some(waker) = waiter.waker.clone() {
                    wakes.push(waker);
                }
                return false;
            }
            Kind::Debt => {
                waiter.cost -= part;
                self.tank.charge(Cost::new(part), now);
                if waiter.cost > 0 {
                    self.projection = None;
                    return true;
                }
                self.queue.unlink(head);
                self.queue.release(head);
            }
            Kind::Solo => {
                self.tank.charge(Cost::new(part), now);
                waiter.phase = Phase::Granted(self.tank.mark(now));
                if let Some(waker) = waiter.waker.take() {
                    wakes.push(waker);
                }
                self.acquired += 1;
                self.queue.unlink(head);
            }
        }
        self.projection = self.projection.take().and_then(|projection| projection.granted(head, lost));
        true
    }

    /// What the head wants next.
    pub(super) fn part_of(&self, head: &Waiter) -> Cost {
        Cost::new(part(head, self.tank.limit()))
    }

    fn deny(&self, wait: Option<Nanos>, reason: Reason, now: Timestamp) -> Decision {
        let reset_after = self.tank.look(Cost::PEEK, now).reset_after;
        Decision { reason, ..Decision::deny(self.tank.limit(), 0, wait, reset_after) }
    }
}

/// A debt may be more than fits at once: it is paid in parts.
fn part(waiter: &Waiter, limit: u64) -> u64 {
    if waiter.kind == Kind::Debt { waiter.cost.min(limit) } else { waiter.cost }
}

impl From<Fault> for AcquireError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Deadline => AcquireError::Deadline { ready_in: None },
            Fault::Closed => AcquireError::Closed,
            Fault::NeverFits => AcquireError::NeverFits,
        }
    }
}
