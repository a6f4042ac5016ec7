//! Plans that rules name, held to what rules can use.

use std::ops::Deref;

use ratekeeper::port::ChargeAction;
use ratekeeper::{Algorithm, Plan, Rule};

use super::limit::why_not_hits;
use crate::rls::finding::RlsFinding;
use crate::rls::matching::RateLimitConfig;

impl RateLimitConfig {
    /// Returns what is wrong with the plans that rules name, with the lines of the rules. `plan` finds one by its name.
    ///
    /// The configuration knows no plans: whoever does must ask, when it is loaded and when the plans change.
    pub fn check_plans<P: Deref<Target = Plan>>(&self, plan: impl Fn(&str) -> Option<P>) -> Vec<RlsFinding> {
        let wrong = |name: &str, over| match plan(name) {
            None => Some("there is no such plan".to_owned()),
            Some(plan) => why_not(&plan, over),
        };
        self.plans_named()
            .filter_map(|named| {
                let why = wrong(named.name, named.limited.over)?;
                Some(named.finding(format!("plan: `{}`; {why}", named.name)))
            })
            .collect()
    }
}

fn why_not(plan: &Plan, over: Option<ChargeAction>) -> Option<String> {
    let is_log = |rule: &Rule| !rule.is_shadow() && rule.quota().algorithm() == Algorithm::SlidingLog;
    let is_in_debt = over == Some(ChargeAction::Count) && plan.rules().iter().any(is_log);
    plan.rules().iter().find_map(why_not_hits).or_else(|| {
        is_in_debt.then(|| "it has a `log`, which cannot be in debt: write `over: ignore`".to_owned())
    })
}
