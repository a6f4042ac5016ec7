//! Holds on the states of a shard, while its lock is held.
//!
//! A hold takes its estimate from the same states that every request takes from, and a place in what its key holds. Whoever
//! looks at either has first seen to it that no lease has run out: what has lapsed is free, to the nanosecond.

use super::budget::{Allowance, Budget, Footprint, Full};
use super::hold_record::{HoldRecord, UNCHARGED};
use super::hold_table::{HoldShape, HoldTable};
use super::holder::Holder;
use super::plan_set;
use super::shard::{Shard, Subject};
use super::slot::SlotChange;
use super::tag::KeyHash;
use crate::algorithm::composite::{self, Passing};
use crate::algorithm::{HeldView, InFlight, Tenancy, View};
use crate::plan::OnLapse;
use crate::port::{HoldRequest, Share};
use crate::{Algorithm, Cost, Decision, Nanos, Plan, Reason, Rule, Rules, Timestamp};

impl<'a> Subject<'a> {
    /// Returns what each rule is asked for, with the rule and its plan.
    fn held(self) -> impl Iterator<Item = (&'a Plan, &'a Rule, Share<'a>)> + Clone {
        let rules = plan_set::rules(self.request.rules.plans());
        rules.zip(self.request.shares()).map(|((plan, rule), share)| (plan, rule, share))
    }

    /// Returns what its hold will take.
    pub(super) fn hold_shape(self) -> HoldShape<'a> {
        let plans = match self.request.rules {
            Rules::Plans(plans) => plans,
            _ => &[],
        };
        let record = HoldRecord::heap_of(self.request.shares().map(|share| share.cost.get()));
        HoldShape { key: self.hash, plans, rules: self.request.rules.len(), record }
    }
}

/// Rules of a hold that is decided by the short way.
const FEW: usize = 4;

/// What a hold had of one rule, and has spent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spending {
    pub(super) estimate: u64,
    pub(super) spent: u64,
}

/// What the end of a hold makes of one rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    pub(super) change: Option<SlotChange>,
    /// The decision on one more.
    pub(super) decision: Decision,
    pub(super) forgiven: u64,
}

impl Shard {
    /// Takes an estimate from every rate, and a place in everything that is in flight, or nothing at all. Tells what each rule
    /// says. None if the key has a hold of this identifier.
    pub(super) fn hold(
        &mut self,
        subject: &Subject<'_>,
        hold: &HoldRequest<'_>,
        now: Timestamp,
        budget: &Budget,
        tell: &mut impl FnMut(Decision),
    ) -> Result<Option<Decision>, Full> {
        if let Some(holds) = self.hold_table() {
            holds.prefetch(hold.id);
        }
        let now = self.not_before_latest(now);
        self.lapse(now, budget);
        if let Some(decision) = self.hold_shortly(subject, hold, now, budget, tell) {
            return Ok(Some(decision));
        }
        if self.hold_table().is_some_and(|holds| holds.find(subject.hash, hold.id).is_some()) {
            return Ok(None);
        }
        let passing = self.may_hold(subject, now);
        if !passing.allows() || self.is_crowded_by(subject.hash) {
            return Ok(Some(self.look_held(subject, now, tell)));
        }
        if self.hold_table().is_some_and(HoldTable::is_full) {
            return Err(Full::Crowded);
        }
        let expected = self.make_room(subject, Allowance::Within, now, budget)?;
        self.latest = now;
        let (decision, made_way) = self.take_held(subject, now, passing, tell);
        let estimates = subject.request.shares().map(|share| match passing.charges(share.shadow_of) {
            true => share.cost.get(),
            false => UNCHARGED,
        });
        let record = HoldRecord::live(hold.id, now, now + hold.lease, estimates);
        let holds = self.rest.get_or_insert_default().holds.get_or_insert_default();
        holds.add(record, subject.hold_shape());
        budget.note_expired(made_way);
        self.settle(expected, budget);
        Ok(Some(decision.charged(now)))
    }

