//! A capacity, the waiters in front of it, and the rules between them: docs/semantics.md §5.

use std::task::Waker;

#[cfg(feature = "adaptive")]
use super::adaptive::AdaptiveLimit;
use super::charges::{ChargeLedger, PendingCharge};
use super::forecast::{Forecast, ready_at_turn};
#[cfg(feature = "adaptive")]
use super::permit_outcome::PermitOutcome;
use super::timekeeper::{NextTurn, Timekeeper};
use super::wait_request::{Admission, WaitOutcome, WaitRequest};
use super::waiters::{Waiter, WaiterId, WaiterKind, WaiterList, WaiterPhase};
use super::wake_list::{QueueMoment, WakeList};
use crate::limiter::error::{AcquireError, AcquireErrorKind, LimiterKind};
use crate::limiter::statistics::LimiterStatistics;
use crate::limiter::supply::{Capacity, Inherit, Outlook, Supply};
use crate::{Charged, Cost, Decision, Nanos, Quota, Reason, Timestamp};

/// How long one that waits for several limiters has to come when it is called, whatever its deadline.
const TIME_TO_COME: Nanos = Nanos::from_millis(100);

/// A capacity and the queue in front of it: first come, first served, and nobody is overtaken.
///
/// Every change ends with [`pump`](WaitQueue::pump), which lets in whom it has made room for; what was
/// [foreseen](Forecast) is forgotten whenever the capacity or the order changes.
#[derive(Debug)]
pub(crate) struct WaitQueue {
    kind: LimiterKind,
    pub(crate) capacity: Capacity,
    waiters: WaiterList,
    /// How many may wait.
    bound: usize,
    closed: bool,
    /// It has another quota than it was made with.
    changed: bool,
    charges: ChargeLedger,
    /// Something was given back since this was last asked: it may be as good as fresh earlier than it was.
    gave_back: bool,
    /// Only the counts are kept here; what there is, is the capacity's to say.
    counts: LimiterStatistics,
    timekeeper: Timekeeper,
    forecast: Forecast,
    #[cfg(feature = "adaptive")]
    adaptive: Option<AdaptiveLimit>,
}

impl WaitQueue {
    pub(crate) fn new(kind: LimiterKind, capacity: Capacity, bound: usize) -> Self {
        WaitQueue {
            kind,
            capacity,
            waiters: WaiterList::default(),
            bound,
            closed: false,
            changed: false,
            charges: ChargeLedger::default(),
            gave_back: false,
            counts: LimiterStatistics::default(),
            timekeeper: Timekeeper::default(),
            forecast: Forecast::default(),
            #[cfg(feature = "adaptive")]
            adaptive: None,
        }
    }

    /// Returns true if nobody waits and nothing forbids to decide without asking here.
    #[inline]
    pub(crate) fn is_open_and_empty(&self) -> bool {
        !self.closed && self.waiters.is_empty()
    }

    /// Returns the time until this could be thrown away and made anew without anybody noticing; the longest time if that
    /// cannot be told.
    pub(crate) fn fresh_in(&self, now: Timestamp) -> Nanos {
        let is_bound = self.closed || self.changed || !self.waiters.is_unused();
        if is_bound { Nanos::MAX } else { self.capacity.reset_after(now) }
    }

    /// Notes when it was made, where there may have been another one before.
    pub(crate) fn begin_at(&mut self, now: Timestamp) {
        self.charges.begin_at(now);
    }

    /// Returns true once after something was given back.
    pub(crate) fn take_gave_back(&mut self) -> bool {
        std::mem::take(&mut self.gave_back)
    }

    /// Takes without waiting, and without overtaking anybody.
    pub(crate) fn try_acquire(&mut self, cost: Cost, at: &mut QueueMoment<'_>) -> Decision {
        self.pump(at);
        let decision = match self.is_open_and_empty() {
            true => self.capacity.try_take(cost, at.now),
            false => self.judge(cost, u64::MAX, at.now),
        };
        self.count(decision.allowed, cost);
        decision.taken(cost, at.now)
    }

