//! Rules that outlive whoever asked.

use std::sync::Arc;

use super::plan::Plan;
use super::rules::Rules;
use crate::Quota;

/// A copy of [`Rules`], for a call that goes on when the caller is gone.
#[derive(Clone, Debug)]
pub enum OwnedRules {
    /// A quota that came with the request.
    Quota(Box<Quota>),
    /// All rules of one plan.
    Plan(Box<Plan>),
    /// All rules of several plans, in order.
    Plans(Box<[Arc<Plan>]>),
}

impl OwnedRules {
    /// Returns the rules as they were.
    pub fn rules(&self) -> Rules<'_> {
        match self {
            OwnedRules::Quota(quota) => Rules::Quota(quota),
            OwnedRules::Plan(plan) => Rules::Plan(plan),
            OwnedRules::Plans(plans) => Rules::Plans(plans),
        }
    }
}

impl From<Rules<'_>> for OwnedRules {
    fn from(rules: Rules<'_>) -> Self {
        match rules {
            Rules::Quota(quota) => OwnedRules::Quota(Box::new(*quota)),
            Rules::Plan(plan) => OwnedRules::Plan(Box::new(plan.clone())),
            Rules::Plans(plans) => OwnedRules::Plans(plans.into()),
        }
    }
}
