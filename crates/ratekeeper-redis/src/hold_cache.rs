//! The holds that this process has made: their plans and bodies, so that ending them takes no look at their records.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use ratekeeper::Plan;
use ratekeeper::port::HoldId;

/// How many holds are remembered. Of others the record is read first, which is one more round trip.
const MOST: usize = 65_536;

/// A hold that this process has made.
#[derive(Debug)]
pub(crate) struct KnownHold {
    pub(crate) plans: Vec<Arc<Plan>>,
    pub(crate) body: Vec<u8>,
}

/// The holds that this process has made, the last ones.
#[derive(Debug, Default)]
pub(crate) struct HoldCache(Mutex<KnownHolds>);

#[derive(Debug, Default)]
struct KnownHolds {
    by_id: HashMap<HoldId, Arc<KnownHold>>,
    /// The oldest first; some may be gone.
    order: VecDeque<HoldId>,
}

impl HoldCache {
    /// Remembers a hold. The oldest gives way.
    pub(crate) fn add(&self, id: HoldId, hold: KnownHold) {
        let mut holds = self.0.lock();
        if holds.by_id.insert(id, Arc::new(hold)).is_none() {
            holds.order.push_back(id);
        }
        // As many names again may wait of holds that are gone.
        while holds.by_id.len() > MOST || holds.order.len() > 2 * MOST {
            let Some(oldest) = holds.order.pop_front() else { break };
            holds.by_id.remove(&oldest);
        }
    }

    /// Returns a hold, if it is remembered.
    pub(crate) fn find(&self, id: HoldId) -> Option<Arc<KnownHold>> {
        self.0.lock().by_id.get(&id).cloned()
    }

    /// Forgets a hold.
    pub(crate) fn remove(&self, id: HoldId) {
        self.0.lock().by_id.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_remembered_than_there_is_room_for() {
        let cache = HoldCache::default();
        let add = |bits: usize| {
            cache.add(HoldId::from_bits(bits as u128), KnownHold { plans: Vec::new(), body: Vec::new() });
        };
        (0..3 * MOST).for_each(add);
        assert!(cache.find(HoldId::from_bits(0)).is_none());
        assert!(cache.find(HoldId::from_bits(3 * MOST as u128 - 1)).is_some());
        for bits in 0..5 * MOST {
            add(bits);
            cache.remove(HoldId::from_bits(bits as u128));
            let holds = cache.0.lock();
            assert!(holds.by_id.len() <= MOST && holds.order.len() <= 2 * MOST);
        }
    }
}
