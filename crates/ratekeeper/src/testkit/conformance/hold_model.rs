//! A key with its holds, naively: a list of them, over which everything is summed up again for every question.

use std::sync::Arc;

use crate::algorithm::{AnyView, Tenancy, View, look, take};
use crate::plan::OnLapse;
use crate::port::{HoldAction, HoldId, HoldOutcome, HoldRequest, HoldState, Request, Standing};
use crate::{Amounts, Cost, Decision, Nanos, Plan, Reason, Rule, State, Timestamp};

/// One key under some plans.
pub(super) struct HoldModel {
    plans: Vec<Arc<Plan>>,
    states: Vec<Option<State>>,
    holds: Vec<ModelHold>,
}

struct ModelHold {
    id: HoldId,
    /// What was charged of each rule; none if it was not.
    estimates: Vec<Option<u64>>,
    charged_at: Timestamp,
    lease_end: Timestamp,
    ended: Option<(HoldState, Decision)>,
}

/// What one rule is asked for.
#[derive(Clone, Copy)]
struct Ask {
    cost: u64,
    shadow_of: Option<u8>,
}

impl HoldModel {
    pub(super) fn new(plans: &[Arc<Plan>]) -> Self {
        let rules = plans.iter().map(|plan| plan.rules().len()).sum();
        HoldModel { plans: plans.to_vec(), states: vec![None; rules], holds: Vec::new() }
    }

    fn rule(&self, position: usize) -> (&Plan, &Rule) {
        let mut rules =
            self.plans.iter().flat_map(|plan| plan.rules().iter().map(move |rule| (&**plan, rule)));
        rules.nth(position).expect("a rule of the model")
    }

