//! Plans that stand in no file: those of limits that requests bring, and those of the server with another failure mode.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use foldhash::fast::RandomState;
use ratekeeper::{Algorithm, Anchor, FailureMode, Name, Plan, Quota, Rule};

use crate::rls::unit::LimitUnit;

/// The name of plans whose rules are written in files, or brought by requests: their states are each other's.
const PLAN: &str = "rls";
/// How many plans of requests are kept. Callers bring few limits; whoever brings ever new ones has them made each time.
const MOST_BROUGHT: usize = 1_024;

/// Plans that were made before.
#[derive(Debug, Default)]
pub(super) struct PlanCache {
    brought: RwLock<HashMap<(u32, LimitUnit), Arc<Plan>, RandomState>>,
    named: RwLock<HashMap<Box<str>, Vec<AdaptedPlan>, RandomState>>,
}

/// A plan of the server, and the same with another failure mode.
#[derive(Debug)]
struct AdaptedPlan {
    original: Arc<Plan>,
    adapted: Arc<Plan>,
}

impl PlanCache {
    /// Returns the plan of a limit that a request brings: a fixed window. None of a limit that no quota can be made of.
    pub(super) fn brought(
        &self,
        requests_per_unit: u32,
        unit: LimitUnit,
        mode: FailureMode,
    ) -> Option<Arc<Plan>> {
        let key = (requests_per_unit, unit);
        if let Some(plan) = self.brought.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Some(Arc::clone(plan));
        }
        let plan = Arc::new(fixed_window(requests_per_unit, unit)?.on_store_error(mode));
        let mut brought = self.brought.write().unwrap_or_else(PoisonError::into_inner);
        if brought.len() < MOST_BROUGHT {
            brought.insert(key, Arc::clone(&plan));
        }
        Some(plan)
    }

    /// Returns a plan of the server with this failure mode, and without what only holds can take.
    pub(super) fn named(&self, plan: Arc<Plan>, mode: FailureMode) -> Arc<Plan> {
        let plan = plan.to_acquire().cloned().unwrap_or(plan);
        if plan.failure_mode() == mode {
            return plan;
        }
        let is_it = |known: &&AdaptedPlan| {
            Arc::ptr_eq(&known.original, &plan) && known.adapted.failure_mode() == mode
        };
        let named = self.named.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = named.get(plan.name().as_str()).and_then(|known| known.iter().find(is_it)) {
            return Arc::clone(&known.adapted);
        }
        drop(named);
        let adapted = Arc::new(Plan::clone(&plan).on_store_error(mode));
        let mut named = self.named.write().unwrap_or_else(PoisonError::into_inner);
        let known = named.entry(plan.name().as_str().into()).or_default();
        // A reload has made another plan of that name: nobody asks for those before it.
        known.retain(|known| Arc::ptr_eq(&known.original, &plan));
        known.push(AdaptedPlan { original: plan, adapted: Arc::clone(&adapted) });
        adapted
    }
}

fn fixed_window(count: u32, unit: LimitUnit) -> Option<Plan> {
    let quota =
        Quota::per(count, unit.length().as_duration()).algorithm(Algorithm::FixedWindow(Anchor::Grid));
    let rule = Rule::new(Name::new(unit.word()).ok()?, quota.build().ok()?);
    Plan::new(Name::new(PLAN).ok()?, [rule]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_is_kept() {
        let cache = PlanCache::default();
        let plan = cache.brought(10, LimitUnit::Day, FailureMode::Error).unwrap();
        assert_eq!((plan.name().as_str(), plan.to_string().as_str()), ("rls", "day=10/day fixed grid"));
        assert_eq!(plan.failure_mode(), FailureMode::Error);
        assert!(Arc::ptr_eq(&plan, &cache.brought(10, LimitUnit::Day, FailureMode::Error).unwrap()));
        for unit in LimitUnit::ALL {
            assert!(cache.brought(u32::MAX, unit, FailureMode::Error).is_some(), "{unit:?}");
        }
        let other = Arc::new(Plan::parse("gold", "5/s").unwrap());
        let adapted = cache.named(Arc::clone(&other), FailureMode::Error);
        assert_eq!((adapted.failure_mode(), adapted.rules()), (FailureMode::Error, other.rules()));
        assert!(Arc::ptr_eq(&adapted, &cache.named(Arc::clone(&other), FailureMode::Error)));
        assert!(Arc::ptr_eq(&other, &cache.named(Arc::clone(&other), FailureMode::Open)), "as it is");
        let reloaded = Arc::new(Plan::parse("gold", "6/s").unwrap());
        assert_eq!(cache.named(Arc::clone(&reloaded), FailureMode::Error).rules(), reloaded.rules());
        assert_eq!(cache.named.read().unwrap()["gold"].len(), 1);
    }
}
