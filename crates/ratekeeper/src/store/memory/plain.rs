//! The shorter way of a plain request under several rules, or under one that is not GCRA: each state is looked up and viewed
//! once, and if all of them are there, written where it was found, without a claim on the budget.

use super::budget::{Allowance, Budget, Full};
use super::shard::{Shard, Subject};
use super::slot::{Packed, SlotChange};
use super::tag::Tag;
use crate::algorithm::gcra::{GcraState, GcraView};
use crate::algorithm::{AnyView, Tenancy, View, Wait, composite, look, take_ready};
use crate::{Algorithm, Cost, Decision, Nanos, Quota, Timestamp};

/// How many rules may go this way: more are rare, and each takes room on the stack.
const MOST_RULES: usize = 4;

/// One rule of a request, and what becomes of its state.
struct PlainRule<'q> {
    tag: Tag,
    /// Where the state is in the table of its algorithm.
    index: Option<usize>,
    view: AnyView<'q>,
    decision: Decision,
    change: Option<SlotChange>,
}

impl PlainRule<'_> {
    /// Takes the cost if all rules pass.
    #[inline(always)]
    fn decide(&mut self, cost: Cost, passes: bool, now: Timestamp) -> Decision {
        self.decision = match passes {
            true => take_ready(&mut self.view, cost),
            false => look(&self.view, cost),
        };
        if cost != Cost::ZERO && (passes || self.view.was_repaired()) {
            self.change = Some(SlotChange::of(&self.view, now + self.decision.reset_after));
        }
        self.decision
    }

    /// Returns true if the state stays where it is. A new one takes room, and dropping one moves others.
    fn stays(&self) -> bool {
        match self.change {
            None => true,
            Some(SlotChange::Instant(Some(_)) | SlotChange::Packed(Some(_))) => self.index.is_some(),
            Some(_) => false,
        }
    }
}

impl Shard {
    /// Takes the cost of a plain request from all rules or from none, and tells what each says. `None` if a log is among the
    /// rules, or there are too many: nothing has happened then.
    pub(super) fn take_plain(
        &mut self,
        subject: &Subject<'_>,
        now: Timestamp,
        room: Allowance,
        budget: &Budget,
        tell: &mut impl FnMut(Decision),
    ) -> Result<Option<Decision>, Full> {
        let (cost, tenancy) = (subject.request.cost, subject.tenancy());
        let mut rules: [Option<PlainRule<'_>>; MOST_RULES] = std::array::from_fn(|_| None);
        let mut count = 0;
        for (tag, quota) in subject.tags() {
            let Some(place) = rules.get_mut(count) else { return Ok(None) };
            *place = self.plain_rule(tag, quota, now, tenancy);
            if place.is_none() {
                return Ok(None);
            }
            count += 1;
        }
        let rules = &mut rules[..count];
        let passes = rules.iter().flatten().all(|rule| rule.view.wait_for(cost) == Wait::Ready);
        let decision = composite::join(rules.iter_mut().flatten().map(|rule| rule.decide(cost, passes, now)));
        if rules.iter().flatten().all(PlainRule::stays) {
            rules.iter().flatten().for_each(|rule| self.rewrite(rule, now, tenancy));
        } else {
            let expected = match passes {
                true => self.make_room(subject, room, now, budget)?,
                false => self.held(),
            };
            let mut made_way = 0;
            for rule in rules.iter().flatten() {
                if let Some(change) = rule.change {
                    self.latest = now;
                    made_way += usize::from(self.write(rule.tag, change, now, tenancy));
                }
            }
            budget.note_expired(made_way);
            self.settle(expected, budget);
        }
        rules.iter().flatten().for_each(|rule| tell(rule.decision));
        Ok(Some(decision))
    }

    #[inline(always)]
    fn plain_rule<'q>(
        &self,
        tag: Tag,
        quota: &'q Quota,
        now: Timestamp,
        tenancy: Tenancy,
    ) -> Option<PlainRule<'q>> {
        let (index, view) = match quota.algorithm() {
            Algorithm::SlidingLog => return None,
            Algorithm::Gcra | Algorithm::Concurrency => {
                let index = self.instants.find(tag);
                let state = index.map(|index| GcraState { tat: self.instants.get(index).0 });
                (index, AnyView::Gcra(GcraView::at(quota, state, now, tenancy)))
            }
            _ => {
                let table = self.rest.as_ref().map(|rest| &rest.packed);
                let index = table.and_then(|table| table.find(tag));
                let state = table.zip(index).map(|(table, index)| table.get(index));
                (index, Packed::view(state, quota, now, tenancy))
            }
        };
        Some(PlainRule { tag, index, view, decision: Decision::allow(0, 0, Nanos::ZERO), change: None })
    }

    /// Writes a state where it is.
    #[inline(always)]
    fn rewrite(&mut self, rule: &PlainRule<'_>, now: Timestamp, tenancy: Tenancy) {
        let Some(index) = rule.index else { return };
        match (rule.change, &mut self.rest) {
            (Some(SlotChange::Instant(Some(tat))), _) => self.instants.set(index, tat),
            (Some(SlotChange::Packed(Some(mut packed))), Some(rest)) => {
                packed.outlive(rest.packed.get(index), tenancy);
                rest.packed.set(index, packed);
            }
            _ => return,
        }
        self.latest = now;
    }
}
