//! The desk: a tank, the queue in front of it, and the rules between them (semantics §5). Plain data: every method
//! takes the instant, and names who is to be woken. Locks, tasks, threads and timers are the business of
//! [`Core`](super::core::Core).

use std::task::Waker;

use super::Inherit;
use super::error::{AcquireError, AcquireErrorKind, LimiterKind};
use super::keeper::{Keeper, Told};
use super::projection::Projection;
use super::queue::{Charge, Fault, Kind, Phase, Place, Queue, Waiter};
use super::statistics::Statistics;
use super::tank::{Contents, Outlook, Tank};
use super::wakes::Wakes;
use crate::charged::{Charged, When};
use crate::{Cost, Decision, Nanos, Quota, Reason, Timestamp};

/// How long one that waits for several limiters has to come when it is called, whatever its deadline.
const TIME_TO_COME: Nanos = Nanos::from_millis(100);

#[derive(Debug)]
pub(crate) struct Desk {
    pub(super) kind: LimiterKind,
    pub(super) tank: Tank,
    pub(super) queue: Queue,
    /// How many may wait.
    bound: usize,
    closed: bool,
    /// It has another quota than it was made with.
    changed: bool,
    /// How often the charges so far have been forgotten (by a reset, or another quota), and when they were last.
    resets: u32,
    reset_at: Option<Timestamp>,
    /// Something was given back, and nobody has been told: it may be as good as fresh earlier than it was.
    gave_back: bool,
    acquired: u64,
    rejected: u64,
    cancelled: u64,
    pub(super) keeper: Keeper,
    pub(super) told: Told,
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

/// What a waiter finds when it comes for its outcome.
#[derive(Debug)]
pub(crate) enum Collected {
    Granted(Decision, Charge),
    Failed(AcquireError),
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
    pub(crate) fn new(kind: LimiterKind, tank: Tank, bound: usize) -> Self {
        Desk {
            kind,
            tank,
            queue: Queue::default(),
            bound,
            closed: false,
            changed: false,
            resets: 0,
            reset_at: None,
            gave_back: false,
            acquired: 0,
            rejected: 0,
            cancelled: 0,
            keeper: Keeper::Nobody,
            told: Told::Nobody,
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

    /// Says when it was made, where there may have been another one before: of what that has charged nothing is left.
    /// It has come in again, or was forgotten by a reset; else that one would still be there.
    pub(crate) fn begin_at(&mut self, now: Timestamp) {
        self.reset_at = Some(now.saturating_sub(Nanos::from_nanos(1)));
    }

    /// True once after something was given back.
    pub(crate) fn take_gave_back(&mut self) -> bool {
        std::mem::take(&mut self.gave_back)
    }

    /// Takes without waiting, and without overtaking anybody.
    pub(crate) fn try_acquire(&mut self, cost: Cost, now: Timestamp, wakes: &mut Wakes) -> Decision {
        self.pump(now, wakes);
        let decision = match self.is_open_and_empty() {
            true => self.tank.try_take(cost, now),
            false => self.judge(cost, u64::MAX, now),
        };
        match decision.allowed {
            true => self.acquired += u64::from(cost != Cost::PEEK),
            false => self.rejected += 1,
        }
        decision.taken(cost, now)
    }

    /// What one with this ticket would be told now. Only those with an earlier ticket count as waiting.
    pub(crate) fn judge(&mut self, cost: Cost, ticket: u64, now: Timestamp) -> Decision {
        if self.closed {
            return self.deny(None, Reason::Closed, now);
        }
        let waits = |waiter: &Waiter| waiter.ticket < ticket;
        let overtakes = self.queue.first().is_some_and(waits);
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
        self.tank.look(Cost::PEEK, now).charged(now)
    }

    /// What to keep of a charge that was just made.
    pub(crate) fn charge_at(&self, now: Timestamp) -> Charge {
        Charge { at: now, resets: self.resets }
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
            return Err(self.error(AcquireErrorKind::Closed));
        }
        if cost == Cost::PEEK {
            return Ok(Entry::Granted(self.tank.look(cost, now)));
        }
        match self.tank.outlook(cost, now) {
            Outlook::Never => return Err(self.error(AcquireErrorKind::NeverFits)),
            Outlook::Ready if self.queue.is_empty() && kind == Kind::Solo => {
                return Ok(Entry::Granted(self.take(cost, now)));
            }
            _ => {}
        }
        if self.queue.len() >= self.bound || self.line_is_full(now) {
            return Err(self.queue_full(cost, now));
        }
        if let Some(deadline) = deadline {
            let ready = self.project(cost, now);
            if deadline <= now || ready.is_some_and(|ready| ready > deadline) {
                return Err(self.too_late(ready, now));
            }
        }
        let waiter = Waiter::new(ticket, cost.get(), deadline, kind);
        let place = self.queue.insert(waiter).ok_or_else(|| self.error(AcquireErrorKind::QueueFull))?;
        if self.queue.next(place).is_some() {
            self.projection = None;
        }
        Ok(Entry::Waiting(place))
    }

    pub(crate) fn error(&self, kind: AcquireErrorKind) -> AcquireError {
        AcquireError::new(kind, self.kind)
    }

    /// The deadline cannot be met, or was not; it would have been granted at that instant, if it can be foreseen.
    pub(crate) fn too_late(&self, ready: Option<Timestamp>, now: Timestamp) -> AcquireError {
        self.error(AcquireErrorKind::Deadline).retry_in(ready.map(|ready| ready.since(now)))
    }

    /// There is no place to wait in. There is one as soon as the head is granted, or, where nobody may wait, when this
    /// cost would pass without.
    fn queue_full(&mut self, cost: Cost, now: Timestamp) -> AcquireError {
        let head = self.queue.first().map(|head| Cost::new(head.cost));
        let wait = match &self.tank.contents {
            // A line has a place when the next one leaks, whoever that is.
            Contents::Line(line) if head.is_none() => Some(line.wait_for_place(now)),
            _ => self.tank.outlook(head.unwrap_or(cost), now).wait(),
        };
        self.error(AcquireErrorKind::QueueFull).retry_in(wait)
    }

    /// A line holds those who wait and those who did not wait but have not leaked yet.
    fn line_is_full(&self, now: Timestamp) -> bool {
        match &self.tank.contents {
            Contents::Line(line) => {
                line.occupied(now).saturating_add(self.queue.len() as u64) >= line.capacity
            }
            _ => false,
        }
    }

    /// The outcome, if there is one: it is given once, and the place with it. If not, `waker` will be told.
    #[must_use = "the place is gone if there is an outcome"]
    pub(crate) fn collect(
        &mut self,
        place: Place,
        waker: &Waker,
        now: Timestamp,
        wakes: &mut Wakes,
    ) -> Option<Collected> {
        // Nobody is at a place that was given back: whoever kept it has been told already.
        let gone = Collected::Failed(self.error(AcquireErrorKind::Closed));
        let Some(waiter) = self.queue.get(place) else { return Some(gone) };
        let (phase, cost) = (waiter.phase, Cost::new(waiter.cost));
        let outcome = match phase {
            Phase::Waiting | Phase::Called => {
                self.listen(place, waker, wakes);
                return None;
            }
            Phase::Granted { at, resets } => {
                Collected::Granted(self.tank.look(Cost::PEEK, now).charged(at), Charge { at, resets })
            }
            Phase::Failed(fault) => Collected::Failed(self.failure(fault, cost, now)),
        };
        self.queue.release(place);
        Some(outcome)
    }

    /// Tells `waker` when the turn of the waiter at this place has come, or it was sent away.
    pub(crate) fn listen(&mut self, place: Place, waker: &Waker, wakes: &mut Wakes) {
        let Some(waiter) = self.queue.get_mut(place) else { return };
        if !waiter.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            wakes.bury(waiter.waker.replace(waker.clone()));
        }
    }