    /// The short way of most holds: few rules, none in shadow, all of which pass and have their state; and a key that has had a
    /// hold under these plans before. Decides every rule once, and writes nothing unless all pass. None if it is not so.
    fn hold_shortly(
        &mut self,
        subject: &Subject<'_>,
        hold: &HoldRequest<'_>,
        now: Timestamp,
        budget: &Budget,
        tell: &mut impl FnMut(Decision),
    ) -> Option<Decision> {
        let (key, holds) = (subject.hash, self.hold_table()?);
        let place = holds.place_of(key, hold.plans).filter(|_| !holds.is_full())?;
        let growth = holds.record_growth();
        // An answer that nobody needs may make way instead.
        if growth > 0 && holds.earliest() <= now {
            return None;
        }
        let holder = holds.holder_in(place).filter(|holder| !is_crowded(holder))?;
        let (mut taken, mut estimates, mut count) = ([None; FEW], [0; FEW], 0);
        for (plan, rule, share) in subject.held() {
            let (slot, estimate) = (taken.get_mut(count)?, estimates.get_mut(count)?);
            let mut view = self.held_view(key, Some(holder), plan, rule, now);
            if share.shadow_of.is_some() || !view.has_room(share.cost) {
                return None;
            }
            let decision = view.take(share.cost);
            let change = view
                .rate
                .filter(|_| share.cost != Cost::ZERO)
                .map(|rate| SlotChange::of(&rate, now + rate.reset_after()));
            if change.is_some()
                && !(self.knows_rate(key, rule) && rule.quota().algorithm() != Algorithm::SlidingLog)
            {
                return None;
            }
            *slot = Some((rule, change, decision));
            *estimate = share.cost.get();
            count += 1;
        }
        let record = HoldRecord::live(hold.id, now, now + hold.lease, estimates.into_iter().take(count));
        if holds.find(key, hold.id).is_some() {
            return None;
        }
        let needs = Footprint { states: 1, bytes: growth, ..Footprint::default() };
        if record.heap_size() > 0 || !budget.take(needs, Allowance::Within) {
            return None;
        }
        if growth > 0
            && let Some(holds) = self.hold_table_mut()
        {
            let before = holds.bytes();
            holds.reserve_record();
            let bytes = |bytes| Footprint { bytes, ..Footprint::default() };
            budget.settle(bytes(before + growth), bytes(holds.bytes()));
        }
        self.latest = now;
        let decisions = taken.into_iter().flatten().map(|(rule, change, decision)| {
            if let Some(change) = change {
                self.write_rate(key, rule, change, now);
            }
            tell(decision);
            decision
        });
        let decision = composite::join(decisions);
        if let Some(holds) = self.hold_table_mut() {
            holds.add_at(record, place);
        }
        Some(decision.charged(now))
    }

    /// Returns true if the key has as many live holds as it may, whatever its plans say.
    fn is_crowded_by(&self, key: KeyHash) -> bool {
        self.holder(key).is_some_and(is_crowded)
    }

    fn may_hold(&self, subject: &Subject<'_>, now: Timestamp) -> Passing {
        let holder = self.holder(subject.hash);
        Passing::of(subject.held().map(|(plan, rule, share)| {
            let view = self.held_view(subject.hash, holder, plan, rule, now);
            (share.shadow_of, view.has_room(share.cost))
        }))
    }

    /// Takes what passes, every state having its place. Returns how many expired states made way.
    fn take_held(
        &mut self,
        subject: &Subject<'_>,
        now: Timestamp,
        passing: Passing,
        tell: &mut impl FnMut(Decision),
    ) -> (Decision, usize) {
        let mut made_way = 0;
        let decisions = subject.held().map(|(plan, rule, share)| {
            let mut view = self.held_view(subject.hash, self.holder(subject.hash), plan, rule, now);
            let charges = passing.charges(share.shadow_of);
            let decision = if charges { view.take(share.cost) } else { view.look(share.cost) };
            if let Some(rate) = view.rate
                && share.cost != Cost::ZERO
                && (charges || rate.was_repaired())
            {
                let change = SlotChange::of(&rate, now + rate.reset_after());
                made_way += usize::from(self.write_rate(subject.hash, rule, change, now));
            }
            tell(decision);
            (decision, share.shadow_of.is_none())
        });
        (composite::join_binding(decisions), made_way)
    }

    /// Returns what [`hold`](Shard::hold) would decide, and tells what each rule says. No lease has run out.
    pub(super) fn look_held(
        &self,
        subject: &Subject<'_>,
        now: Timestamp,
        tell: &mut impl FnMut(Decision),
    ) -> Decision {
        let (now, holder) = (self.not_before_latest(now), self.holder(subject.hash));
        let decisions = subject.held().map(|(plan, rule, share)| {
            let decision = self.held_view(subject.hash, holder, plan, rule, now).look(share.cost);
            tell(decision);
            (decision, share.shadow_of.is_none())
        });
        let decision = composite::join_binding(decisions);
        if decision.allowed && self.is_crowded_by(subject.hash) {
            let most = HoldRequest::MOST_OF_A_KEY as u64;
            return Decision { reason: Reason::AtCapacity, ..Decision::deny(most, 0, None, Nanos::ZERO) };
        }
        decision
    }

