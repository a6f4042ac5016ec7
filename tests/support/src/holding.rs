//! Holds, as tests make and end them.

use std::sync::Arc;

use ratekeeper::port::{
    HoldAction, HoldChange, HoldId, HoldOutcome, HoldRequest, Plans, Request, Standing, Store,
};
use ratekeeper::{Amounts, Key, Nanos, Plan, Rules, StoreError};

/// One plan, and what is held under it.
#[derive(Clone, Debug)]
pub struct Held {
    pub plans: Vec<Arc<Plan>>,
    pub key: String,
}

impl Plans for Held {
    fn find(&self, name: &str) -> Option<Arc<Plan>> {
        self.plans.iter().find(|plan| plan.name() == name).cloned()
    }
}

impl Held {
    pub fn new(key: &str, limits: &str) -> Self {
        let plan = Plan::parse("llm", limits).expect("a plan");
        Held { plans: vec![Arc::new(plan)], key: key.to_owned() }
    }

    fn key(&self) -> Key<'_> {
        Key::new(&self.key).expect("a key")
    }

    /// Holds so many tokens.
    pub async fn hold(
        &self,
        store: &impl Store,
        id: u128,
        tokens: u64,
        lease: Nanos,
    ) -> Result<Standing, StoreError> {
        let units = [("tokens", tokens)];
        let (amounts, id) = (Amounts::of(&units), HoldId::from_bits(id));
        store.hold(HoldRequest { key: self.key(), plans: &self.plans, amounts, id, lease }).await
    }

    /// Settles with so many tokens.
    pub async fn settle(&self, store: &impl Store, id: u128, tokens: u64) -> Result<HoldOutcome, StoreError> {
        let units = [("tokens", tokens)];
        self.change(store, id, HoldAction::Settle(Amounts::of(&units))).await
    }

    pub async fn change(
        &self,
        store: &impl Store,
        id: u128,
        action: HoldAction<'_>,
    ) -> Result<HoldOutcome, StoreError> {
        let change = HoldChange { key: self.key(), id: HoldId::from_bits(id), action, plans: self };
        store.change_hold(change).await
    }

    /// Returns how much each rule has left.
    pub async fn left(&self, store: &impl Store) -> Result<Vec<u64>, StoreError> {
        let units = [("tokens", 0)];
        let request = Request::of(self.key(), Rules::Plans(&self.plans), Amounts::of(&units));
        let standing = store.peek_each(request).await?;
        Ok(standing.each.iter().map(|decision| decision.remaining).collect())
    }
}
