//! The rules that one request is held to.

use std::sync::Arc;

use super::lease::Lease;
use super::leasing::Leasing;
use super::plan::Plan;
use super::rule::{Rule, RuleId};
use crate::Quota;
use crate::algorithm::Tenancy;

/// The rules that one request is held to.
#[derive(Clone, Copy, Debug)]
pub enum Rules<'a> {
    /// A quota that came with the request.
    Quota(&'a Quota),
    /// All rules of one plan.
    Plan(&'a Plan),
    /// All rules of several plans, in order.
    Plans(&'a [Arc<Plan>]),
}

impl<'a> Rules<'a> {
    /// Returns the rules in order: a rule's position here is what [`Decision::rule`](crate::Decision::rule) counts.
    pub fn iter(self) -> impl Iterator<Item = (RuleId, &'a Quota)> + Clone {
        let (quota, plan, plans) = match self {
            Rules::Quota(quota) => (Some(quota), None, &[][..]),
            Rules::Plan(plan) => (None, Some(plan), &[][..]),
            Rules::Plans(plans) => (None, None, plans),
        };
        let named =
            plan.into_iter().chain(plans.iter().map(|plan| &**plan)).flat_map(|plan| plan.rules().iter());
        let ad_hoc = quota.into_iter().map(|quota| (RuleId::AD_HOC, quota));
        ad_hoc.chain(named.map(|rule| (rule.id(), rule.quota())))
    }

    /// Returns whose states these rules decide on: their own, or what all quotas of requests share.
    #[inline]
    pub const fn tenancy(self) -> Tenancy {
        match self {
            Rules::Quota(_) => Tenancy::Shared,
            Rules::Plan(_) | Rules::Plans(_) => Tenancy::Own,
        }
    }

    /// Returns how many rules there are.
    pub fn len(self) -> usize {
        match self {
            Rules::Quota(_) => 1,
            Rules::Plan(plan) => plan.rules().len(),
            Rules::Plans(plans) => plans.iter().map(|plan| plan.rules().len()).sum(),
        }
    }

    /// Returns true if a plain cost says it all: see [`Plan::is_plain`].
    #[inline]
    pub fn are_plain(self) -> bool {
        match self {
            Rules::Quota(_) => true,
            Rules::Plan(plan) => plan.is_plain(),
            Rules::Plans(plans) => plans.iter().all(|plan| plan.is_plain()),
        }
    }

    /// Returns how tokens are taken ahead under these rules; none if every request asks the store, as one must under a single
    /// rule that is never leased. A quota that came with the request has the lease `own`.
    #[inline]
    pub fn leasing(self, own: Lease) -> Option<Leasing> {
        match self {
            Rules::Quota(quota) => Leasing::of_quota(own, quota).ok(),
            Rules::Plan(plan) => plan.leasing(),
            Rules::Plans(plans) => {
                let mut each = plans.iter().map(|plan| plan.leasing());
                let first = each.next()??;
                each.try_fold(first, |all, one| Some(all.join(one?)))
            }
        }
    }

    /// Returns the plans, in order; none for a quota that came with the request.
    pub fn plans(self) -> impl Iterator<Item = &'a Plan> + Clone {
        let (plan, plans) = match self {
            Rules::Quota(_) => (None, &[][..]),
            Rules::Plan(plan) => (Some(plan), &[][..]),
            Rules::Plans(plans) => (None, plans),
        };
        plan.into_iter().chain(plans.iter().map(|plan| &**plan))
    }

    /// Returns true if there is no rule.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns the plan and the rule at a position; none beyond the last one, and none for a quota without a plan.
    pub fn at(self, position: usize) -> Option<(&'a Plan, &'a Rule)> {
        let plans: &'a [Arc<Plan>] = match self {
            Rules::Quota(_) => return None,
            Rules::Plan(plan) => return plan.rules().get(position).map(|rule| (plan, rule)),
            Rules::Plans(plans) => plans,
        };
        let mut rules = plans.iter().flat_map(|plan| plan.rules().iter().map(move |rule| (&**plan, rule)));
        rules.nth(position)
    }
}