    /// Why one of this cost was sent away, as it is told now.
    pub(crate) fn failure(&mut self, fault: Fault, cost: Cost, now: Timestamp) -> AcquireError {
        match fault {
            Fault::Closed => self.error(AcquireErrorKind::Closed),
            Fault::NeverFits => self.error(AcquireErrorKind::NeverFits),
            Fault::Deadline => {
                let ready = if self.closed { None } else { self.project(cost, now) };
                self.too_late(ready, now)
            }
        }
    }

    /// Gives up, in whatever phase. A grant that was not taken up goes to the next in turn.
    pub(crate) fn leave(&mut self, place: Place, now: Timestamp, wakes: &mut Wakes) {
        let Some(phase) = self.queue.get(place).map(|waiter| waiter.phase) else { return };
        match phase {
            Phase::Waiting | Phase::Called => {
                self.queue.unlink(place);
                self.cancelled += 1;
            }
            Phase::Granted { at, resets } => {
                let cost = self.queue.get(place).map_or(0, |waiter| waiter.cost);
                self.return_charge(Cost::new(cost), Charge { at, resets }, now);
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
    pub(crate) fn give_up(&mut self, cost: Cost, charge: Charge, now: Timestamp, wakes: &mut Wakes) {
        if cost != Cost::PEEK {
            self.acquired -= 1;
            self.cancelled += 1;
            self.give_back(cost, charge, now, wakes);
        }
    }

    /// Gives back what is left of a charge, and lets in whom that has made room for.
    pub(crate) fn give_back(&mut self, cost: Cost, charge: Charge, now: Timestamp, wakes: &mut Wakes) {
        self.return_charge(cost, charge, now);
        self.pump(now, wakes);
    }

    fn return_charge(&mut self, cost: Cost, charge: Charge, now: Timestamp) {
        self.projection = None;
        self.gave_back = true;
        // What was forgotten as a whole cannot be given back once more.
        if charge.resets == self.resets {
            self.tank.refund(cost, charge.at, now);
        }
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
    pub(crate) fn refund(&mut self, cost: Cost, charged: Charged, now: Timestamp, wakes: &mut Wakes) {
        let at = charged.instant(now);
        // Of what was charged before the last reset nothing is left. An age of nothing is later than a reset just now.
        let is_left = |reset_at| at > reset_at || (at == reset_at && matches!(charged.when(), When::Ago(_)));
        if self.reset_at.is_none_or(is_left) {
            self.tank.refund(cost, at, now);
        }
        self.projection = None;
        self.gave_back = true;
        self.pump(now, wakes);
    }

    /// Charges what has been used already, whether it is there or not: what is missing is paid before anybody
    /// else gets anything.
    pub(crate) fn owe(&mut self, cost: Cost, now: Timestamp, wakes: &mut Wakes) {
        if !self.closed {
            self.tank.owe(cost, now);
        }
        self.projection = None;
        self.pump(now, wakes);
    }

    pub(crate) fn reset(&mut self, now: Timestamp, wakes: &mut Wakes) {
        self.tank.reset(now);
        self.forget_charges(now);
        self.pump(now, wakes);
    }

    /// Nothing that was charged so far can be given back any more.
    fn forget_charges(&mut self, now: Timestamp) {
        self.resets = self.resets.wrapping_add(1);
        self.reset_at = Some(now);
        self.projection = None;
        self.gave_back = true;
    }

    pub(crate) fn set_quota(&mut self, quota: Quota, inherit: Inherit, now: Timestamp, wakes: &mut Wakes) {
        self.tank.set_quota(quota, inherit, now);
        self.changed = true;
        // What was charged under another quota has come in at another rate: what is left of it cannot be told.
        self.forget_charges(now);
        self.turn_away(|waiter| waiter.cost > quota.burst(), Fault::NeverFits, wakes);
        self.pump(now, wakes);
    }

    /// Another number of permits. Those beyond it that are in flight stay so until they are given back.
    pub(crate) fn set_limit(&mut self, new: u64, now: Timestamp, wakes: &mut Wakes) {
        #[cfg(feature = "adaptive")]
        let new = self.adaptive.as_mut().map_or(new, |adaptive| adaptive.move_to(new, now));
        if let Contents::Permits { limit, .. } = &mut self.tank.contents {
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
            queue_depth: self.queue.len(),
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
        self.rejected += 1;
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
        let charge = self.charge_at(now);
        let Some(waiter) = self.queue.get_mut(head) else { return false };
        if waiter.phase == Phase::Called {
            return false;
        }
        let cost = Cost::new(waiter.cost);
        match self.tank.outlook(cost, now) {
            Outlook::Ready => {}
            Outlook::Never => {
                self.fail(head, Fault::NeverFits, wakes);
                return true;
            }
            Outlook::After(_) | Outlook::OnRelease => return false,
        }
        if waiter.kind == Kind::Group {
            waiter.phase = Phase::Called;
            let deadline = waiter.deadline;
            if let Some(waker) = waiter.waker.clone() {
                wakes.push(waker);
            }
            // It was called in time, even if that is the instant of its deadline or the timer was late.
            if let Some(deadline) = deadline {
                self.queue.set_deadline(head, deadline.max(now + TIME_TO_COME));
            }
            return false;
        }
        self.tank.charge(cost, now);
        waiter.phase = Phase::granted(charge);
        if let Some(waker) = waiter.waker.take() {
            wakes.push(waker);
        }
        self.acquired += 1;
        self.queue.unlink(head);
        self.projection = None;
        true
    }

    fn deny(&self, wait: Option<Nanos>, reason: Reason, now: Timestamp) -> Decision {
        let reset_after = self.tank.look(Cost::PEEK, now).reset_after;
        Decision { reason, ..Decision::deny(self.tank.limit(), 0, wait, reset_after) }
    }
}
