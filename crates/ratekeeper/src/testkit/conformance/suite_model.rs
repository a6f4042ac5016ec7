//! What the pure algorithms answer: the measure of every store.

use crate::algorithm::Tenancy;
use crate::algorithm::composite::{self, Asked};
use crate::port::{Request, Standing};
use crate::{Cost, Decision, Nanos, Quota, Rules, State, Timestamp};

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
