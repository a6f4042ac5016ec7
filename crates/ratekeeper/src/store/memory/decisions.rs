//! Decisions on the states of a shard, while its lock is held.
//!
//! Every decision goes through the same steps: ask all views whether the cost passes; take room for the states that it will
//! write, so that no write can fail half-way; take the cost from each; settle with the budget what was not needed after all.
//! A request for one GCRA quota, which most are, has a path of its own that skips what it does not need; other plain ones
//! have [theirs](super::plain).

use super::budget::{Allowance, Budget, Full};
use super::shard::{Shard, Subject};
use super::slot::{SlotChange, Tat};
use super::tag::Tag;
use crate::algorithm::composite::{self, Passing};
use crate::algorithm::gcra::{self, GcraView};
use crate::algorithm::{Tenancy, View, Wait, look, partial_grant, take_ready};
use crate::port::{Grant, Request, Share};
use crate::{Charged, Cost, Decision, Quota, Timestamp};

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
        subject: &Subject<'_>,
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

    /// Takes as much as there is, at least the cost of the request and at most `most`, or nothing. Returns whether one more
    /// would find room, too: a key that is new may not, although its rules would let it pass.
    pub(super) fn take_up_to(
        &mut self,
        subject: &Subject<'_>,
        most: Cost,
        now: Timestamp,
        room: Allowance,
        budget: &Budget,
    ) -> Result<(Grant, bool), Full> {
        self.lapse(now, budget);
        let at = self.not_before_latest(now);
        let cost = partial_grant(self.remaining(subject, at), subject.request.cost, most);
        let subject = Subject { request: Request { cost, ..subject.request }, ..*subject };
        let decision = self.take(&subject, at, room, budget, &mut |_| {})?;
        let granted = if decision.allowed { cost } else { Cost::ZERO };
        let (ends, next) = composite::outlook(subject.shares().map(|(tag, share)| {
            (self.meter(tag, share.quota, at, subject.tenancy()), share.shadow_of.is_none())
        }));
        // What has just been written has its room.
        let has_room = granted != Cost::ZERO || !next.allowed || {
            let one = Subject { request: subject.request.at_cost(Cost::ONE), ..subject };
            self.has_room(&one, room, at, budget).is_ok()
        };
        Ok((Grant { granted, decision, at, ends, next }, has_room))
    }

    /// Takes what is asked of all rules or of none, and tells what each says.
    pub(super) fn take(
        &mut self,
        subject: &Subject<'_>,
        now: Timestamp,
        room: Allowance,
        budget: &Budget,
        tell: &mut impl FnMut(Decision),
    ) -> Result<Decision, Full> {
        let now = self.not_before_latest(now);
        self.lapse(now, budget);
        let decision = match subject.request.is_plain() {
            true => match self.take_plain(subject, now, room, budget, tell)? {
                Some(decision) => decision,
                None => self.take_with_room(subject, subject.plain_shares(), now, room, budget, tell)?,
            },
            false => self.take_with_room(subject, subject.shares(), now, room, budget, tell)?,
        };
        // What is taken beyond the bound is taken from a state that many share: nobody gets it back.
        let is_charged = decision.allowed && room != Allowance::Beyond && subject.takes();
        Ok(if is_charged { decision.charged(now) } else { decision })
    }

    fn take_with_room<'a>(
        &mut self,
        subject: &Subject<'_>,
        shares: impl Iterator<Item = (Tag, Share<'a>)> + Clone,
        now: Timestamp,
        room: Allowance,
        budget: &Budget,
        tell: &mut impl FnMut(Decision),
    ) -> Result<Decision, Full> {
        let tenancy = subject.tenancy();
        let passing = Passing::of(shares.clone().map(|(tag, share)| {
            let wait = self.meter(tag, share.quota, now, tenancy).wait_for(share.cost);
            (share.shadow_of, wait == Wait::Ready)
        }));
        let expected = match passing.allows() && subject.takes() {
            true => self.make_room(subject, room, now, budget)?,
            false => self.held(),
        };
        let mut made_way = 0;
        let decision = composite::join_binding(shares.map(|(tag, share)| {
            let mut meter = self.meter(tag, share.quota, now, tenancy);
            let charges = passing.charges(share.shadow_of);
            let decision =
                if charges { take_ready(&mut meter, share.cost) } else { look(&meter, share.cost) };
            if share.cost != Cost::ZERO && (charges || meter.was_repaired()) {
                let change = SlotChange::of(&meter, now + decision.reset_after);
                self.latest = now;
                made_way += usize::from(self.write(tag, change, now, tenancy));
            }
            tell(decision);
            (decision, share.shadow_of.is_none())
        }));
        budget.note_expired(made_way);
        self.settle(expected, budget);
        Ok(decision)
    }

    /// Charges all rules, whether or not it passes, and tells where each stands: as one more would find it. Returns how much
    /// was forgiven, too.
    pub(super) fn debit(
        &mut self,
        subject: &Subject<'_>,
        now: Timestamp,
        room: Allowance,
        budget: &Budget,
        tell: &mut impl FnMut(Decision),
    ) -> Result<(Decision, u64), Full> {
        let (now, tenancy) = (self.not_before_latest(now), subject.tenancy());
        self.lapse(now, budget);
        let expected = match subject.takes() {
            true => self.make_room(subject, room, now, budget)?,
            false => self.held(),
        };
        let (mut forgiven, mut made_way) = (0_u64, 0);
        let decisions = subject.shares().map(|(tag, share)| {
            let mut meter = self.meter(tag, share.quota, now, tenancy);
            if share.cost != Cost::ZERO {
                forgiven = forgiven.saturating_add(meter.debit(share.cost));
            }
            let decision = look(&meter, Cost::ONE);
            let change = SlotChange::of(&meter, now + decision.reset_after);
            if share.cost != Cost::ZERO {
                self.latest = now;
                made_way += usize::from(self.write(tag, change, now, tenancy));
            }
            tell(decision);
            (decision, share.shadow_of.is_none())
        });
        let decision = composite::join_binding(decisions);
        budget.note_expired(made_way);
        self.settle(expected, budget);
        Ok((decision, forgiven))
    }

    /// Returns what [`take`](Shard::take) would decide, and tells what each rule says. No lease has run out.
    pub(super) fn look(
        &self,
        subject: &Subject<'_>,
        now: Timestamp,
        tell: &mut impl FnMut(Decision),
    ) -> Decision {
        let now = self.not_before_latest(now);
        let decisions = subject.shares().map(|(tag, share)| {
            let decision = look(&self.meter(tag, share.quota, now, subject.tenancy()), share.cost);
            tell(decision);
            (decision, share.shadow_of.is_none())
        });
        composite::join_binding(decisions)
    }

    /// Returns how many requests of cost 1 every rule that binds would let pass.
    fn remaining(&self, subject: &Subject<'_>, now: Timestamp) -> u64 {
        let left = |tag, quota| self.meter(tag, quota, now, subject.tenancy()).remaining();
        let binding = subject.shares().filter(|(_, share)| share.shadow_of.is_none());
        binding.map(|(tag, share)| left(tag, share.quota)).min().unwrap_or(u64::MAX)
    }

    /// Gives back to all rules what is left of a cost. What is unknown stays unknown, and what was forgotten since
    /// stays forgotten: it has nothing to be given back.
    pub(super) fn refund(
        &mut self,
        subject: &Subject<'_>,
        charged: Charged,
        now: Timestamp,
        budget: &Budget,
    ) -> Decision {
        self.lapse(now, budget);
        let (before, now, tenancy) = (self.held(), self.advance(now), subject.tenancy());
        let charged_at = charged.instant(now);
        let decisions = subject.shares().map(|(tag, share)| {
            let known =
                self.holds(tag, share.quota) && share.cost != Cost::ZERO && !self.was_reset(tag, charged_at);
            let mut meter = self.meter(tag, share.quota, now, tenancy);
            if known {
                meter.refund(share.cost, charged_at);
            }
            let decision = look(&meter, Cost::ZERO);
            if known {
                let change = SlotChange::of(&meter, now + decision.reset_after);
                self.write(tag, change, now, tenancy);
            }
            (decision, share.shadow_of.is_none())
        });
        let decision = composite::join_binding(decisions);
        self.settle(before, budget);
        decision
    }
}
