//! One plan on one store.

use std::sync::Arc;

use ratekeeper::port::{
    HoldAction, HoldChange, HoldId, HoldOutcome, HoldRequest, HoldState, Plans, Request, Standing, Store,
};
use ratekeeper::{Amounts, Key, MemoryStore, Nanos, OnLapse, Plan, Rules};

#[derive(Debug)]
struct NoPlans;

impl Plans for NoPlans {
    fn find(&self, _: &str) -> Option<Arc<Plan>> {
        None
    }
}

pub(crate) struct Holds {
    pub(crate) store: MemoryStore,
    pub(crate) plans: [Arc<Plan>; 1],
}

impl Holds {
    pub(crate) fn new(store: MemoryStore, limits: &str) -> Self {
        Holds { store, plans: [Arc::new(Plan::parse("held", limits).unwrap())] }
    }

    pub(crate) fn on_lapse(self, on_lapse: OnLapse) -> Self {
        let [plan] = self.plans;
        Holds { plans: [Arc::new(Plan::clone(&plan).on_lapse(on_lapse))], ..self }
    }

    pub(crate) fn hold_for(&self, key: &str, id: u128, amounts: Amounts<'_>, lease: Nanos) -> Standing {
        let (key, id) = (Key::new(key).unwrap(), HoldId::from_bits(id));
        let hold = HoldRequest { key, plans: &self.plans, amounts, id, lease };
        self.store.hold(hold).now().unwrap().unwrap()
    }

    pub(crate) fn hold(&self, key: &str, id: u128, amounts: Amounts<'_>) -> Standing {
        self.hold_for(key, id, amounts, HoldRequest::DEFAULT_LEASE)
    }

    pub(crate) fn outcome(&self, key: &str, id: u128, action: HoldAction<'_>) -> HoldOutcome {
        let (key, id) = (Key::new(key).unwrap(), HoldId::from_bits(id));
        self.store.change_hold(HoldChange { key, id, action, plans: &NoPlans }).now().unwrap().unwrap()
    }

    pub(crate) fn change(&self, key: &str, id: u128, action: HoldAction<'_>) -> HoldState {
        self.outcome(key, id, action).state
    }

    /// Returns how much every rule has left.
    pub(crate) fn left(&self, key: &str, amounts: Amounts<'_>) -> Vec<u64> {
        let request = Request::of(Key::new(key).unwrap(), Rules::Plans(&self.plans), amounts);
        let standing = self.store.peek_each(request).now().unwrap().unwrap();
        standing.each.iter().map(|decision| decision.remaining).collect()
    }
}
