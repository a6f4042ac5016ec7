//! The names of plans under which holds were made, so that their plans of now need not be asked for when they are ended.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use ratekeeper::port::{HoldId, Plans};
use ratekeeper::{Name, Plan};

/// Holds that are remembered in each of two generations. Of others, ending takes one more statement.
const MOST: usize = 16_384;

/// The plans of holds that this process has made lately.
#[derive(Debug, Default)]
pub(crate) struct HeldPlans(Mutex<[HashMap<HoldId, Arc<[Name]>>; 2]>);

impl HeldPlans {
    /// Remembers the plans of a hold.
    pub(crate) fn add(&self, id: HoldId, plans: &[Arc<Plan>]) {
        let names = plans.iter().map(|plan| plan.name().clone()).collect();
        let mut generations = self.0.lock();
        if generations[0].len() >= MOST {
            generations[1] = std::mem::take(&mut generations[0]);
        }
        generations[0].insert(id, names);
    }

    /// Returns the plans of a hold as they are now, as far as is known what they are called.
    pub(crate) fn of(&self, id: HoldId, plans: &dyn Plans) -> KnownPlans {
        let generations = self.0.lock();
        let names = generations.iter().find_map(|generation| generation.get(&id)).cloned();
        drop(generations);
        let mut known = KnownPlans::default();
        for name in names.iter().flat_map(|names| names.iter()) {
            known.ask(name, plans);
        }
        known
    }

    /// Forgets a hold that has ended.
    pub(crate) fn remove(&self, id: HoldId) {
        self.0.lock().iter_mut().for_each(|generation| drop(generation.remove(&id)));
    }
}

/// Some plans by name, those that there are none of, too.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownPlans(Vec<(Name, Option<Arc<Plan>>)>);

impl KnownPlans {
    /// Asks for one more.
    pub(crate) fn ask(&mut self, name: &Name, plans: &dyn Plans) {
        self.0.push((name.clone(), plans.find(name.as_str())));
    }

    /// Returns the names among these that nobody has asked for.
    pub(crate) fn missing(&self, held_to: &[Arc<Plan>]) -> Vec<Name> {
        let is_missing = |name: &Name| self.0.iter().all(|(known, _)| known != name);
        held_to.iter().map(|plan| plan.name().clone()).filter(is_missing).collect()
    }
}

impl Plans for KnownPlans {
    fn find(&self, name: &str) -> Option<Arc<Plan>> {
        self.0.iter().find(|(known, _)| known.as_str() == name).and_then(|(_, plan)| plan.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_holds_are_known_and_no_more() {
        let held = HeldPlans::default();
        let plan = Arc::new(Plan::parse("llm", "2 concurrent").unwrap());
        let plans = KnownPlans(vec![(plan.name().clone(), Some(Arc::clone(&plan)))]);
        for id in 0..4 * MOST as u128 {
            held.add(HoldId::from_bits(id), std::slice::from_ref(&plan));
        }
        assert!(held.0.lock().iter().map(HashMap::len).sum::<usize>() <= 2 * MOST);
        let last = HoldId::from_bits(4 * MOST as u128 - 1);
        assert!(held.of(last, &plans).missing(std::slice::from_ref(&plan)).is_empty());
        let first = held.of(HoldId::from_bits(0), &plans);
        assert_eq!(first.missing(std::slice::from_ref(&plan)), [plan.name().clone()]);
        held.remove(last);
        assert_eq!(held.of(last, &plans).missing(std::slice::from_ref(&plan)).len(), 1);
    }
}
