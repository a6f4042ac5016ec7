//! The plans that holds were made under: each list of them once.

use std::sync::Arc;

use super::slab::Hashed;
use super::tag::mix;
use crate::{Plan, Rule};

/// The plans of a request, as they were when it was made. A reload makes new ones, and what is held ends under the old.
#[derive(Debug)]
pub(super) struct PlanSet {
    pub(super) plans: Box<[Arc<Plan>]>,
    /// How many holds were made under them.
    pub(super) records: u32,
}

impl PlanSet {
    /// Returns a set of these plans that no hold was made under yet.
    pub(super) fn new(plans: &[Arc<Plan>]) -> Self {
        PlanSet { plans: plans.into(), records: 0 }
    }

    /// Returns true if these are the very same plans.
    pub(super) fn is(&self, plans: &[Arc<Plan>]) -> bool {
        self.plans.len() == plans.len()
            && self.plans.iter().zip(plans).all(|(own, other)| Arc::ptr_eq(own, other))
    }

    /// Returns the bytes on the heap that a set of so many plans takes. The plans are somebody else's, too.
    pub(super) fn heap_of(plans: usize) -> usize {
        plans * size_of::<Arc<Plan>>()
    }
}

impl Hashed for PlanSet {
    fn hash(&self) -> u64 {
        hash_of(&self.plans)
    }
}

/// Returns the hash that these very plans are found by.
pub(super) fn hash_of(plans: &[Arc<Plan>]) -> u64 {
    plans.iter().fold(0, |hash, plan| mix(hash ^ Arc::as_ptr(plan).addr() as u64))
}

/// Returns the rules of all plans, each with its plan, in order.
pub(super) fn rules<'a, P>(plans: P) -> impl Iterator<Item = (&'a Plan, &'a Rule)> + Clone
where
    P: IntoIterator<Item = &'a Plan, IntoIter: Clone>,
{
    plans.into_iter().flat_map(|plan| plan.rules().iter().map(move |rule| (plan, rule)))
}
