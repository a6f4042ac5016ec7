//! Live holds, one by one, for those who look into a store.

use std::collections::BinaryHeap;
use std::sync::Arc;

use super::hold_record::{HoldRecord, UNCHARGED};
use super::plan_set;
use super::shards::ShardHandle;
use super::store::MemoryStore;
use super::sync::let_others_in;
use super::tag::KeyHash;
use crate::port::HoldId;
use crate::{Key, Plan, Timestamp};

/// Positions of a shard's holds that are looked at while its lock is held once.
const SLICE: u32 = 1_024;

/// Plans and rules of most holds: so much is allocated for one before a lock is taken.
const USUAL: usize = 16;

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
    fn of(record: &HoldRecord, plans: &[Arc<Plan>], mut empty: ListedParts) -> Self {
        let rules = plan_set::rules(plans.iter().map(|plan| &**plan)).count();
        let estimates = (0..rules).map(|rule| Some(record.estimate(rule)).filter(|cost| *cost != UNCHARGED));
        empty.plans.extend_from_slice(plans);
        empty.estimates.extend(estimates);
        ListedHold {
            id: record.id(),
            plans: empty.plans,
            estimates: empty.estimates,
            charged_at: record.charged_at(),
            lease_end: record.lease_end,
        }
    }

    /// Returns a key's hold of this identifier, unless it has ended.
    fn find(shard: ShardHandle<'_>, key: KeyHash, id: HoldId) -> Option<Self> {
        let parts = ListedParts { plans: Vec::with_capacity(USUAL), estimates: Vec::with_capacity(USUAL) };
        let shard = shard.lock();
        let holds = shard.hold_table()?;
        let record = holds.find(key, id).and_then(|at| holds.get(at)).filter(|record| record.is_live())?;
        Some(ListedHold::of(record, holds.plans_of(record), parts))
    }
}

/// What a listed hold will own.
#[derive(Default)]
struct ListedParts {
    plans: Vec<Arc<Plan>>,
    estimates: Vec<Option<u64>>,
}

impl MemoryStore {
    /// Returns the live holds of all keys, those whose lease ends first before the others. Locks each shard in turn, and
    /// allocates meanwhile: for a store that nobody else uses.
    pub fn live_holds(&self) -> Vec<ListedHold> {
        let mut found = Vec::new();
        self.each_live_hold(|record, plans| {
            found.push(ListedHold::of(record, plans, ListedParts::default()))
        });
        found.sort_by_key(|hold| (hold.lease_end, hold.id));
        found
    }

    /// Returns live holds of a key, at most so many: those whose lease ends first, in that order.
    ///
    /// Looks at each hold in the key's shard, and locks it for some microseconds at a time, so that no decision waits for
    /// long however much is held. What is taken or ended meanwhile may or may not be listed.
    ///
    /// ```
    /// # use ratekeeper::{Keeper, Key, MemoryStore, Plan, Registry};
    /// # use std::sync::Arc;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = Arc::new(MemoryStore::default());
    /// let keeper = Keeper::new(Arc::clone(&store), Registry::new([Plan::parse("llm", "2 concurrent")?]));
    /// let hold = keeper.hold("user:42", "llm", 1).await?;
    /// assert_eq!(store.live_holds_of(Key::new("user:42")?, 10).len(), 1);
    /// assert!(store.live_holds_of(Key::new("user:43")?, 10).is_empty());
    /// # drop(hold);
    /// # Ok(()) }
    /// ```
    pub fn live_holds_of(&self, key: Key<'_>, most: usize) -> Vec<ListedHold> {
        let (now, hash) = (self.clock.now(), self.hasher.hash(key));
        let shard = self.shard(hash);
        let (mut first, mut slice) = (BinaryHeap::new(), Vec::with_capacity(SLICE as usize));
        let (mut from, mut end) = (0, u32::MAX);
        while from < end {
            {
                let shard = shard.lock();
                let Some(holds) = shard.hold_table() else { break };
                if holds.holder(hash).is_none_or(|holder| holder.live == 0) {
                    break;
                }
                end = holds.records.end();
                let records = (from..end.min(from + SLICE)).filter_map(|at| holds.get(at));
                let live = records.filter(|record| record.is_live() && record.lease_end > now);
                let own = live.filter(|record| holds.key_of(record) == Some(hash));
                slice.extend(own.map(|record| (record.lease_end, record.id())));
            }
            let_others_in();
            from += SLICE;
            for hold in slice.drain(..) {
                first.push(hold);
                if first.len() > most {
                    first.pop();
                }
            }
        }
        let first = first.into_sorted_vec().into_iter();
        first.filter_map(|(_, id)| ListedHold::find(shard, hash, id)).collect()
    }

    /// Returns how many holds are live. Looks at each, some at a time, as [`live_holds_of`](MemoryStore::live_holds_of) does.
    pub fn live_hold_count(&self) -> usize {
        let mut count = 0;
        self.each_live_hold(|_, _| count += 1);
        count
    }

    fn each_live_hold(&self, mut each: impl FnMut(&HoldRecord, &[Arc<Plan>])) {
        let now = self.clock.now();
        for shard in self.shards.iter() {
            let (mut from, mut end) = (0, u32::MAX);
            while from < end {
                if from > 0 {
                    let_others_in();
                }
                let shard = shard.lock();
                let Some(holds) = shard.hold_table() else { break };
                end = holds.records.end();
                let records = (from..end.min(from + SLICE)).filter_map(|at| holds.get(at));
                for record in records.filter(|record| record.is_live() && record.lease_end > now) {
                    each(record, holds.plans_of(record));
                }
                from += SLICE;
            }
        }
    }
}