    /// Returns the rate of a rule as it stands; none if it limits what is in flight.
    fn rate(&self, position: usize, now: Timestamp) -> Option<AnyView<'_>> {
        let (_, rule) = self.rule(position);
        let view = || {
            let state = self.states[position].as_ref();
            let mut rules = self.plans.iter().flat_map(|plan| plan.rules());
            let quota = rules.nth(position).expect("a rule of the model").quota();
            AnyView::at(quota, state, now, Tenancy::Own).expect("a state of the model")
        };
        (!rule.is_concurrency()).then(view)
    }

    fn is_live(hold: &ModelHold) -> bool {
        hold.ended.is_none()
    }

    /// Returns how many holds have not ended.
    pub(super) fn live(&self) -> Vec<HoldId> {
        self.holds.iter().filter(|hold| Self::is_live(hold)).map(|hold| hold.id).collect()
    }

    /// Returns how much all live holds have of a rule, and how much they may have.
    fn in_flight(&self, position: usize) -> Option<(u64, u64)> {
        let (plan, rule) = self.rule(position);
        let mut others = plan.rules().iter();
        let is_bounded = others.any(|other| {
            other.is_concurrency() && !other.is_shadow() && other.unit().as_str() == rule.unit().as_str()
        });
        if is_bounded && !rule.is_concurrency() {
            return None;
        }
        let live = self.holds.iter().filter(|hold| Self::is_live(hold));
        let held = live.map(|hold| hold.estimates[position].unwrap_or(0)).sum();
        Some((held, rule.quota().burst()))
    }

    /// Returns what one rule says to so much more.
    fn look(&self, position: usize, cost: u64, now: Timestamp) -> Decision {
        let rate = self.rate(position, now).map(|rate| look(&rate, Cost::new(cost)));
        let Some((held, most)) = self.in_flight(position) else {
            return rate.expect("what is bounded by another is a rate");
        };
        let is_denied = cost > 0 && held + cost > most;
        let reason = if cost > most { Reason::NeverFits } else { Reason::AtCapacity };
        match rate {
            Some(rate) if !is_denied || !rate.allowed => rate,
            Some(rate) => Decision { allowed: false, retry_after: None, reason, ..rate },
            None if is_denied => {
                Decision { reason, ..Decision::deny(most, most.saturating_sub(held), None, Nanos::ZERO) }
            }
            None => Decision::allow(most, most.saturating_sub(held), Nanos::ZERO),
        }
    }

    fn asked(&self, request: Request<'_>) -> Vec<Ask> {
        let asked = request.shares().map(|share| Ask { cost: share.cost.get(), shadow_of: share.shadow_of });
        asked.collect()
    }

    fn join(&self, each: &[Decision]) -> Decision {
        let numbered = each.iter().enumerate().filter(|(position, _)| !self.rule(*position).1.is_shadow());
        let numbered = numbered
            .map(|(position, decision)| decision.of_rule(u16::try_from(position).unwrap_or(u16::MAX)));
        numbered.reduce(Decision::join).unwrap_or(Decision::allow(u64::MAX, u64::MAX, Nanos::ZERO))
    }

    /// Ends every hold whose lease has run out.
    fn lapse(&mut self, now: Timestamp) {
        let lapsed = |model: &Self| {
            let live = model.holds.iter().enumerate().filter(|(_, hold)| Self::is_live(hold));
            let first = live.min_by_key(|(_, hold)| hold.lease_end);
            first.filter(|(_, hold)| hold.lease_end <= now).map(|(at, _)| at)
        };
        while let Some(at) = lapsed(self) {
            let hold = self.holds.remove(at);
            for (position, estimate) in hold.estimates.iter().enumerate() {
                if let Some(estimate) = estimate.filter(|_| self.rule(position).0.lapse() == OnLapse::Refund)
                {
                    self.correct(position, estimate, 0, hold.charged_at, now);
                }
            }
        }
        let is_known = |hold: &ModelHold| hold.lease_end + HoldRequest::REMEMBERED > now;
        self.holds.retain(is_known);
    }

    /// Gives back or debits the difference. Returns what was forgiven.
    fn correct(
        &mut self,
        position: usize,
        estimate: u64,
        spent: u64,
        charged_at: Timestamp,
        now: Timestamp,
    ) -> u64 {
        let Some(mut rate) = self.rate(position, now) else { return 0 };
        if estimate == spent {
            return 0;
        }
        let mut forgiven = 0;
        if spent > estimate {
            forgiven = rate.debit(Cost::new(spent - estimate));
        } else {
            let counts_in_windows = self.rule(position).1.quota().algorithm().counts_in_windows();
            rate.refund(Cost::new(estimate - spent), if counts_in_windows { charged_at } else { now });
        }
        self.states[position] = rate.to_state();
        forgiven
    }

    pub(super) fn peek(&mut self, request: Request<'_>, now: Timestamp) -> Standing {
        self.lapse(now);
        let asked = self.asked(request);
        let each: Vec<Decision> =
            asked.iter().enumerate().map(|(position, ask)| self.look(position, ask.cost, now)).collect();
        Standing { decision: self.join(&each), each, forgiven: 0 }
    }

    pub(super) fn hold(
        &mut self,
        request: Request<'_>,
        id: HoldId,
        lease: Nanos,
        now: Timestamp,
    ) -> Standing {
        let denied = self.peek(request, now);
        if !denied.decision.allowed {
            return denied;
        }
        let asked = self.asked(request);
        let is_charged = |ask: &Ask| {
            let of_same_plan =
                asked.iter().zip(&denied.each).filter(|(other, _)| other.shadow_of == ask.shadow_of);
            ask.shadow_of.is_none() || of_same_plan.into_iter().all(|(_, decision)| decision.allowed)
        };
        let estimates: Vec<Option<u64>> =
            asked.iter().map(|ask| is_charged(ask).then_some(ask.cost)).collect();
        let (mut each, mut states) = (denied.each.clone(), Vec::new());
        for (position, estimate) in estimates.iter().enumerate() {
            let mut state = None;
            if let (Some(estimate), Some(mut rate)) = (estimate, self.rate(position, now)) {
                each[position] = take(&mut rate, Cost::new(*estimate));
                state = (*estimate > 0).then(|| rate.to_state());
            }
            states.push(state);
        }
        for (own, state) in self.states.iter_mut().zip(states) {
            if let Some(state) = state {
                *own = state;
            }
        }
        let lease_end = now + lease;
        self.holds.push(ModelHold {
            id,
            estimates: estimates.clone(),
            charged_at: now,
            lease_end,
            ended: None,
        });
        for (position, estimate) in estimates.iter().enumerate() {
            if estimate.is_some() && self.rule(position).1.is_concurrency() {
                each[position] = self.look(position, 0, now);
            }
        }
        Standing { decision: self.join(&each).charged(now), each, forgiven: 0 }
    }

    /// Returns what each rule says to one more.
    fn standing(&self, now: Timestamp, forgiven: u64) -> Standing {
        let each: Vec<Decision> =
            (0..self.states.len()).map(|position| self.look(position, 1, now)).collect();
        Standing { decision: self.join(&each), each, forgiven }
    }

    pub(super) fn change(&mut self, id: HoldId, action: HoldAction<'_>, now: Timestamp) -> HoldOutcome {
        self.lapse(now);
        let Some(at) = self.holds.iter().position(|hold| hold.id == id) else { return HoldOutcome::GONE };
        if let Some((state, decision)) = self.holds[at].ended {
            return match action {
                HoldAction::Extend(_) => HoldOutcome::GONE,
                _ => HoldOutcome {
                    state,
                    standing: Some(Standing { decision, ..self.standing(now, 0) }),
                    plans: self.plans.clone(),
                },
            };
        }
        let (state, spent) = match action {
            HoldAction::Extend(lease) => {
                self.holds[at].lease_end = now + lease;
                let standing = Some(self.standing(now, 0));
                return HoldOutcome { state: HoldState::Extended, standing, plans: self.plans.clone() };
            }
            HoldAction::Settle(amounts) => (HoldState::Settled, Some(amounts)),
            HoldAction::Cancel => (HoldState::Cancelled, None),
        };
        // Whatever is said of it from now on, nothing is held by it.
        self.holds[at].ended = Some((state, Decision::allow(0, 0, Nanos::ZERO)));
        let (estimates, charged_at) = (self.holds[at].estimates.clone(), self.holds[at].charged_at);
        let mut forgiven = 0;
        for (position, estimate) in estimates.into_iter().enumerate() {
            if let Some(estimate) = estimate {
                let spent = spent.map_or(0, |amounts| self.spent(position, amounts).unwrap_or(estimate));
                forgiven += self.correct(position, estimate, spent, charged_at, now);
            }
        }
        let standing = self.standing(now, forgiven);
        self.holds[at].ended = Some((state, standing.decision));
        HoldOutcome { state, standing: Some(standing), plans: self.plans.clone() }
    }

    fn spent(&self, position: usize, amounts: Amounts<'_>) -> Option<u64> {
        let unit = self.rule(position).1.unit().as_str();
        let mut named = amounts.units().iter().filter(|(name, _)| *name == unit);
        match (unit, amounts.requests()) {
            ("requests", Some(requests)) => Some(requests.get()),
            _ => named.next().map(|(_, amount)| *amount),
        }
    }

    /// Charges whether or not it passes.
    pub(super) fn debit(&mut self, request: Request<'_>, now: Timestamp) {
        self.lapse(now);
        for (position, ask) in self.asked(request).into_iter().enumerate() {
            self.correct(position, 0, ask.cost, now, now);
        }
    }

    /// Makes the key a fresh one under all of its plans.
    pub(super) fn reset(&mut self, now: Timestamp) {
        self.lapse(now);
        self.states.iter_mut().for_each(|state| *state = None);
        self.holds.retain(|hold| !Self::is_live(hold));
    }
}
