//! Live holds, one by one, for those who look into a store.

use std::sync::Arc;

use super::hold_record::{HoldRecord, UNCHARGED};
use super::plan_set;
use super::store::MemoryStore;
use crate::port::HoldId;
use crate::{Key, Plan, Timestamp};

/// A hold that is live in a [`MemoryStore`]. Which key it is of is known to those who have the key: the store has its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedHold {
    /// What it is ended by.
    pub id: HoldId,
    /// The plans that it was made under.
    pub plans: Vec<Arc<Plan>>,
    /// What each rule of the plans was charged, in order; none of one in shadow that would have denied.
    pub estimates: Vec<Option<u64>>,
    /// When it was charged.
    pub charged_at: Timestamp,
    /// When it ends if nobody ends it.
    pub lease_end: Timestamp,
}

impl ListedHold {
    fn of(record: &HoldRecord, plans: &[Arc<Plan>]) -> Self {
        let rules = plan_set::rules(plans.iter().map(|plan| &**plan)).count();
        let estimates = (0..rules).map(|rule| Some(record.estimate(rule)).filter(|cost| *cost != UNCHARGED));
        ListedHold {
            id: record.id(),
            plans: plans.to_vec(),
            estimates: estimates.collect(),
            charged_at: record.charged_at(),
            lease_end: record.lease_end,
        }
    }
}

impl MemoryStore {
    /// Returns the live holds of all keys, those whose lease ends first before the others. Locks each shard in turn.
    pub fn live_holds(&self) -> Vec<ListedHold> {
        let mut found = Vec::new();
        self.each_live_hold(|record, plans| found.push(ListedHold::of(record, plans)));
        found.sort_by_key(|hold| (hold.lease_end, hold.id));
        found
    }

    /// Returns the live holds of a key, those whose lease ends first before the others. Locks the key's shard, and looks at
    /// each hold in it.
    ///
    /// ```
    /// # use ratekeeper::{Keeper, Key, MemoryStore, Plan, Registry};
    /// # use std::sync::Arc;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = Arc::new(MemoryStore::default());
    /// let keeper = Keeper::new(Arc::clone(&store), Registry::new([Plan::parse("llm", "2 concurrent")?]));
    /// let hold = keeper.hold("user:42", "llm", 1).await?;
    /// assert_eq!(store.live_holds_of(Key::new("user:42")?).len(), 1);
    /// assert!(store.live_holds_of(Key::new("user:43")?).is_empty());
    /// # drop(hold);
    /// # Ok(()) }
    /// ```
    pub fn live_holds_of(&self, key: Key<'_>) -> Vec<ListedHold> {
        let (now, hash) = (self.clock.now(), self.hasher.hash(key));
        let shard = self.shard(hash).lock();
        let mut found = Vec::new();
        if let Some(holds) = shard.hold_table() {
            let live = holds.iter().map(|(_, record)| record);
            let live = live.filter(|record| record.is_live() && record.lease_end > now);
            let own = live.filter(|record| holds.key_of(record) == Some(hash));
            found.extend(own.map(|record| ListedHold::of(record, holds.plans_of(record))));
        }
        drop(shard);
        found.sort_by_key(|hold| (hold.lease_end, hold.id));
        found
    }

    /// Returns how many holds are live. Locks each shard in turn, and looks at each hold.
    pub fn live_hold_count(&self) -> usize {
        let mut count = 0;
        self.each_live_hold(|_, _| count += 1);
        count
    }

    fn each_live_hold(&self, mut each: impl FnMut(&HoldRecord, &[Arc<Plan>])) {
        let now = self.clock.now();
        for shard in self.shards.iter() {
            let shard = shard.lock();
            let Some(holds) = shard.hold_table() else { continue };
            for (_, record) in holds.iter().filter(|(_, record)| record.is_live() && record.lease_end > now) {
                each(record, holds.plans_of(record));
            }
        }
    }
}
