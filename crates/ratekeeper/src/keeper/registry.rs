//! Plans by name, exchanged as a whole while requests go on.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::port::Plans;
use crate::{Name, Plan};

/// The plans of a process, by name. Clones are handles of the same registry.
///
/// [`replace`](Registry::replace) exchanges all plans at once: a request sees the old ones or the new ones, never some of
/// each. No state is touched. State belongs to the names of plan and rule: it is read under the new quota and never
/// refilled. A rule that is renamed, or decided by another algorithm, is another rule and starts fresh; a window that is
/// made longer ends for the keys that are in it when it would have ended.
///
/// To [find](Plans::find) a plan takes no lock.
///
/// # Examples
///
/// ```
/// use ratekeeper::port::Plans;
/// use ratekeeper::{Plan, Registry};
///
/// let plans = Registry::new([Plan::parse("free", "10/s")?]);
/// plans.replace([Plan::parse("free", "20/s")?, Plan::parse("gold", "100/s")?]);
/// assert_eq!(plans.all().len(), 2);
/// assert!(plans.find("silver").is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Registry(Arc<ArcSwap<HashMap<Name, Arc<Plan>>>>);

impl Registry {
    /// Returns a registry of these plans; of two with one name the later counts.
    pub fn new(plans: impl IntoIterator<Item = Plan>) -> Self {
        let registry = Registry::default();
        registry.replace(plans);
        registry
    }

    /// Exchanges all plans for these. Requests that were resolved before keep theirs.
    pub fn replace(&self, plans: impl IntoIterator<Item = Plan>) {
        let plans = plans.into_iter().map(|plan| (plan.name().clone(), Arc::new(plan))).collect();
        self.0.store(Arc::new(plans));
    }

    /// Returns all plans, sorted by name.
    pub fn all(&self) -> Vec<Arc<Plan>> {
        let mut plans: Vec<_> = self.0.load().values().cloned().collect();
        plans.sort_by(|one, other| one.name().cmp(other.name()));
        plans
    }

    /// Returns the first plans by name, at most so many of them. Cheaper than [`all`](Registry::all) if there are many more.
    pub fn first(&self, most: usize) -> Vec<Arc<Plan>> {
        let plans = self.0.load();
        let mut found: Vec<(&Name, &Arc<Plan>)> = plans.iter().collect();
        if found.len() > most {
            found.select_nth_unstable_by_key(most, |(name, _)| *name);
            found.truncate(most);
        }
        found.sort_unstable_by_key(|(name, _)| *name);
        found.into_iter().map(|(_, plan)| Arc::clone(plan)).collect()
    }

    /// Returns how many plans there are.
    pub fn len(&self) -> usize {
        self.0.load().len()
    }

    /// Returns true if there are no plans.
    pub fn is_empty(&self) -> bool {
        self.0.load().is_empty()
    }
}

impl Plans for Registry {
    fn find(&self, name: &str) -> Option<Arc<Plan>> {
        self.0.load().get(name).cloned()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all().iter().map(|plan| plan.name().clone())).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_those_with_the_smallest_names() {
        let plans = (0..100).map(|number| Plan::parse(&format!("p{number:03}"), "1/s").unwrap());
        let registry = Registry::new(plans);
        let names = |plans: Vec<Arc<Plan>>| plans.iter().map(|plan| plan.name().clone()).collect::<Vec<_>>();
        for most in [0, 1, 64, 99, 100, 1_000] {
            let expected: Vec<_> = registry.all().into_iter().take(most).collect();
            assert_eq!(names(registry.first(most)), names(expected), "{most}");
        }
        assert_eq!((registry.len(), registry.is_empty(), Registry::default().is_empty()), (100, false, true));
    }
}
