//! The keys that are denied most: a list that is bounded however many keys there are.
//!
//! The Space-Saving sketch: a key that is not on the full list replaces the least, and inherits its count.
//! Whoever was denied more often than one in `capacity` of all denials is on the list; a count is never too low, and
//! too high by no more than what was inherited.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

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

    /// Counts one denial.
    pub(super) fn add(&mut self, key: &[u8]) {
        if let Some(position) = self.positions.get(key).copied() {
            return self.count(position);
        }
        let key: Arc<[u8]> = key.into();
        let position = if self.entries.len() < self.capacity {
            self.entries.push(KeyCount { key: Arc::clone(&key), count: 0 });
            self.order.insert((0, self.entries.len() - 1));
            self.entries.len() - 1
        } else {
            // The list is full, so it is not empty.
            let Some((_, position)) = self.order.first().copied() else { return };
            let gone = std::mem::replace(&mut self.entries[position].key, Arc::clone(&key));
            self.positions.remove(&gone);
            position
        };
        self.positions.insert(key, position);
        self.count(position);
    }

    fn count(&mut self, position: usize) {
        let entry = &mut self.entries[position];
        self.order.remove(&(entry.count, position));
        entry.count = entry.count.saturating_add(1);
        self.order.insert((entry.count, position));
    }

    /// Returns every key on the list, and its count.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.entries.iter().map(|entry| (&*entry.key, entry.count))
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
            sketch.add(b"heavy");
            sketch.add(&round.to_be_bytes());
        }
        assert_eq!(sketch.entries().count(), 4, "bounded");
        let heavy = sketch.entries().find(|(key, _)| *key == b"heavy").unwrap();
        assert_eq!(heavy.1, 1_000, "it never left, so it never inherited");
    }

    proptest! {
        #[test]
        fn no_count_is_too_low_and_who_is_denied_often_is_listed(
            capacity in 1..8_usize,
            keys in prop::collection::vec(0..16_u8, 0..200),
        ) {
            let mut sketch = DenialSketch::new(capacity);
            keys.iter().for_each(|key| sketch.add(&[*key]));
            let exactly = |key: u8| keys.iter().filter(|other| **other == key).count();
            for (key, count) in sketch.entries() {
                prop_assert!(count >= exactly(key[0]) as u64);
            }
            prop_assert_eq!(sketch.entries().map(|(_, count)| count).sum::<u64>(), keys.len() as u64);
            prop_assert!(sketch.entries().count() <= capacity);
            for key in 0..16_u8 {
                if exactly(key) * capacity > keys.len() {
                    prop_assert!(sketch.entries().any(|(listed, _)| listed == [key]), "{} is missing", key);
                }
            }
        }
    }
}
