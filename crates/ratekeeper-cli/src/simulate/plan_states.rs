//! The states of all keys under a plan whose rules ask for different amounts, or are in shadow.

use ratekeeper::algorithm::composite::{self, Asked};
use ratekeeper::port::{AmountError, Request};
use ratekeeper::{Amounts, Cost, Decision, Key, Plan, Rules, State, Unit};

use super::shadow_rule::ShadowRule;
use super::trace::TraceEntry;

/// The key that amounts are worked out for: they are the same for every key.
const ANY_KEY: &[u8] = b"trace";

/// A plan, and as many states for each key as it has rules.
#[derive(Debug)]
pub(super) struct PlanStates {
    plan: Plan,
    states: Vec<Option<State>>,
    pub(super) shadows: Vec<ShadowRule>,
    /// Which rules in shadow would have denied the last request, though it was admitted: a bit for each, in the order of
    /// `shadows`.
    pub(super) last_denials: u32,
}

impl PlanStates {
    pub(super) fn new(plan: Plan) -> Self {
        let shadows = plan.rules().iter().filter(|rule| rule.is_shadow()).map(ShadowRule::new).collect();
        PlanStates { plan, states: Vec::new(), shadows, last_denials: 0 }
    }

    /// Takes what an entry asks for from every rule or from none, as a store would.
    pub(super) fn take(&mut self, key: u32, entry: &TraceEntry<'_>) -> Result<Decision, AmountError> {
        let (mut units, mut named) = ([("", 0); Unit::MOST_NAMED], 0);
        // A trace may name more than one of several policies counts.
        for counted in entry.units.iter().filter(|(unit, _)| self.plan.units().any(|known| known == unit)) {
            units[named] = counted;
            named += 1;
        }
        let Ok(any_key) = Key::new(ANY_KEY) else { return Ok(nothing()) };
        let amounts = Amounts::new(Cost::new(entry.cost), &units[..named]);
        let request = Request::of(any_key, Rules::Plan(&self.plan), amounts);
        request.check()?;
        let rules = self.plan.rules().len();
        let range = key as usize * rules..(key as usize + 1) * rules;
        if self.states.len() < range.end {
            self.states.resize(range.end, None);
        }
        // A policy holds no concurrency limit, and no state of another algorithm than its quota's.
        let asked: Vec<Asked> =
            request.shares().map(|share| Asked { cost: share.cost, shadow_of: share.shadow_of }).collect();
        let (quotas, states) = (request.shares().map(|share| share.quota), &mut self.states[range]);
        let each = composite::acquire_each_in_place(quotas, states, |rule| asked[rule], entry.at);
        let Ok(each) = each else { return Ok(nothing()) };
        let binding = request.shares().map(|share| share.shadow_of.is_none());
        let decision = composite::join_binding(each.iter().copied().zip(binding));
        let takes = request.shares().any(|share| share.cost != Cost::ZERO);
        let decision = if decision.allowed && takes { decision.charged(entry.at) } else { decision };
        self.last_denials = 0;
        if decision.allowed {
            let said = self.plan.rules().iter().zip(&each).filter(|(rule, _)| rule.is_shadow());
            for (index, (shadow, (_, said))) in self.shadows.iter_mut().zip(said).enumerate() {
                shadow.count(key, entry.at, said.allowed);
                self.last_denials |= u32::from(!said.allowed) << index;
            }
        }
        Ok(decision)
    }
}

/// The decision where nothing can be decided.
pub(super) fn nothing() -> Decision {
    Decision::deny(0, 0, None, ratekeeper::Nanos::ZERO)
}