    /// Returns true if nobody waits, and nobody keeps the time for those who did: there is nobody to be let in, sent away or
    /// woken.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.is_open_and_empty() && self.timekeeper.is_absent()
    }

    /// [Takes without waiting](WaitQueue::try_acquire) from a queue that [is idle](WaitQueue::is_idle).
    #[inline]
    pub(crate) fn try_idle(&mut self, cost: Cost, now: Timestamp) -> Decision {
        // Changed where it is: each copy of a decision waits until the one before it is written.
        let mut decision = self.capacity.try_take(cost, now);
        self.count(decision.allowed, cost);
        if decision.allowed && cost != Cost::ZERO {
            decision.charged_at = now;
        }
        decision
    }

    #[inline]
    fn count(&mut self, allowed: bool, cost: Cost) {
        match allowed {
            true => self.counts.acquired += u64::from(cost != Cost::ZERO),
            false => self.counts.rejected += 1,
        }
    }

    /// Decides for one with this ticket, and takes nothing. Only those with an earlier ticket count as waiting.
    pub(crate) fn judge(&mut self, cost: Cost, ticket: u64, now: Timestamp) -> Decision {
        if self.closed {
            return self.deny(None, Reason::Closed, now);
        }
        let overtakes = self.waiters.first().is_some_and(|first| first.ticket < ticket);
        if !overtakes || cost == Cost::ZERO || self.capacity.outlook(cost, now) == Outlook::Never {
            return self.capacity.look(cost, now);
        }
        let wait = self.ready_at(cost, now).map(|ready| ready.since(now));
        self.deny(wait, Reason::Queued, now)
    }

    /// Takes what was judged to pass.
    pub(crate) fn take(&mut self, cost: Cost, now: Timestamp) -> Decision {
        self.capacity.charge(cost, now);
        self.forecast.clear();
        self.counts.acquired += 1;
        self.capacity.look(Cost::ZERO, now).charged(now)
    }

    /// Returns what to keep of a charge that was just made.
    pub(crate) fn charge_at(&self, now: Timestamp) -> PendingCharge {
        self.charges.charge_at(now)
    }

    /// Counts a refusal that was decided elsewhere.
    pub(crate) fn count_rejection(&mut self) {
        self.counts.rejected += 1;
    }

    /// Decides as if nobody waited. Takes nothing, moves nothing.
    pub(crate) fn peek(&self, cost: Cost, now: Timestamp) -> Decision {
        match self.closed {
            true => self.deny(None, Reason::Closed, now),
            false => self.capacity.look(cost, now),
        }
    }

    fn deny(&self, wait: Option<Nanos>, reason: Reason, now: Timestamp) -> Decision {
        let reset_after = self.capacity.look(Cost::ZERO, now).reset_after;
        Decision { reason, ..Decision::deny(self.capacity.limit(), 0, wait, reset_after) }
    }

    /// When a newcomer of this cost would be granted.
    fn ready_at(&mut self, cost: Cost, now: Timestamp) -> Option<Timestamp> {
        self.forecast.ready_at(&self.capacity, &self.waiters, cost, now)
    }

    /// Takes now, or waits in turn; fails at once if waiting would be in vain.
    pub(crate) fn enter(
        &mut self,
        request: WaitRequest,
        at: &mut QueueMoment<'_>,
    ) -> Result<Admission, AcquireError> {
        self.pump(at);
        let admission = self.admit(request, at.now);
        match admission {
            Err(_) => self.counts.rejected += 1,
            // A deadline may be earlier than what the timekeeper sleeps until.
            Ok(_) => self.alert(at),
        }
        admission
    }

    fn admit(&mut self, request: WaitRequest, now: Timestamp) -> Result<Admission, AcquireError> {
        let WaitRequest { cost, deadline, ticket, kind } = request;
        if self.closed {
            return Err(self.error(AcquireErrorKind::Closed));
        }
        if cost == Cost::ZERO {
            return Ok(Admission::Granted(self.capacity.look(cost, now)));
        }
        match self.capacity.outlook(cost, now) {
            Outlook::Never => return Err(self.error(AcquireErrorKind::NeverFits)),
            Outlook::Ready if self.waiters.is_empty() && kind == WaiterKind::Single => {
                return Ok(Admission::Granted(self.take(cost, now)));
            }
            _ => {}
        }
        let (waiting, bound) = self.queue_length(now);
        if waiting >= bound {
            let wait = self.wait_for_room(cost, now);
            return Err(self.error(AcquireErrorKind::QueueFull).counted(waiting, bound).retry_in(wait));
        }
        if let Some(deadline) = deadline {
            let ready = self.ready_at(cost, now);
            if deadline <= now || ready.is_some_and(|ready| ready > deadline) {
                return Err(self.too_late(ready, now));
            }
        }
        let waiter = Waiter::new(ticket, cost.get(), deadline, kind);
        let full = self.error(AcquireErrorKind::QueueFull).counted(waiting, waiting);
        let id = self.waiters.insert(waiter).ok_or(full)?;
        if self.waiters.next(id).is_some() {
            self.forecast.clear();
        }
        Ok(Admission::Waiting(id))
    }

    /// Returns how many wait, and how many may. A line holds those who wait and those who did not wait but have not left
    /// it yet.
    fn queue_length(&self, now: Timestamp) -> (u64, u64) {
        let waiting = self.waiters.len() as u64;
        match &self.capacity.supply {
            Supply::Line(line) => (line.occupied(now).saturating_add(waiting), line.capacity),
            _ => (waiting, self.bound as u64),
        }
    }

    /// The time until a full queue has room for one more: until the head is granted, or, where nobody may wait, until this
    /// cost would pass without.
    fn wait_for_room(&self, cost: Cost, now: Timestamp) -> Option<Nanos> {
        let head = self.waiters.first().map(|head| Cost::new(head.cost));
        match &self.capacity.supply {
            // A line has room when the next one leaves, whoever that is.
            Supply::Line(line) if head.is_none() => Some(line.wait_for_room(now)),
            _ => self.capacity.outlook(head.unwrap_or(cost), now).wait(),
        }
    }

    fn error(&self, kind: AcquireErrorKind) -> AcquireError {
        AcquireError::new(kind, self.kind)
    }

    /// The deadline cannot be met, or was not; it would have been granted at that instant, if it can be foreseen.
    fn too_late(&self, ready: Option<Timestamp>, now: Timestamp) -> AcquireError {
        self.error(AcquireErrorKind::Deadline).retry_in(ready.map(|ready| ready.since(now)))
    }

    /// Returns the outcome, if there is one: it is given once, and the slot with it. If not, `waker` will be woken.
    #[must_use = "the slot is gone if there is an outcome"]
    pub(crate) fn collect(
        &mut self,
        id: WaiterId,
        waker: &Waker,
        at: &mut QueueMoment<'_>,
    ) -> Option<WaitOutcome> {
        // Nobody has a slot that was given back: whoever kept its id has had its outcome already.
        let gone = WaitOutcome::Failed(self.error(AcquireErrorKind::Closed));
        let Some(waiter) = self.waiters.get(id) else { return Some(gone) };
        let (phase, cost) = (waiter.phase, Cost::new(waiter.cost));
        let outcome = match phase {
            WaiterPhase::Waiting | WaiterPhase::Called => {
                self.listen(id, waker, at.wakes);
                return None;
            }
            WaiterPhase::Granted { at: charged_at, resets } => {
                let decision = self.capacity.look(Cost::ZERO, at.now).charged(charged_at);
                WaitOutcome::Granted(decision, PendingCharge { at: charged_at, resets })
            }
            WaiterPhase::Failed(kind) => WaitOutcome::Failed(self.failure(kind, cost, at.now)),
        };
        self.waiters.release(id);
        Some(outcome)
    }

    /// Wakes `waker` when the turn of this waiter has come, or it was sent away.
    pub(crate) fn listen(&mut self, id: WaiterId, waker: &Waker, wakes: &mut WakeList) {
        let Some(waiter) = self.waiters.get_mut(id) else { return };
        if !waiter.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            wakes.discard(waiter.waker.replace(waker.clone()));
        }
    }

    /// Why this waiter, which wants this cost, was sent away, if it was.
    pub(crate) fn failure_of(&mut self, id: WaiterId, cost: Cost, now: Timestamp) -> Option<AcquireError> {
        match self.waiters.get(id)?.phase {
            WaiterPhase::Failed(kind) => Some(self.failure(kind, cost, now)),
            WaiterPhase::Waiting | WaiterPhase::Called | WaiterPhase::Granted { .. } => None,
        }
    }

    fn failure(&mut self, kind: AcquireErrorKind, cost: Cost, now: Timestamp) -> AcquireError {
        match kind {
            AcquireErrorKind::Deadline if !self.closed => {
                let ready = self.ready_at(cost, now);
                self.too_late(ready, now)
            }
            kind => self.error(kind),
        }
    }

    /// Returns how long until the turn of this waiter: zero once it was granted, `None` if it never will be, or if that
    /// cannot be foreseen. Takes as long as there are others ahead.
    pub(crate) fn turn_in(&mut self, id: WaiterId, at: &mut QueueMoment<'_>) -> Option<Nanos> {
        self.pump(at);
        match self.waiters.get(id)?.phase {
            WaiterPhase::Granted { .. } => Some(Nanos::ZERO),
            WaiterPhase::Failed(_) => None,
            WaiterPhase::Waiting | WaiterPhase::Called => {
                Some(ready_at_turn(&self.capacity, &self.waiters, id, at.now)?.since(at.now))
            }
        }
    }

    /// Gives a waiter a deadline. If that cannot be met, it has left with this error.
    pub(crate) fn hasten(
        &mut self,
        id: WaiterId,
        deadline: Timestamp,
        at: &mut QueueMoment<'_>,
    ) -> Result<(), AcquireError> {
        self.pump(at);
        if !self.waiters.is_waiting(id) {
            return Ok(());
        }
        let ready = ready_at_turn(&self.capacity, &self.waiters, id, at.now);
        let in_vain = deadline <= at.now || ready.is_some_and(|ready| ready > deadline);
        if in_vain {
            self.step_aside(id, at.wakes);
            self.count_rejection();
            self.pump(at);
            return Err(self.too_late(ready, at.now));
        }
        self.waiters.set_deadline(id, deadline);
        self.alert(at);
        Ok(())
    }

    /// Takes back the call to one that could not use its turn, because this limiter has changed its mind: it waits again.
    pub(crate) fn recall(&mut self, id: WaiterId, deadline: Option<Timestamp>, at: &mut QueueMoment<'_>) {
        if let Some(waiter) = self.waiters.get_mut(id)
            && waiter.phase == WaiterPhase::Called
        {
            waiter.phase = WaiterPhase::Waiting;
            // It has come, so it has no more time than it had before.
            deadline.into_iter().for_each(|deadline| self.waiters.set_deadline(id, deadline));
            // Nobody keeps the time of one that was called: whoever sleeps may sleep for too long now.
            self.alert(at);
        }
    }

    /// Gives up, in whatever phase. A grant that was not collected goes to the next in turn.
    pub(crate) fn leave(&mut self, id: WaiterId, at: &mut QueueMoment<'_>) {
        let Some((phase, cost)) = self.waiters.get(id).map(|waiter| (waiter.phase, waiter.cost)) else {
            return;
        };
        if let Some(charge) = phase.charge() {
            self.return_charge(Cost::new(cost), charge, at.now);
            self.counts.acquired -= 1;
        }
        self.counts.cancelled += u64::from(!matches!(phase, WaiterPhase::Failed(_)));
        self.step_aside(id, at.wakes);
        self.pump(at);
    }

    /// Gives up what was taken. Nothing at all was neither taken nor counted.
    pub(crate) fn give_up(&mut self, cost: Cost, charge: PendingCharge, at: &mut QueueMoment<'_>) {
        if cost != Cost::ZERO {
            self.counts.acquired -= 1;
            self.counts.cancelled += 1;
            self.give_back(cost, charge, at);
        }
    }

    /// Gives back what is left of a charge, and lets in whom that has made room for.
    fn give_back(&mut self, cost: Cost, charge: PendingCharge, at: &mut QueueMoment<'_>) {
        self.return_charge(cost, charge, at.now);
        self.pump(at);
    }

    fn return_charge(&mut self, cost: Cost, charge: PendingCharge, now: Timestamp) {
        self.forecast.clear();
        self.gave_back = true;
        if let Some(at) = self.charges.instant_of(charge) {
            self.capacity.refund(cost, at, now);
        }
    }

    /// Charges what it really was of an estimate that was taken by `charge`, or not at all: the difference is given back,
    /// or owed.
    pub(crate) fn settle(
        &mut self,
        estimate: Cost,
        charge: Option<PendingCharge>,
        actual: Cost,
        at: &mut QueueMoment<'_>,
    ) {
        let taken = charge.map_or(0, |_| estimate.get());
        match charge {
            Some(charge) if actual < estimate => {
                self.give_back(Cost::new(taken - actual.get()), charge, at);
            }
            _ => self.owe(Cost::new(actual.get() - taken), at),
        }
    }

    /// Charges what has been used already, whether it is there or not: what is missing is paid before anybody else gets
    /// anything.
    fn owe(&mut self, cost: Cost, at: &mut QueueMoment<'_>) {
        if !self.closed {
            self.capacity.owe(cost, at.now);
        }
        self.forecast.clear();
        self.pump(at);
    }

    /// Takes a waiter out, wherever it stands, as one that was served; returns what it was charged, if it was.
    pub(crate) fn conclude(&mut self, id: WaiterId, at: &mut QueueMoment<'_>) -> Option<PendingCharge> {
        self.pump(at);
        let phase = self.waiters.get(id)?.phase;
        self.counts.acquired += u64::from(self.waiters.is_waiting(id));
        self.step_aside(id, at.wakes);
        phase.charge()
    }

    /// A waiter leaves this queue, and is counted elsewhere or not at all.
    pub(crate) fn step_aside(&mut self, id: WaiterId, wakes: &mut WakeList) {
        if self.waiters.is_waiting(id) {
            self.waiters.unlink(id);
        }
        wakes.discard(self.waiters.release(id).and_then(|waiter| waiter.waker));
        self.forecast.clear();
    }

    /// Gives back, and lets in whom that has made room for.
    pub(crate) fn refund(&mut self, cost: Cost, charged: Charged, at: &mut QueueMoment<'_>) {
        if let Some(charged_at) = self.charges.instant_as_said(charged, at.now) {
            self.capacity.refund(cost, charged_at, at.now);
        }
        self.forecast.clear();
        self.gave_back = true;
        self.pump(at);
    }

    /// Forgets all that was taken, and what is owed.
    pub(crate) fn reset(&mut self, at: &mut QueueMoment<'_>) {
        self.capacity.reset(at.now);
        self.forget_charges(at.now);
        self.pump(at);
    }

    /// Nothing that was charged so far can be given back any more.
    fn forget_charges(&mut self, now: Timestamp) {
        self.charges.forget(now);
        self.forecast.clear();
        self.gave_back = true;
    }

    /// Reads on under another quota. What was charged under the old one has come in at another rate: what is left of it
    /// cannot be told.
    pub(crate) fn set_quota(&mut self, quota: Quota, inherit: Inherit, at: &mut QueueMoment<'_>) {
        self.capacity.set_quota(quota, inherit, at.now);
        self.changed = true;
        self.forget_charges(at.now);
        self.turn_away(|waiter| waiter.cost > quota.burst(), AcquireErrorKind::NeverFits, at.wakes);
        self.pump(at);
    }

    /// Sets the number of permits. Those beyond it that are in flight stay so until they are given back.
    pub(crate) fn set_limit(&mut self, new: u64, at: &mut QueueMoment<'_>) {
        #[cfg(feature = "adaptive")]
        let new = self.adaptive.as_mut().map_or(new, |adaptive| adaptive.move_to(new, at.now));
        if let Supply::Permits { limit, .. } = &mut self.capacity.supply {
            *limit = new;
        }
        self.turn_away(|waiter| waiter.cost > new, AcquireErrorKind::NeverFits, at.wakes);
        self.pump(at);
    }

    /// Lets the number of permits move by itself from now on.
    #[cfg(feature = "adaptive")]
    pub(crate) fn adapt(&mut self, limit: AdaptiveLimit) {
        self.adaptive = Some(limit);
    }

    /// Learns from a permit that was held since `since` and comes back now.
    #[cfg(feature = "adaptive")]
    pub(crate) fn learn(&mut self, since: Timestamp, outcome: PermitOutcome, now: Timestamp) {
        if let (Some(adaptive), Supply::Permits { limit, in_flight }) =
            (&mut self.adaptive, &mut self.capacity.supply)
        {
            adaptive.learn(since, outcome, *in_flight, now);
            *limit = adaptive.limit();
        }
    }

    /// Returns how many permits are in flight.
    pub(crate) fn in_flight(&self) -> u64 {
        match self.capacity.supply {
            Supply::Permits { in_flight, .. } => in_flight,
            _ => 0,
        }
    }

    /// Every waiter fails now, and everybody who comes later.
    pub(crate) fn close(&mut self, wakes: &mut WakeList) {
        self.closed = true;
        self.turn_away(|_| true, AcquireErrorKind::Closed, wakes);
        self.timekeeper.dismiss(wakes);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns what it has done so far, and what there is.
    pub(crate) fn statistics(&self, now: Timestamp) -> LimiterStatistics {
        LimiterStatistics {
            available: self.capacity.remaining(now),
            max: self.capacity.limit(),
            queue_depth: self.waiters.len(),
            ..self.counts
        }
    }

    fn turn_away(&mut self, whom: impl Fn(&Waiter) -> bool, kind: AcquireErrorKind, wakes: &mut WakeList) {
        let mut next = self.waiters.head();
        while let Some(id) = next {
            next = self.waiters.next(id);
            if self.waiters.get(id).is_some_and(&whom) {
                self.fail(id, kind, wakes);
            }
        }
    }

    fn fail(&mut self, id: WaiterId, kind: AcquireErrorKind, wakes: &mut WakeList) {
        self.waiters.unlink(id);
        self.forecast.clear();
        let Some(waiter) = self.waiters.get_mut(id) else { return };
        waiter.phase = WaiterPhase::Failed(kind);
        if let Some(waker) = waiter.waker.take() {
            wakes.push(waker);
        }
        self.counts.rejected += 1;
    }

    /// Lets in everybody whose turn has come, sends away everybody whose time is up.
    ///
    /// In this order: who could be granted at the instant of its deadline is, even if the timer was late.
    pub(crate) fn pump(&mut self, at: &mut QueueMoment<'_>) {
        if self.waiters.is_empty() && self.timekeeper.is_absent() {
            return;
        }
        loop {
            while let Some(head) = self.waiters.head() {
                if !self.grant(head, at) {
                    break;
                }
            }
            let mut expired = false;
            while let Some((deadline, id)) = self.waiters.first_deadline() {
                if deadline > at.now {
                    break;
                }
                self.fail(id, AcquireErrorKind::Deadline, at.wakes);
                expired = true;
            }
            // Behind one that gave up there may be one that fits.
            if !expired {
                break;
            }
        }
        self.alert(at);
    }

    /// Grants the head's request, if it can be; true if there is a new head.
    fn grant(&mut self, head: WaiterId, at: &mut QueueMoment<'_>) -> bool {
        let charge = self.charge_at(at.now);
        let Some(waiter) = self.waiters.get_mut(head) else { return false };
        if waiter.phase == WaiterPhase::Called {
            return false;
        }
        let cost = Cost::new(waiter.cost);
        match self.capacity.outlook(cost, at.now) {
            Outlook::Ready => {}
            Outlook::Never => {
                self.fail(head, AcquireErrorKind::NeverFits, at.wakes);
                return true;
            }
            Outlook::After(_) | Outlook::OnRelease => return false,
        }
        if waiter.kind == WaiterKind::Composite {
            waiter.phase = WaiterPhase::Called;
            let deadline = waiter.deadline;
            if let Some(waker) = waiter.waker.clone() {
                at.wakes.push(waker);
            }
            // It was called in time, even if that is the instant of its deadline or the timer was late.
            if let Some(deadline) = deadline {
                self.waiters.set_deadline(head, deadline.max(at.now + TIME_TO_COME));
            }
            return false;
        }
        self.capacity.charge(cost, at.now);
        waiter.phase = WaiterPhase::granted(charge);
        if let Some(waker) = waiter.waker.take() {
            at.wakes.push(waker);
        }
        self.counts.acquired += 1;
        self.waiters.unlink(head);
        self.forecast.clear();
        true
    }

    /// The next instant at which something is due without anybody doing anything.
    fn next_event(&self, now: Timestamp) -> Option<Timestamp> {
        let waiting = self.waiters.first().filter(|head| head.phase == WaiterPhase::Waiting);
        let wait = waiting.and_then(|head| self.capacity.outlook(Cost::new(head.cost), now).wait());
        let grant = wait.map(|wait| now + wait);
        let deadline = self.waiters.first_deadline().map(|(deadline, _)| deadline);
        [grant, deadline].into_iter().flatten().min()
    }

    /// Returns true if somebody waits for something that time brings, now or later.
    fn needs_time(&self) -> bool {
        let has_deadline = self.waiters.first_deadline().is_some();
        !self.waiters.is_empty() && (!self.capacity.comes_unforeseen() || has_deadline)
    }

    /// Sees to it that whatever is due next will be noticed in time.
    fn alert(&mut self, at: &mut QueueMoment<'_>) {
        self.timekeeper.release(&self.waiters);
        if self.waiters.is_empty() {
            self.forecast.clear();
            self.timekeeper.dismiss(at.wakes);
        } else if !self.timekeeper.is_awake()
            && let Some(next) = self.next_event(at.now)
        {
            self.timekeeper.alert(next, &self.waiters, at.wakes);
        }
    }

    /// Promises a timer, if one is needed and there is none: whoever is returned true has to start it.
    pub(crate) fn promise_timer(&mut self) -> bool {
        self.needs_time() && self.timekeeper.promise_timer()
    }

    /// No timer could be started.
    #[cfg_attr(loom, expect(dead_code, reason = "there are no timers in a model"))]
    pub(crate) fn withdraw_promise(&mut self) {
        self.timekeeper.leave();
    }

    /// The timer is gone before its work was done.
    #[cfg_attr(
        not(all(feature = "tokio", not(loom))),
        expect(dead_code, reason = "the timer thread never ends")
    )]
    pub(crate) fn abandon_timer(&mut self, wakes: &mut WakeList) {
        self.timekeeper.abandon(&self.waiters, wakes);
    }

    /// A timer's turn: does what is due, and returns what the timer is to do next.
    pub(crate) fn turn_of_timer(&mut self, waker: &Waker, at: &mut QueueMoment<'_>) -> NextTurn {
        self.timekeeper.wake_up();
        self.pump(at);
        if !self.needs_time() {
            self.timekeeper.leave();
            return NextTurn::Over;
        }
        let next = self.next_event(at.now);
        self.timekeeper.sleep_until(next, waker);
        next.map_or(NextTurn::Idle, |next| NextTurn::Sleep(next.since(at.now)))
    }

    /// The turn of a thread that waits: does what is due, and returns how long it may sleep if it is to keep the time.
    pub(crate) fn turn_of_thread(&mut self, id: WaiterId, at: &mut QueueMoment<'_>) -> Option<Nanos> {
        self.pump(at);
        let next = self.next_event(at.now);
        Some(self.timekeeper.turn_of_thread(id, &self.waiters, next)?.since(at.now))
    }
}
