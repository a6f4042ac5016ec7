//! Where a key stands under all rules of a request.

use super::request::Request;
use crate::{Decision, Plan, Rule};

/// The decision on a request, and what each of its rules says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The decision of all rules together, but for those in shadow.
    pub decision: Decision,
    /// What each rule says by itself, in the order of the rules: those in shadow, too.
    pub each: Vec<Decision>,
    /// How much of a debit was forgiven, over all rules: what went beyond the [bound of a debt](super::Store::debit).
    pub forgiven: u64,
}

impl Standing {
    /// Returns a standing of which no more is known than the decision.
    pub const fn of(decision: Decision) -> Self {
        Standing { decision, each: Vec::new(), forgiven: 0 }
    }

    /// Returns the plans of the request whose rules in shadow would have denied it, although it was allowed, each with the
    /// one of those rules that would have bound.
    pub fn would_deny<'a>(&self, request: &Request<'a>) -> impl Iterator<Item = (&'a Plan, &'a Rule)> {
        let is_allowed = self.decision.allowed;
        let mut rest = self.each.iter();
        request.rules.plans().filter_map(move |plan| {
            let rules = (0..).zip(plan.rules()).zip(rest.by_ref().take(plan.rules().len()));
            let denials = rules.filter(|((_, rule), decision)| rule.is_shadow() && !decision.allowed);
            let binding = denials.map(|((position, _), decision)| decision.of_rule(position));
            let binding = binding.reduce(Decision::join).filter(|_| is_allowed)?;
            plan.rules().get(usize::from(binding.rule)).map(|rule| (plan, rule))
        })
    }
}
