//! What the pure algorithms answer: the measure of every store.

use crate::algorithm::Tenancy;
use crate::algorithm::composite::{self, Asked};
use crate::port::{Grant, Request, Standing};
use crate::{Algorithm, Anchor, Cost, Decision, Nanos, Quota, Rules, State, Timestamp};

const FIT: &str = "the suite's states fit";

/// A key as the pure algorithms see it.
pub(super) struct SuiteModel {
    rules: Vec<(Quota, Option<State>)>,
    tenancy: Tenancy,
    pub(super) last_reset: Timestamp,
}

impl SuiteModel {
    pub(super) fn of(rules: Rules<'_>) -> Self {
        SuiteModel {
            rules: rules.iter().map(|(_, quota)| (*quota, None)).collect(),
            tenancy: rules.tenancy(),
            last_reset: Timestamp::MIN,
        }
    }

    pub(super) fn peek(&self, request: &Request<'_>, now: Timestamp) -> Standing {
        let asked = asked(request);
        let each = composite::peek_each(&self.rules, |rule| asked[rule], now, self.tenancy).expect(FIT);
        standing(&asked, each, 0)
    }

    /// Takes what is asked of all rules that bind, or of none.
    pub(super) fn charge(&mut self, request: &Request<'_>, now: Timestamp) -> Standing {
        let asked = asked(request);
        let (each, states) =
            composite::try_acquire_each(&self.rules, |rule| asked[rule], now, self.tenancy).expect(FIT);
        self.keep(states);
        let mut standing = standing(&asked, each, 0);
        if standing.decision.allowed && takes(request) {
            standing.decision = standing.decision.charged(now);
        }
        standing
    }

    /// Takes the most that passes from the request's cost to `most`, which is found by trying, or nothing.
    pub(super) fn take_up_to(&mut self, request: &Request<'_>, most: Cost, at: Timestamp) -> Grant {
        let (mut passes, mut fails) = (request.cost.get(), most.max(request.cost).get().saturating_add(1));
        while fails - passes > 1 {
            let middle = passes + (fails - passes) / 2;
            match self.peek(&request.at_cost(Cost::new(middle)), at).decision.allowed {
                true => passes = middle,
                false => fails = middle,
            }
        }
        let wanted = Cost::new(passes);
        let decision = self.charge(&request.at_cost(wanted), at).decision;
        let granted = if decision.allowed { wanted } else { Cost::ZERO };
        let binding = self.rules.iter().zip(request.shares()).filter(|(_, share)| share.shadow_of.is_none());
        let ends = binding.filter_map(|((quota, state), _)| window_left(quota, state.as_ref(), at)).min();
        let next = self.peek(&request.at_cost(Cost::ONE), at).decision;
        Grant { granted, decision, at, ends, next }
    }

    pub(super) fn debit(&mut self, request: &Request<'_>, now: Timestamp) -> Standing {
        let asked = asked(request);
        let ((each, states), forgiven) =
            composite::debit_each(&self.rules, |rule| asked[rule], now, self.tenancy).expect(FIT);
        self.keep(states);
        standing(&asked, each, forgiven)
    }

    pub(super) fn refund(
        &mut self,
        request: &Request<'_>,
        charged_at: Timestamp,
        now: Timestamp,
    ) -> Decision {
        let asked = asked(request);
        let each = if takes(request) && charged_at > self.last_reset {
            let (each, states) =
                composite::refund_each(&self.rules, |rule| asked[rule], charged_at, now, self.tenancy)
                    .expect(FIT);
            self.rules.iter_mut().zip(states).for_each(|(rule, state)| rule.1 = state);
            each
        } else {
            composite::peek_each(&self.rules, |_| Cost::ZERO.into(), now, self.tenancy).expect(FIT)
        };
        standing(&asked, each, 0).decision
    }

    /// Returns how many states are worth something.
    pub(super) fn reset(&mut self, now: Timestamp) -> u64 {
        self.last_reset = now;
        let states = self.rules.iter_mut().map(|rule| {
            let rule_alone = std::slice::from_ref(&*rule);
            let left = composite::peek(rule_alone, Cost::ZERO, now, self.tenancy);
            rule.1 = None;
            u64::from(left.expect(FIT).reset_after > Nanos::ZERO)
        });
        states.sum()
    }

    fn keep(&mut self, states: Vec<Option<State>>) {
        for (rule, state) in self.rules.iter_mut().zip(states) {
            if state.is_some() {
                rule.1 = state;
            }
        }
    }
}

/// Returns the time until the fixed window of an instant ends, as the law words it.
fn window_left(quota: &Quota, state: Option<&State>, now: Timestamp) -> Option<Nanos> {
    let Algorithm::FixedWindow(anchor) = quota.algorithm() else { return None };
    let length = quota.period();
    let end = match (anchor, state) {
        (Anchor::Calendar(calendar), _) => calendar.window(now).1,
        (Anchor::Grid, _) => {
            let windows = now.as_nanos().unsigned_abs() / length.as_nanos();
            Timestamp::EPOCH + Nanos::from_nanos((windows + 1) * length.as_nanos())
        }
        (_, Some(State::FixedWindow(state))) if state.count > 0 && now < state.start + length => {
            state.start + length
        }
        _ => now + length,
    };
    Some(end.since(now))
}

/// Returns true if anything is asked for.
pub(super) fn takes(request: &Request<'_>) -> bool {
    request.shares().any(|share| share.cost != Cost::ZERO)
}

fn asked(request: &Request<'_>) -> Vec<Asked> {
    request.shares().map(|share| Asked { cost: share.cost, shadow_of: share.shadow_of }).collect()
}

fn standing(asked: &[Asked], each: Vec<Decision>, forgiven: u64) -> Standing {
    let binding = each.iter().zip(asked).map(|(decision, asked)| (*decision, asked.shadow_of.is_none()));
    Standing { decision: composite::join_binding(binding), each, forgiven }
}
