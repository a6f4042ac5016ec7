//! The keys that are denied most: a list that is bounded however many keys there are.
//!
//! The Space-Saving sketch: a key that is not on the full list replaces the least, and inherits its count.
//! Whoever was denied more often than one in `capacity` of all denials is on the list; a count is never too low, and
//! too high by no more than what was inherited.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use ratekeeper::Name;

/// The keys with the most denials, approximately.
#[derive(Debug)]
pub(super) struct DenialSketch {
    capacity: usize,
    positions: HashMap<Arc<[u8]>, usize>,
    entries: Vec<KeyCount>,
    /// Count and position of each entry, so that the least is found without a search.
    order: BTreeSet<(u64, usize)>,
}

#[derive(Debug)]
struct KeyCount {
    key: Arc<[u8]>,
    count: u64,
    /// How much of that may be another's.
    inherited: u64,
    /// The plan of its last denial; none for a quota of the request's own.
    plan: Option<Name>,
}

impl DenialSketch {
    /// Returns an empty list of at most `capacity` keys (at least one).
    pub(super) fn new(capacity: usize) -> Self {
        DenialSketch {
            capacity: capacity.max(1),
            positions: HashMap::new(),
            entries: Vec::new(),
            order: BTreeSet::new(),
        }
    }

    /// Counts one denial under this plan.
    pub(super) fn add(&mut self, key: &[u8], plan: Option<&Name>) {
        if let Some(position) = self.positions.get(key).copied() {
            return self.count(position, plan);
        }
        let key: Arc<[u8]> = key.into();
        let position = if self.entries.len() < self.capacity {
            self.entries.push(KeyCount { key: Arc::clone(&key), count: 0, inherited: 0, plan: None });
            self.order.insert((0, self.entries.len() - 1));
            self.entries.len() - 1
        } else {
            // The list is full, so it is not empty.
            let Some((_, position)) = self.order.first().copied() else { return };
            let entry = &mut self.entries[position];
            let gone = std::mem::replace(&mut entry.key, Arc::clone(&key));
            entry.inherited = entry.count;
            self.positions.remove(&gone);
            position
        };
        self.positions.insert(key, position);
        self.count(position, plan);
    }

    fn count(&mut self, position: usize, plan: Option<&Name>) {
        let entry = &mut self.entries[position];
        if entry.plan.as_ref() != plan {
            entry.plan = plan.cloned();
        }
        self.order.remove(&(entry.count, position));
        entry.count = entry.count.saturating_add(1);
        self.order.insert((entry.count, position));
    }

    /// Returns every key on the list, its count, how much of that it may have inherited, and the plan of its last denial.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&[u8], u64, u64, Option<&Name>)> {
        self.entries.iter().map(|entry| (&*entry.key, entry.count, entry.inherited, entry.plan.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_heavy_key_stays_whatever_comes_and_goes() {
        let mut sketch = DenialSketch::new(4);
        for round in 0..1_000_u32 {
            sketch.add(b"heavy", None);
            sketch.add(&round.to_be_bytes(), None);
        }
        assert_eq!(sketch.entries().count(), 4, "bounded");
        let heavy = sketch.entries().find(|(key, ..)| *key == b"heavy").unwrap();
        assert_eq!(heavy.1, 1_000, "it never left, so it never inherited");
    }

    proptest! {
        #![proptest_config(test_support::cases::config(2_000))]

        #[test]
        fn no_count_is_too_low_and_who_is_denied_often_is_listed(
            capacity in 1..8_usize,
            keys in prop::collection::vec(0..16_u8, 0..200),
        ) {
            let mut sketch = DenialSketch::new(capacity);
            keys.iter().for_each(|key| sketch.add(&[*key], None));
            let exactly = |key: u8| keys.iter().filter(|other| **other == key).count();
            for (key, count, inherited, _) in sketch.entries() {
                prop_assert!(count >= exactly(key[0]) as u64);
                prop_assert!(count - inherited <= exactly(key[0]) as u64);
            }
            prop_assert_eq!(sketch.entries().map(|(_, count, ..)| count).sum::<u64>(), keys.len() as u64);
            prop_assert!(sketch.entries().count() <= capacity);
            for key in 0..16_u8 {
                if exactly(key) * capacity > keys.len() {
                    prop_assert!(sketch.entries().any(|(listed, ..)| listed == [key]), "{} is missing", key);
                }
            }
        }
    }
}
