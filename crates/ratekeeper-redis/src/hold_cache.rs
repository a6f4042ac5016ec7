//! The holds that this process has made: their plans and bodies, so that ending them takes no look at their records.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use parking_lot::Mutex;
use ratekeeper::port::HoldId;
use ratekeeper::{Key, Plan};

/// How many holds are remembered. Of others the record is read first, which is one more round trip.
const MOST: usize = 65_536;

/// A hold that this process has made.
#[derive(Debug)]
pub(crate) struct KnownHold {
    pub(crate) plans: Vec<Arc<Plan>>,
    pub(crate) body: Vec<u8>,
}

/// The holds that this process has made, the last ones.
#[derive(Debug)]
pub(crate) struct HoldCache {
    holds: Mutex<KnownHolds>,
    hasher: RandomState,
    /// How many holds are remembered.
    most: usize,
}

impl Default for HoldCache {
    fn default() -> Self {
        HoldCache { holds: Mutex::default(), hasher: RandomState::new(), most: MOST }
    }
}

/// A hold of a key: 128 bits of a hash of both. A key may be long, and there are many; nobody who chooses keys and ids knows
/// the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct HoldName([u64; 2]);

#[derive(Debug, Default)]
struct KnownHolds {
    by_name: HashMap<HoldName, Arc<KnownHold>>,
    /// The oldest first; some may be gone.
    order: VecDeque<HoldName>,
}

impl HoldCache {
    /// Remembers a hold. The oldest gives way.
    pub(crate) fn add(&self, key: Key<'_>, id: HoldId, hold: KnownHold) {
        let name = self.name(key, id);
        let mut holds = self.holds.lock();
        if holds.by_name.insert(name, Arc::new(hold)).is_none() {
            holds.order.push_back(name);
        }
        // As many names again may wait of holds that are gone.
        while holds.by_name.len() > self.most || holds.order.len() > 2 * self.most {
            let Some(oldest) = holds.order.pop_front() else { break };
            holds.by_name.remove(&oldest);
        }
    }

    /// Returns a hold of a key, if it is remembered.
    pub(crate) fn find(&self, key: Key<'_>, id: HoldId) -> Option<Arc<KnownHold>> {
        let name = self.name(key, id);
        self.holds.lock().by_name.get(&name).cloned()
    }

    /// Forgets a hold.
    pub(crate) fn remove(&self, key: Key<'_>, id: HoldId) {
        let name = self.name(key, id);
        self.holds.lock().by_name.remove(&name);
    }

    fn name(&self, key: Key<'_>, id: HoldId) -> HoldName {
        HoldName([0_u8, 1].map(|half| self.hasher.hash_one((half, id, key.as_bytes()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_belongs_to_a_key() {
        let (cache, id) = (HoldCache::default(), HoldId::from_bits(1));
        let [a, b, c] = ["a", "b", "c"].map(|key| Key::new(key).unwrap());
        cache.add(a, id, KnownHold { plans: Vec::new(), body: vec![1] });
        cache.add(b, id, KnownHold { plans: Vec::new(), body: vec![2] });
        let bodies = || [a, b, c].map(|key| cache.find(key, id).map(|hold| hold.body[0]));
        assert_eq!(bodies(), [Some(1), Some(2), None]);
        cache.remove(b, id);
        assert_eq!(bodies(), [Some(1), None, None]);
    }

    #[test]
    fn remembered_holds_and_names_never_exceed_the_bound() {
        const ROOM: usize = 64;
        assert_eq!(HoldCache::default().most, MOST);
        let (cache, key) = (HoldCache { most: ROOM, ..HoldCache::default() }, Key::new("who").unwrap());
        let id = |bits: usize| HoldId::from_bits(bits as u128);
        let add = |bits| cache.add(key, id(bits), KnownHold { plans: Vec::new(), body: Vec::new() });
        (0..3 * ROOM).for_each(add);
        let remembered = |bits: &usize| cache.find(key, id(*bits)).is_some();
        let found: Vec<usize> = (0..3 * ROOM).filter(remembered).collect();
        assert_eq!(found, (2 * ROOM..3 * ROOM).collect::<Vec<_>>(), "the latest");
        for bits in 0..5 * ROOM {
            add(bits);
            cache.remove(key, id(bits));
            let holds = cache.holds.lock();
            assert!(holds.by_name.len() <= ROOM && holds.order.len() <= 2 * ROOM);
        }
    }
}
