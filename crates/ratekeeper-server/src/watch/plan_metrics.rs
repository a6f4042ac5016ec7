//! What the keeper's decisions were about: counted by plan and rule, and the store's failures by reason.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use ratekeeper::port::{Observer, Request};
use ratekeeper::{Decision, Name, RuleId, StoreError};

use crate::failure_log::FailureLog;

/// Told by the keeper.
#[derive(Clone, Debug, Default)]
pub struct Tally(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    rules: RwLock<HashMap<RuleId, Count>>,
    errors: Mutex<Vec<(&'static str, u64)>>,
    failures: Mutex<FailureLog>,
}

#[derive(Debug)]
struct Count {
    plan: Name,
    rule: Name,
    allowed: AtomicU64,
    denied: AtomicU64,
}

impl Count {
    fn add(&self, allowed: bool) {
        let counter = if allowed { &self.allowed } else { &self.denied };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl Tally {
    /// Plan, rule, result and how often, sorted.
    pub fn decisions(&self) -> Vec<(Name, Name, &'static str, u64)> {
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

    /// Reason of failure, and how often.
    pub fn store_errors(&self) -> Vec<(&'static str, u64)> {
        self.0.errors.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Observer for Tally {
    fn decided(&self, request: &Request<'_>, decision: &Decision) {
        let Some((plan, rule)) = request.rules.at(decision.rule.into()) else { return };
        if let Some(count) = self.0.rules.read().unwrap_or_else(PoisonError::into_inner).get(&rule.id()) {
            return count.add(decision.allowed);
        }
        // The first decision by this rule. There are as many entries as rules were ever configured.
        let mut rules = self.0.rules.write().unwrap_or_else(PoisonError::into_inner);
        let fresh = || Count {
            plan: plan.name().clone(),
            rule: rule.name().clone(),
            allowed: AtomicU64::new(0),
            denied: AtomicU64::new(0),
        };
        rules.entry(rule.id()).or_insert_with(fresh).add(decision.allowed);
    }

    fn store_failed(&self, error: &StoreError, _: Option<&Decision>) {
        // The finest word there is: a server that is out of memory and one that is a replica are both unavailable.
        let reason = error.reason();
        {
            let mut errors = self.0.errors.lock().unwrap_or_else(PoisonError::into_inner);
            match errors.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, count)) => *count += 1,
                None => errors.push((reason, 1)),
            }
        }
        self.0.failures.lock().unwrap_or_else(PoisonError::into_inner).note(error);
    }
}