    /// Returns a rule as a hold sees it.
    pub(super) fn held_view<'a>(
        &'a self,
        key: KeyHash,
        holder: Option<&Holder>,
        plan: &Plan,
        rule: &'a Rule,
        now: Timestamp,
    ) -> HeldView<'a> {
        let rate = || self.meter(key.under(rule.id(), rule.quota()), rule.quota(), now, Tenancy::Own);
        let held = || holder.map_or(0, |holder| holder.held(rule.id()));
        HeldView {
            rate: (!rule.is_concurrency()).then(rate),
            in_flight: plan.most_in_flight(rule).map(|most| InFlight { held: held(), most }),
        }
    }

    /// Returns what the end of a hold makes of a rule. What was not charged has nothing to be given back, and what is unknown
    /// stays unknown unless something is owed.
    pub(super) fn ending(
        &self,
        mut view: HeldView<'_>,
        is_known: impl FnOnce() -> bool,
        spending: Spending,
        charged_at: Timestamp,
        now: Timestamp,
    ) -> Ending {
        let Spending { estimate, spent } = spending;
        let (mut change, mut forgiven) = (None, 0);
        if estimate != UNCHARGED {
            forgiven = view.end(Cost::new(estimate), Cost::new(spent), charged_at, now);
            let writes = spent > estimate || spent < estimate && is_known();
            change = view.rate.filter(|_| writes).map(|rate| SlotChange::of(&rate, now + rate.reset_after()));
        }
        Ending { change, decision: view.look(Cost::ONE), forgiven }
    }

    /// Writes the state of a rule. Returns whether an expired one made way for it.
    pub(super) fn write_rate(
        &mut self,
        key: KeyHash,
        rule: &Rule,
        change: SlotChange,
        now: Timestamp,
    ) -> bool {
        self.write(key.under(rule.id(), rule.quota()), change, now, Tenancy::Own)
    }

    /// Returns true if the rule has a state.
    pub(super) fn knows_rate(&self, key: KeyHash, rule: &Rule) -> bool {
        self.holds(key.under(rule.id(), rule.quota()), rule.quota())
    }

    /// Frees what is held by leases that have run out. Where the plan says so, their estimates are given back. Returns how many
    /// there were.
    ///
    /// Each costs the logarithm of how many there are, and is paid for once: by whoever comes first.
    #[inline]
    pub(super) fn lapse(&mut self, now: Timestamp, budget: &Budget) -> usize {
        let now = self.not_before_latest(now);
        let has_lapsed = self.hold_table().is_some_and(|holds| holds.has_lapsed(now));
        if has_lapsed { self.lapse_all(now, budget) } else { 0 }
    }

    #[cold]
    fn lapse_all(&mut self, now: Timestamp, budget: &Budget) -> usize {
        let (before, now) = (self.held(), self.advance(now));
        let Some(mut holds) = self.take_holds() else { return 0 };
        let mut lapsed = 0;
        while let Some(at) = holds.lapsed(now) {
            self.refund_lapsed(&holds, at, now);
            holds.drop_live(at);
            lapsed += 1;
        }
        self.return_holds(holds);
        budget.note_expired(lapsed);
        self.settle(before, budget);
        lapsed
    }

    /// Gives back the estimates of a hold that has lapsed, under those of its plans that say so.
    fn refund_lapsed(&mut self, holds: &HoldTable, at: u32, now: Timestamp) {
        let Some(record) = holds.get(at) else { return };
        let Some(key) = holds.key_of(record) else { return };
        let rules = plan_set::rules(holds.plans_of(record).iter().map(|plan| &**plan));
        for (position, (plan, rule)) in rules.enumerate() {
            if plan.lapse() == OnLapse::Refund {
                let spending = Spending { estimate: record.estimate(position), spent: 0 };
                let view = self.held_view(key, None, plan, rule, now);
                // A slower quota has written it since, of which nothing is known here: it stays as it is.
                if view.rate.is_some_and(|rate| rate.was_repaired()) {
                    continue;
                }
                let is_known = || self.knows_rate(key, rule);
                let ending = self.ending(view, is_known, spending, record.charged_at(), now);
                if let Some(change) = ending.change {
                    self.write_rate(key, rule, change, now);
                }
            }
        }
    }
}

fn is_crowded(holder: &Holder) -> bool {
    holder.live as usize >= HoldRequest::MOST_OF_A_KEY
}
