//! The header fields of a plan, rendered once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use ratekeeper::{Algorithm, Decision, Name, Nanos, Plan, Quota, Rule, Rules, Unit};

use crate::headers::{HeaderDialect, LimitStatus, PolicyField, QuotaPolicy, QuotaUnit, UnitFields, emit};

/// The header fields of a plan: its policies, rendered once, and what is needed to report a decision on them. Rules in
/// shadow are in none.
#[derive(Debug)]
pub struct PolicyHeaders {
    field: Option<PolicyField>,
    rules: Box<[RuleHeaders]>,
    /// The fields of each unit that is counted at a rate.
    units: Box<[UnitFields]>,
    counts_units: bool,
}

/// What is needed to report on one rule.
#[derive(Debug)]
struct RuleHeaders {
    name: Option<Name>,
    /// None of a limit on how many are in flight.
    quota: Option<Quota>,
    /// Which of the field's policies it is; none in shadow.
    policy: Option<usize>,
    /// Which unit it counts, of those that have fields; none in shadow, and of what is in flight.
    unit: Option<usize>,
}

impl PolicyHeaders {
    /// Renders the rules that a request was held to. Those of several plans are called `plan.rule`, and a quota that
    /// came with its request is called `quota`.
    pub fn of_rules(rules: Rules<'_>) -> Self {
        let mut rendering = PolicyRendering::default();
        match rules {
            Rules::Plan(plan) => return Self::of(plan),
            Rules::Plans([plan]) => return Self::of(plan),
            Rules::Quota(quota) => rendering.quota(quota),
            _ => {
                for plan in rules.plans() {
                    for rule in plan.rules() {
                        rendering.rule(&format!("{}.{}", plan.name(), rule.name()), rule);
                    }
                }
            }
        }
        rendering.finish()
    }

    /// Renders the rules of a plan.
    pub fn of(plan: &Plan) -> Self {
        let mut rendering = PolicyRendering::default();
        for rule in plan.rules() {
            rendering.rule(rule.name().as_str(), rule);
        }
        rendering.finish()
    }

    /// Renders a limit on how many are in flight.
    pub(crate) fn concurrent(name: &Name, limit: u64) -> Self {
        let policy = QuotaPolicy::new(name.as_str(), limit).unit(QuotaUnit::ConcurrentRequests);
        let rule = RuleHeaders { name: Some(name.clone()), quota: None, policy: Some(0), unit: None };
        PolicyHeaders {
            field: PolicyField::new(&[policy]).ok(),
            rules: Box::new([rule]),
            units: Box::default(),
            counts_units: false,
        }
    }

    /// Returns true if a rule that binds counts anything but requests at a rate, such as tokens or what is in flight: then what
    /// one rule says is not enough, and a response should tell of [each](PolicyHeaders::write_each).
    pub fn counts_units(&self) -> bool {
        self.counts_units
    }

    /// Returns the name of the rule at this position.
    pub(crate) fn rule(&self, position: u16) -> Option<&Name> {
        self.rules.get(usize::from(position)).and_then(|rule| rule.name.as_ref())
    }

    /// Adds to a response what this decision says of the rule that bound it: what is left, and how long until there is
    /// more. Nothing is reported of a decision that was made without knowing. Allocates the header values only.
    pub fn write(&self, headers: &mut HeaderMap, dialect: HeaderDialect, decision: &Decision) {
        self.write_each(headers, dialect, decision, &[]);
    }

    /// Like [`write`](PolicyHeaders::write), but reports on every rule, given in their order, as
    /// [`Ruling::each`](ratekeeper::Ruling::each) tells them, those in shadow too. If there are none, on the one that bound the decision.
    ///
    /// The legacy fields, which hold one limit, have that one in any case.
    pub fn write_each(
        &self,
        headers: &mut HeaderMap,
        dialect: HeaderDialect,
        decision: &Decision,
        each: &[Decision],
    ) {
        let Some(field) = &self.field else { return };
        // Rules in shadow change no field, so they do not count.
        let binding = self.status(field, decision.rule, decision, field.names().len() == 1);
        if each.is_empty() {
            emit::write(headers, dialect, field, binding.as_slice());
        } else {
            if dialect.ietf() {
                let positions = 0..u16::MAX;
                let statuses =
                    positions.zip(each).filter_map(|(rule, of)| self.status(field, rule, of, true));
                emit::write(headers, HeaderDialect::Ietf, field, &statuses.collect::<Vec<_>>());
            }
            if dialect.legacy() {
                emit::write(headers, HeaderDialect::Legacy, field, binding.as_slice());
            }
        }
        if dialect.per_unit() {
            self.write_units(headers, decision, each);
        }
    }

