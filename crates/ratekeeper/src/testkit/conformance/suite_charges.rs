//! Keys with their states, and the law of charges (docs/semantics.md §12) as it is worded: made once on copies, as if the whole
//! passed, and once more as far as they stay.

use std::collections::HashMap;

use crate::algorithm::{AnyView, View, Wait};
use crate::port::{Charge, ChargeAction, ChargeForce, ChargeStanding, Judgment, Request, Whole};
use crate::{Cost, Decision, Nanos, State, Timestamp};

/// What all keys have, by key and rule; quotas of requests by what they are.
#[derive(Clone, Debug, Default)]
pub(super) struct SuiteCharges {
    states: HashMap<(Vec<u8>, u64, String), State>,
}

impl SuiteCharges {
    /// Judges and makes charges at this instant.
    pub(super) fn charge(&mut self, charges: &[Charge<'_>], whole: Whole, now: Timestamp) -> Judgment {
        let mut rehearsed = self.clone();
        let over: Vec<Vec<bool>> =
            charges.iter().map(|charge| rehearsed.make(charge, true, None, now).1).collect();
        let is_over = |(charge, over): (&Charge<'_>, &Vec<bool>)| {
            charge.request.shares().zip(over).any(|(share, is_over)| share.shadow_of.is_none() && *is_over)
        };
        let judged: Vec<(ChargeForce, bool)> =
            charges.iter().zip(&over).map(|each| (each.0.force, is_over(each))).collect();
        let of = |force| judged.iter().filter(move |(other, _)| *other == force).map(|(_, over)| *over);
        let refuses_alone = of(ChargeForce::Alone).any(|over| over);
        let refuse_together =
            of(ChargeForce::Together).count() > 0 && of(ChargeForce::Together).all(|over| over);
        let passes = match whole {
            Whole::Open => !refuses_alone && !refuse_together,
            Whole::Passes => true,
            Whole::Refused => false,
        };
        let made = charges.iter().zip(&over);
        let each = made.map(|(charge, over)| self.make(charge, passes, Some(over), now).0).collect();
        Judgment { passes, each }
    }

    /// Forgets a key under the rules of a request.
    pub(super) fn reset(&mut self, request: &Request<'_>) {
        for id in ids(request) {
            self.states.remove(&id);
        }
    }

    /// Makes one charge, as far as it stays if the whole passes or not. Returns whether each rule is over.
    fn make(
        &mut self,
        charge: &Charge<'_>,
        passes: bool,
        judged: Option<&[bool]>,
        now: Timestamp,
    ) -> (ChargeStanding, Vec<bool>) {
        let Charge { request, action, .. } = *charge;
        let (ids, tenancy) = (ids(&request), request.rules.tenancy());
        let shares: Vec<_> = request.shares().collect();
        let is_look = shares.iter().all(|share| share.cost == Cost::ZERO);
        let states: Vec<Option<State>> = ids.iter().map(|id| self.states.get(id).cloned()).collect();
        let views = shares.iter().zip(&states).map(|(share, state)| {
            AnyView::at(share.quota, state.as_ref(), now, tenancy).expect("a state of its algorithm")
        });
        let mut views: Vec<AnyView<'_>> = views.collect();
        let wait = |view: &AnyView<'_>, cost: Cost| match action {
            ChargeAction::GiveBack => Wait::Ready,
            ChargeAction::Count if is_look => view.wait_until_paid(),
            ChargeAction::Ignore if is_look => view.wait_for(Cost::ONE),
            _ => view.wait_for(cost),
        };
        let found = views.iter().zip(&shares).map(|(view, share)| wait(view, share.cost) != Wait::Ready);
        let found: Vec<bool> = found.collect();
        let over = judged.unwrap_or(&found).to_vec();
        let left = views.iter().zip(&shares).filter(|(_, share)| share.shadow_of.is_none());
        let left_before = left.map(|(view, _)| view.remaining()).min().unwrap_or(u64::MAX);
        let is_over = |which: Option<u8>| {
            shares.iter().zip(&found).any(|(share, is_over)| share.shadow_of == which && *is_over)
        };
        let mut each = Vec::new();
        for (position, share) in shares.iter().enumerate() {
            let view = &mut views[position];
            let stays = passes && !is_over(None) && (share.shadow_of.is_none() || !is_over(share.shadow_of));
            let changes = share.cost != Cost::ZERO
                && match action {
                    ChargeAction::Count => {
                        view.debit(share.cost);
                        true
                    }
                    ChargeAction::Ignore if stays => {
                        view.charge(share.cost);
                        true
                    }
                    ChargeAction::Ignore => view.was_repaired(),
                    ChargeAction::GiveBack => {
                        view.refund(share.cost, now);
                        states[position].is_some()
                    }
                };
            let (limit, remaining, ends) = (view.limit(), view.remaining(), view.ends_after());
            each.push(match (over[position], wait(view, share.cost)) {
                (false, _) => Decision::allow(limit, remaining, ends),
                (true, Wait::Ready) => Decision::deny(limit, remaining, Some(Nanos::ZERO), ends),
                (true, Wait::After(wait)) => Decision::deny(limit, remaining, Some(wait), ends),
                (true, Wait::Never) => Decision::deny(limit, remaining, None, ends),
            });
            if changes {
                match view.to_state() {
                    Some(state) => drop(self.states.insert(ids[position].clone(), state)),
                    None => drop(self.states.remove(&ids[position])),
                }
            }
        }
        let numbered = (0..).zip(each.iter().zip(&shares));
        let binding = numbered.filter(|(_, (_, share))| share.shadow_of.is_none());
        let joined =
            binding.map(|(position, (decision, _))| decision.of_rule(position)).reduce(Decision::join);
        let mut decision = joined.unwrap_or(Decision::allow(u64::MAX, u64::MAX, Nanos::ZERO));
        let is_charged = match action {
            ChargeAction::Count => true,
            ChargeAction::Ignore => passes && !is_over(None),
            ChargeAction::GiveBack => false,
        };
        if is_charged && !is_look {
            decision = decision.charged(now);
        }
        let has_shadows = shares.iter().any(|share| share.shadow_of.is_some());
        let rules = if has_shadows { each } else { Vec::new() };
        (ChargeStanding { decision, left_before, rules }, over)
    }
}

fn ids(request: &Request<'_>) -> Vec<(Vec<u8>, u64, String)> {
    let of = |(rule, quota): (crate::RuleId, &crate::Quota)| {
        let brought = if rule == crate::RuleId::AD_HOC { quota.to_string() } else { String::new() };
        (request.key.as_bytes().to_vec(), rule.as_u64(), brought)
    };
    request.rules.iter().map(of).collect()
}
