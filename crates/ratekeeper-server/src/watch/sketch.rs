//! Who is denied most: a list that is bounded however many keys there are.
//!
//! The Space-Saving sketch: a key that is not on the full list takes the place of the least, and inherits its count.
//! Whoever was denied more often than one in `capacity` of all denials is on the list; a count is never too low, and
//! too high by no more than what was inherited.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The keys with most denials, about.
#[derive(Debug)]
pub struct Sketch {
    capacity: usize,
    places: HashMap<Arc<[u8]>, usize>,
    entries: Vec<Entry>,
    /// Count and place of each entry, so that the least is found without a search.
    order: BTreeSet<(u64, usize)>,
}

#[derive(Debug)]
struct Entry {
    key: Arc<[u8]>,
    count: u64,
}

impl Sketch {
    /// A list of so many keys, at least one.
    pub fn new(capacity: usize) -> Self {
        Sketch {
            capacity: capacity.max(1),
            places: HashMap::new(),
            entries: Vec::new(),
            order: BTreeSet::new(),
        }
    }

    /// Counts one denial.
    pub fn add(&mut self, key: &[u8]) {
        if let Some(place) = self.places.get(key).copied() {
            return self.count(place);
        }
        let key: Arc<[u8]> = key.into();
        let place = if self.entries.len() < self.capacity {
            self.entries.push(Entry { key: Arc::clone(&key), count: 0 });
            self.order.insert((0, self.entries.len() - 1));
            self.entries.len() - 1
        } else {
            // The list is full, and a list has at least one place.
            let Some((_, place)) = self.order.first().copied() else { return };
            let gone = std::mem::replace(&mut self.entries[place].key, Arc::clone(&key));
            self.places.remove(&gone);
            place
        };
        self.places.insert(key, place);
        self.count(place);
    }

    fn count(&mut self, place: usize) {
        let entry = &mut self.entries[place];
        self.order.remove(&(entry.count, place));
        entry.count = entry.count.saturating_add(1);
        self.order.insert((entry.count, place));
    }

    /// Every key on the list, and its count.
    pub fn entries(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.entries.iter().map(|entry| (&*entry.key, entry.count))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_heavy_key_stays_whatever_comes_and_goes() {
        let mut sketch = Sketch::new(4);
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
            let mut sketch = Sketch::new(capacity);
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
