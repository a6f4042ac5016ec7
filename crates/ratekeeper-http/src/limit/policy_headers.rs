//! The header fields of a plan, rendered once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use ratekeeper::{Algorithm, Decision, Name, Nanos, Plan, Quota, Rules};

use crate::headers::{HeaderDialect, LimitStatus, PolicyField, QuotaPolicy, Unit, emit};

/// The header fields of a plan: its policies, rendered once, and what is needed to report a decision on them.
#[derive(Debug)]
pub struct PolicyHeaders {
    field: Option<PolicyField>,
    rules: Box<[(Option<Name>, Option<Quota>)]>,
}

impl PolicyHeaders {
    /// Renders the rules that a request was held to. Those of several plans are called `plan.rule`, and a quota that
    /// came with its request is called `quota`.
    pub fn of_rules(rules: Rules<'_>) -> Self {
        let quotas = match rules {
            Rules::Plan(plan) => return Self::of(plan),
            _ => rules.iter().enumerate(),
        };
        let (policies, rules): (Vec<QuotaPolicy>, Vec<_>) = quotas
            .map(|(position, (_, quota))| match rules.at(position) {
                Some((plan, rule)) => {
                    let name = format!("{}.{}", plan.name(), rule.name());
                    (policy(&name, quota), (Some(rule.name().clone()), Some(*quota)))
                }
                None => (policy("quota", quota), (None, Some(*quota))),
            })
            .unzip();
        PolicyHeaders { field: PolicyField::new(&policies).ok(), rules: rules.into() }
    }

    /// Renders the rules of a plan.
    pub fn of(plan: &Plan) -> Self {
        let policies: Vec<QuotaPolicy> =
            plan.rules().iter().map(|rule| policy(rule.name().as_str(), rule.quota())).collect();
        // A name is printable, and a plan has few enough rules: this cannot fail.
        let field = PolicyField::new(&policies).ok();
        let rules = plan.rules().iter().map(|rule| (Some(rule.name().clone()), Some(*rule.quota())));
        let rules = rules.collect();
        PolicyHeaders { field, rules }
    }

    /// Renders a limit on how many are in flight.
    pub(crate) fn concurrent(name: &Name, limit: u64) -> Self {
        let policy = QuotaPolicy::new(name.as_str(), limit).unit(Unit::ConcurrentRequests);
        PolicyHeaders {
            field: PolicyField::new(&[policy]).ok(),
            rules: Box::new([(Some(name.clone()), None)]),
        }
    }

    /// Returns the name of the rule at this position.
    pub(crate) fn rule(&self, position: u16) -> Option<&Name> {
        self.rules.get(usize::from(position)).and_then(|(name, _)| name.as_ref())
    }

    /// Adds to a response what this decision says of the rule that bound it: what is left, and how long until there is
    /// more. Nothing is reported of a decision that was made without knowing. Allocates the header values only.
    pub fn write(&self, headers: &mut HeaderMap, dialect: HeaderDialect, decision: &Decision) {
        let Some(field) = &self.field else { return };
        let status = self.status(field, decision);
        emit::write(headers, dialect, field, status.as_slice());
    }

    fn status<'a>(&self, field: &'a PolicyField, decision: &Decision) -> Option<LimitStatus<'a>> {
        if !decision.reason.is_informed() {
            return None;
        }
        let name = field.names().get(usize::from(decision.rule))?;
        let quota = self.rules.get(usize::from(decision.rule))?.1;
        let reset = quota.and_then(|quota| grows_in(&quota, decision, self.rules.len() == 1));
        Some(LimitStatus { name, limit: decision.limit, remaining: decision.remaining, reset })
    }
}

/// Returns a quota as the draft tells it: as much as can be used at once, in the time it takes to be whole again. The
/// same rate as the count per period, and what remains is never more than the quota.
fn policy(name: &str, quota: &Quota) -> QuotaPolicy {
    let window = match quota.algorithm() {
        Algorithm::Gcra | Algorithm::TokenBucket | Algorithm::LeakyBucket => quota.refill_time(),
        _ => quota.period(),
    };
    QuotaPolicy::new(name, quota.burst()).window(window.as_duration())
}

/// Returns how long until there is more: until the next whole unit has come in, or the window ends.
fn grows_in(quota: &Quota, decision: &Decision, alone: bool) -> Option<Duration> {
    if !decision.allowed {
        return decision.retry_after.map(Nanos::as_duration);
    }
    if decision.remaining >= quota.burst() {
        return None;
    }
    let wait = match quota.algorithm() {
        Algorithm::Gcra | Algorithm::TokenBucket | Algorithm::LeakyBucket => {
            let unit = quota.emission_interval();
            // With several rules the time until all are whole again says nothing of this one: at most a unit then.
            let later = unit.as_nanos().saturating_mul(quota.burst() - decision.remaining - 1);
            let exact = decision.reset_after.saturating_sub(Nanos::from_nanos(later));
            if alone { exact.min(unit) } else { unit }
        }
        _ => decision.reset_after.min(quota.period()),
    };
    Some(wait.as_duration())
}

/// What a response says of a decision.
#[derive(Clone, Debug)]
pub(crate) struct LimitReport {
    pub(crate) decision: Decision,
    /// The fields of the rules that it was decided by.
    pub(crate) headers: Arc<PolicyHeaders>,
}

impl LimitReport {
    /// Adds the header fields to a response.
    pub(crate) fn write(&self, headers: &mut HeaderMap, dialect: HeaderDialect) {
        self.headers.write(headers, dialect, &self.decision);
    }

    /// Returns the name of the rule that bound the decision.
    pub(crate) fn rule(&self) -> Option<&Name> {
        self.headers.rule(self.decision.rule)
    }
}

/// Rendered headers, by plan. There are as many entries as plans, and their names are the operator's.
#[derive(Debug, Default)]
pub(crate) struct PolicyHeadersCache {
    by_plan: Mutex<HashMap<Name, (Plan, Arc<PolicyHeaders>)>>,
}

impl PolicyHeadersCache {
    /// Returns the headers of a plan. Renders them again only if the plan has changed. Takes a lock.
    pub(crate) fn of(&self, plan: &Plan) -> Arc<PolicyHeaders> {
        let mut by_plan = self.by_plan.lock().unwrap_or_else(PoisonError::into_inner);
        match by_plan.get(plan.name()) {
            Some((rendered, headers)) if rendered == plan => Arc::clone(headers),
            _ => {
                let headers = Arc::new(PolicyHeaders::of(plan));
                by_plan.insert(plan.name().clone(), (plan.clone(), Arc::clone(&headers)));
                headers
            }
        }
    }
}
