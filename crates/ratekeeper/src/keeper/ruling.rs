//! A decision, and the plans that it was made by.

use std::ops::Deref;
use std::sync::Arc;

use crate::{Charged, Cost, Decision, Plan, Quota, Rule, Rules, Timestamp};

/// A keeper's decision, with the plans that it was made by. Reads like the [`Decision`] that it holds.
///
/// It keeps the plans as they were when it was decided, whatever a reload has made of them since.
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

    /// Returns the same ruling of one who got this much.
    pub(super) fn granting(self, granted: Cost) -> Self {
        Ruling { granted, ..self }
    }

    pub(super) fn into_resolved(self) -> Resolved {
        self.resolved
    }

    /// Returns the decision that this ruling reads like.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Returns how much was taken: the cost or nothing, and anything in between of
    /// [`acquire_up_to`](super::Keeper::acquire_up_to).
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

    /// Returns the rule that bound the decision; none if it is a quota of the request's own.
    pub fn rule(&self) -> Option<&Rule> {
        self.rules().at(self.decision.rule.into()).map(|(_, rule)| rule)
    }

    /// Returns the plan of the rule that bound the decision.
    pub fn plan(&self) -> Option<&Plan> {
        self.rules().at(self.decision.rule.into()).map(|(plan, _)| plan)
    }

    /// Returns all rules that the request was held to.
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
