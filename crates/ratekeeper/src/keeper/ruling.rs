//! A decision, and the plans that it was made by.

use std::ops::Deref;
use std::sync::Arc;

use crate::port::Standing;
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

    /// Returns the same ruling, telling what each rule says and who has decided.
    #[inline]
    pub(super) fn telling(self, each: &[Decision], is_local: bool) -> Self {
        if each.is_empty() && !is_local {
            return self;
        }
        let told = ToldRules { resolved: self.resolved, each: each.to_vec(), is_local };
        Ruling { resolved: Resolved::Told(Box::new(told)), ..self }
    }

    /// Returns true if the local store has decided, because the other could not be asked.
    pub(super) fn is_local(&self) -> bool {
        self.resolved.told().is_some_and(|told| told.is_local)
    }

    /// Returns this ruling as a standing, for observers.
    pub(super) fn standing(&self) -> Standing {
        let each = self.resolved.told().map(|told| told.each.clone()).unwrap_or_default();
        Standing { decision: self.decision, each, forgiven: 0 }
    }

    /// Returns the same ruling with another decision.
    pub(super) fn with(self, decision: Decision) -> Self {
        Ruling { decision, ..self }
    }

    /// Returns the same ruling of one who got this much.
    pub(super) fn granting(self, granted: Cost) -> Self {
        Ruling { granted, ..self }
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

    /// Returns what each rule says by itself, in their order, those in shadow, too. Empty unless it was [asked
    /// for](super::Attempt::each), or the plans count several units, have rules in shadow, or are held; and if nobody knows
    /// because the store has failed.
    pub fn each(&self) -> impl Iterator<Item = (&Plan, &Rule, &Decision)> {
        let rules = self.rules().plans().flat_map(|plan| plan.rules().iter().map(move |rule| (plan, rule)));
        let each = self.resolved.told().into_iter().flat_map(|told| &told.each);
        rules.zip(each).map(|((plan, rule), decision)| (plan, rule, decision))
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
    /// Any of these, of which more is told than most ask for: out of the way, so that a ruling stays small.
    Told(Box<ToldRules>),
}

/// What each rule says, and whether the local store has decided.
#[derive(Clone, Debug)]
pub(super) struct ToldRules {
    resolved: Resolved,
    each: Vec<Decision>,
    is_local: bool,
}

impl Resolved {
    fn told(&self) -> Option<&ToldRules> {
        match self {
            Resolved::Told(told) => Some(told),
            _ => None,
        }
    }

    pub(super) fn rules(&self) -> Rules<'_> {
        match self {
            Resolved::Quota(quota) => Rules::Quota(quota),
            Resolved::Plan(plan) => Rules::Plan(plan),
            Resolved::Plans(plans) => Rules::Plans(plans),
            Resolved::Told(told) => told.resolved.rules(),
        }
    }
}
