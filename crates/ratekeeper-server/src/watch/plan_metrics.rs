//! Decisions counted by plan and rule, and failures of the store by reason.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use ratekeeper::port::{Observer, Request};
use ratekeeper::{Decision, Name, RuleId, Rules, StoreError};

use super::failure_log::FailureLog;

/// An observer of the keeper that counts for the metrics. Clones count together.
///
/// Counts what is held to plans. Decisions by a quota that came with its request have no plan to be counted under; the
/// transports count those, with all others, in [`TransportMetrics`](super::TransportMetrics).
#[derive(Clone, Debug, Default)]
pub(crate) struct PlanMetrics(Arc<PlanCounters>);

#[derive(Debug, Default)]
struct PlanCounters {
    rules: RwLock<HashMap<RuleId, RuleCounter>>,
    store_errors: Mutex<Vec<(&'static str, u64)>>,
    failures: Mutex<FailureLog>,
}

#[derive(Debug)]
struct RuleCounter {
    plan: Name,
    rule: Name,
    allowed: AtomicU64,
    denied: AtomicU64,
}

impl RuleCounter {
    fn add(&self, allowed: bool) {
        let counter = if allowed { &self.allowed } else { &self.denied };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl PlanMetrics {
    /// Returns plan, rule, result and count of every rule that has decided, sorted.
    pub(crate) fn decisions(&self) -> Vec<(Name, Name, &'static str, u64)> {
        let rules = self.0.rules.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = rules
            .values()
            .flat_map(|count| {
                [("allowed", &count.allowed), ("denied", &count.denied)].map(|(result, counter)| {
                    (count.plan.clone(), count.rule.clone(), result, counter.load(Ordering::Relaxed))
                })
            })
            .collect();
        all.sort();
        all
    }

    /// Returns how often the store failed, by reason.
    pub(crate) fn store_errors(&self) -> Vec<(&'static str, u64)> {
        self.0.store_errors.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Observer for PlanMetrics {
    #[inline]
    fn decided(&self, request: &Request<'_>, decision: &Decision) {
        let Some((plan, rule)) = request.rules.at(decision.rule.into()) else { return };
        if let Some(count) = self.0.rules.read().unwrap_or_else(PoisonError::into_inner).get(&rule.id()) {
            return count.add(decision.allowed);
        }
        // The first decision by this rule. There are as many counters as rules were ever configured.
        let mut rules = self.0.rules.write().unwrap_or_else(PoisonError::into_inner);
        let fresh = || RuleCounter {
            plan: plan.name().clone(),
            rule: rule.name().clone(),
            allowed: AtomicU64::new(0),
            denied: AtomicU64::new(0),
        };
        rules.entry(rule.id()).or_insert_with(fresh).add(decision.allowed);
    }

    /// Skips what is held to no plan without looking at it twice: whole batches of throttles are.
    #[inline]
    fn decided_many(&self, requests: &[Request<'_>], answers: &[Result<Decision, StoreError>]) {
        for (request, answer) in requests.iter().zip(answers) {
            if let (Rules::Plan(_) | Rules::Plans(_), Ok(decision)) = (request.rules, answer) {
                self.decided(request, decision);
            }
        }
    }

    fn store_failed(&self, error: &StoreError, _: Option<&Decision>) {
        // By reason and not by kind: a server that is out of memory and one that is a replica are both unavailable.
        let reason = error.reason();
        {
            let mut errors = self.0.store_errors.lock().unwrap_or_else(PoisonError::into_inner);
            match errors.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, count)) => *count += 1,
                None => errors.push((reason, 1)),
            }
        }
        self.0.failures.lock().unwrap_or_else(PoisonError::into_inner).note(error);
    }
}
