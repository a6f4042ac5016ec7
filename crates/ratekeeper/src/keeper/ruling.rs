//! A decision, and what it was about.

use std::ops::Deref;
use std::sync::Arc;

use crate::{Charged, Cost, Decision, Plan, Quota, Rule, Rules, Timestamp};

/// A keeper's decision; it knows the plan and the rule that bound it by name.
#[derive(Clone, Debug)]
pub struct Ruling {
    decision: Decision,
    granted: Cost,
    resolved: Resolved,
    charged: Option<Charged>,
}

impl Ruling {
    #[inline]
    pub(super) fn new(mut decision: Decision, granted: Cost, resolved: Resolved, is_local: bool) -> Self {
        let mut charged = decision.charged_at().map(Charged::at);
        if is_local {
            charged = charged.map(Charged::locally);
            // By the clock of the local store. A bare instant cannot tell, and the real store must not give back by it.
            decision = decision.charged(Timestamp::MIN);
        }
        Ruling { decision, granted, resolved, charged }
    }

    /// Returns the same ruling with another decision.
    pub(super) fn with(self, decision: Decision) -> Self {
        Ruling { decision, ..self }
    }

    pub(super) fn into_resolved(self) -> Resolved {
        self.resolved
    }

    /// The decision.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// How much was taken.
    pub fn granted(&self) -> Cost {
        self.granted
    }

    /// Returns when the cost was taken, and by which store: what a [refund](super::Keeper::refund) of it needs.
    ///
    /// `None` if nobody took anything: it was denied or only asked, it is held to nothing, or the store failed and
    /// the plan says `open`. Then there is nothing to give back.
    pub fn charged(&self) -> Option<Charged> {
        self.charged
    }

    /// The rule that bound the decision, if it belongs to a plan.
    pub fn rule(&self) -> Option<&Rule> {
        self.rules().at(self.decision.rule.into()).map(|(_, rule)| rule)
    }

    /// The plan of that rule.
    pub fn plan(&self) -> Option<&Plan> {
        self.rules().at(self.decision.rule.into()).map(|(plan, _)| plan)
    }

    /// Everything that was decided on.
    pub fn rules(&self) -> Rules<'_> {
        self.resolved.rules()
    }
}

impl Deref for Ruling {
    type Target = Decision;

    fn deref(&self) -> &Decision {
        &self.decision
    }
}

/// What the names of a request stand for.
#[derive(Clone, Debug)]
pub(super) enum Resolved {
    Quota(Quota),
    Plan(Arc<Plan>),
    Plans(Vec<Arc<Plan>>),
}

impl Resolved {
    pub(super) fn rules(&self) -> Rules<'_> {
        match self {
            Resolved::Quota(quota) => Rules::Quota(quota),
            Resolved::Plan(plan) => Rules::Plan(plan),
            Resolved::Plans(plans) => Rules::Plans(plans),
        }
    }
}
