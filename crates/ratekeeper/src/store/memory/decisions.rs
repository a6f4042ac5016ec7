//! Decisions on the states of a shard, while its lock is held.
//!
//! Every decision goes through the same steps: ask all views whether the cost passes; take room for the states that it will
//! write, so that no write can fail half-way; take the cost from each; settle with the budget what was not needed after all.
//! A request for one GCRA quota, which most are, has a path of its own that skips what it does not need.

use super::budget::{Allowance, Budget, Full};
use super::shard::{Shard, Subject};
use super::slot::{SlotChange, Tat};
use super::tag::Tag;
use crate::algorithm::gcra::{self, GcraView};
use crate::algorithm::{Tenancy, View, Wait, composite, look, partial_grant, take};
use crate::port::Grant;
use crate::{Charged, Cost, Decision, Quota, Timestamp};

/// How much of a cost will do.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted {
    Exactly(Cost),
    UpTo(Cost),
}

impl Shard {
    /// Takes a cost from one GCRA quota of a key that is known, which is what a store is asked most. `None` if the key is not
    /// known.
    #[inline(always)]
    pub(super) fn take_known<'q>(
        &mut self,
        tag: Tag,
        quota: &'q Quota,
        tenancy: Tenancy,
        cost: Cost,
        now: Timestamp,
    ) -> Option<(GcraView<'q>, Wait)> {
        let index = self.instants.find(tag)?;
        let now = self.not_before_latest(now);
        let tat = self.instants.get_mut(index);
        let (view, wait) = gcra::decide(quota, Some(tat.0), cost, now, tenancy);
        if cost != Cost::ZERO {
            if view.was_repaired() {
                // It expires earlier than it did, which the table must know.
                self.instants.set(index, Tat(view.tat()));
                self.latest = now;
            } else if wait == Wait::Ready {
                tat.0 = view.tat();
                self.latest = now;
            }
        }
        Some((view, wait))
    }

    /// Like [`take_known`](Shard::take_known), of a key that is not known: most new keys, and those whose last request was
    /// long ago. `None` if the store is full.
    pub(super) fn take_new<'q>(
        &mut self,
        subject: Subject<'_>,
        tag: Tag,
        quota: &'q Quota,
        cost: Cost,
        now: Timestamp,
        budget: &Budget,
    ) -> Option<(GcraView<'q>, Wait)> {
        let now = self.not_before_latest(now);
        let (view, wait) = gcra::decide(quota, None, cost, now, Tenancy::Own);
        if wait == Wait::Ready && cost != Cost::ZERO {
            let expected = self.make_room_for_instant(subject, now, budget).ok()?;
            self.latest = now;
            let made_way = self.instants.insert(tag, Tat(view.tat()), now).is_some();
            budget.note_expired(made_way.into());
            self.settle(expected, budget);
        }
        Some((view, wait))
    }

    /// Takes the cost from all rules or from none.
    pub(super) fn take(
        &mut self,
        subject: Subject<'_>,
        wanted: Wanted,
        now: Timestamp,
        room: Allowance,
        budget: &Budget,
    ) -> Result<Grant, Full> {
        let now = self.not_before_latest(now);
        let cost = match wanted {
            Wanted::Exactly(cost) => cost,
            Wanted::UpTo(cost) => partial_grant(self.remaining(subject, now), cost),
        };
        let passes = self.all_ready(subject, cost, now);
        let expected = match passes && cost != Cost::ZERO {
            true => self.make_room(subject, room, now, budget)?,
            false => self.held(),
        };
        let (decision, made_way) = self.take_with_room(subject, cost, now, passes);
        budget.note_expired(made_way);
        self.settle(expected, budget);
        // What is taken beyond the bound is taken from a state that many share: nobody gets it back.
        let decision = if room == Allowance::Beyond { decision } else { decision.taken(cost, now) };
        Ok(Grant { granted: if decision.allowed { cost } else { Cost::ZERO }, decision })
    }

    fn all_ready(&self, subject: Subject<'_>, cost: Cost, now: Timestamp) -> bool {
        let ready = |tag, quota| self.meter(tag, quota, now, subject.tenancy()).wait_for(cost) == Wait::Ready;
        subject.tags().all(|(tag, quota)| ready(tag, quota))
    }

    /// Takes the cost if it passes, every state having its place. Returns how many expired states made way.
    fn take_with_room(
        &mut self,
        subject: Subject<'_>,
        cost: Cost,
        now: Timestamp,
        passes: bool,
    ) -> (Decision, usize) {
        let (writes, tenancy, mut made_way) = (cost != Cost::ZERO, subject.tenancy(), 0);
        let decisions = subject.tags().map(|(tag, quota)| {
            let mut meter = self.meter(tag, quota, now, tenancy);
            let decision = if passes { take(&mut meter, cost) } else { look(&meter, cost) };
            if writes && (passes || meter.was_repaired()) {
                let change = SlotChange::of(&meter, now);
                self.latest = now;
                made_way += usize::from(self.write(tag, change, now, tenancy));
            }
            decision
        });
        (composite::join(decisions), made_way)
    }

    /// Returns what [`take`](Shard::take) would decide.
    pub(super) fn look(&self, subject: Subject<'_>, cost: Cost, now: Timestamp) -> Decision {
        let now = self.not_before_latest(now);
        let look = |tag, quota| look(&self.meter(tag, quota, now, subject.tenancy()), cost);
        composite::join(subject.tags().map(|(tag, quota)| look(tag, quota)))
    }

    /// Returns how many requests of cost 1 every rule would let pass.
    fn remaining(&self, subject: Subject<'_>, now: Timestamp) -> u64 {
        let left = |tag, quota| self.meter(tag, quota, now, subject.tenancy()).remaining();
        subject.tags().map(|(tag, quota)| left(tag, quota)).min().unwrap_or(u64::MAX)
    }

    /// Gives back to all rules what is left of a cost. What is unknown stays unknown, and what was forgotten since
    /// stays forgotten: it has nothing to be given back.
    pub(super) fn refund(
        &mut self,
        subject: Subject<'_>,
        cost: Cost,
        charged: Charged,
        now: Timestamp,
        budget: &Budget,
    ) -> Decision {
        let (before, now, tenancy) = (self.held(), self.advance(now), subject.tenancy());
        let charged_at = charged.instant(now);
        let decisions = subject.tags().map(|(tag, quota)| {
            let known = self.holds(tag, quota) && cost != Cost::ZERO && !self.was_reset(tag, charged_at);
            let mut meter = self.meter(tag, quota, now, tenancy);
            if known {
                meter.refund(cost, charged_at);
            }
            let decision = look(&meter, Cost::ZERO);
            if known {
                let change = SlotChange::of(&meter, now);
                self.write(tag, change, now, tenancy);
            }
            decision
        });
        let decision = composite::join(decisions);
        self.settle(before, budget);
        decision
    }
}