    /// Adds the fields of each unit: of several rules that count the same one, those of the rule with the least left.
    fn write_units(&self, headers: &mut HeaderMap, decision: &Decision, each: &[Decision]) {
        let write = |headers: &mut HeaderMap, position: usize, decision: &Decision| {
            let unit = self.rules.get(position).and_then(|rule| self.units.get(rule.unit?));
            if let (Some(unit), true) = (unit, decision.reason.is_informed()) {
                unit.write(headers, decision.limit, decision.remaining, decision.reset_after.as_duration());
            }
        };
        if each.is_empty() {
            write(headers, decision.rule.into(), decision);
        }
        for (position, decision) in each.iter().enumerate() {
            write(headers, position, decision);
        }
    }

    fn status<'a>(
        &self,
        field: &'a PolicyField,
        rule: u16,
        decision: &Decision,
        alone: bool,
    ) -> Option<LimitStatus<'a>> {
        if !decision.reason.is_informed() {
            return None;
        }
        let rule = self.rules.get(usize::from(rule))?;
        let name = field.names().get(rule.policy?)?;
        let reset = rule.quota.and_then(|quota| grows_in(&quota, decision, alone));
        Some(LimitStatus { name, limit: decision.limit, remaining: decision.remaining, reset })
    }
}

/// Policies on their way into header fields.
#[derive(Default)]
struct PolicyRendering {
    policies: Vec<QuotaPolicy>,
    rules: Vec<RuleHeaders>,
    units: Vec<(String, UnitFields)>,
    counts_units: bool,
}

impl PolicyRendering {
    fn quota(&mut self, quota: &Quota) {
        let unit = self.unit(Unit::REQUESTS.as_str());
        self.rules.push(RuleHeaders { name: None, quota: Some(*quota), policy: Some(0), unit });
        self.policies.push(policy("quota", quota));
    }

    fn rule(&mut self, name: &str, rule: &Rule) {
        let is_shadow = rule.is_shadow();
        let policy_at = (!is_shadow).then_some(self.policies.len());
        let is_rate = !rule.is_concurrency();
        let unit = if is_rate && !is_shadow { self.unit(rule.unit().as_str()) } else { None };
        let quota = is_rate.then_some(*rule.quota());
        self.rules.push(RuleHeaders { name: Some(rule.name().clone()), quota, policy: policy_at, unit });
        if !is_shadow {
            self.counts_units |= !is_rate || !rule.unit().is_requests();
            let unit = match (rule.unit(), is_rate) {
                (unit, true) => QuotaUnit::from(unit.as_str()),
                (unit, false) if *unit == Unit::CONCURRENT || unit.is_requests() => {
                    QuotaUnit::ConcurrentRequests
                }
                (unit, false) => QuotaUnit::Other(format!("concurrent-{unit}")),
            };
            let policy = match is_rate {
                true => policy(name, rule.quota()),
                false => QuotaPolicy::new(name, rule.quota().burst()),
            };
            self.policies.push(policy.unit(unit));
        }
    }

    /// Returns where the fields of a unit are.
    fn unit(&mut self, unit: &str) -> Option<usize> {
        if let Some(known) = self.units.iter().position(|(known, _)| known == unit) {
            return Some(known);
        }
        self.units.push((unit.to_owned(), UnitFields::new(unit).ok()?));
        Some(self.units.len() - 1)
    }

    fn finish(self) -> PolicyHeaders {
        PolicyHeaders {
            // A name is printable, and a plan has few enough rules: only one without rules that bind has no field.
            field: PolicyField::new(&self.policies).ok(),
            rules: self.rules.into(),
            units: self.units.into_iter().map(|(_, fields)| fields).collect(),
            counts_units: self.counts_units,
        }
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
    /// What each rule says; empty where nobody asked, or one says it all.
    pub(crate) each: Box<[Decision]>,
    /// The fields of the rules that it was decided by.
    pub(crate) headers: Arc<PolicyHeaders>,
}

impl LimitReport {
    /// Returns the report of a decision, without what each rule says of it.
    #[inline]
    pub(crate) fn of(decision: Decision, headers: &Arc<PolicyHeaders>) -> Self {
        LimitReport { decision, each: Box::default(), headers: Arc::clone(headers) }
    }

    /// Adds the header fields to a response.
    pub(crate) fn write(&self, headers: &mut HeaderMap, dialect: HeaderDialect) {
        self.headers.write_each(headers, dialect, &self.decision, &self.each);
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
