//! Open addressing over fixed-size slots: a look-up touches one cache line, or two neighbouring ones.

use super::sync::prefetch;
use super::tag::Tag;
use crate::Timestamp;

/// The fewest slots that are ever allocated.
const LEAST: usize = 8;

/// What is kept in a slot knows when it will equal a fresh key's.
pub(super) trait Expires: Default {
    fn expires_at(&self) -> Timestamp;
}

/// A hash table from tags to states, linear probing, at most four fifths full. It grows by a quarter: with a power
/// of two, the table would be half empty for half of its life.
#[derive(Debug)]
pub(super) struct Table<V> {
    slots: Box<[Slot<V>]>,
    len: u32,
    /// Where the next sweep begins.
    hand: u32,
    /// No state in here expires before this.
    earliest: Timestamp,
}

#[derive(Debug, Default)]
struct Slot<V> {
    tag: Tag,
    value: V,
}

impl<V> Default for Table<V> {
    fn default() -> Self {
        Table { slots: Box::new([]), len: 0, hand: 0, earliest: Timestamp::MAX }
    }
}

impl<V: Expires> Table<V> {
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// No state in here expires before this.
    pub(super) fn earliest(&self) -> Timestamp {
        self.earliest
    }

    /// Bytes on the heap, without what the values own themselves.
    pub(super) fn heap_size(&self) -> usize {
        size_of_val(&*self.slots)
    }

    /// Where probing for a tag begins: the hash as a fraction of the table, so that any size will do.
    #[inline]
    fn home(&self, tag: Tag) -> usize {
        home(tag, self.slots.len())
    }

    #[inline]
    fn after(&self, index: usize) -> usize {
        if index + 1 == self.slots.len() { 0 } else { index + 1 }
    }

    /// Where the tag's state is.
    #[inline]
    pub(super) fn find(&self, tag: Tag) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut index = self.home(tag);
        loop {
            let slot = &self.slots[index];
            if slot.tag == tag {
                return Some(index);
            }
            if slot.tag == Tag::NONE {
                return None;
            }
            index = self.after(index);
        }
    }

    /// Asks for the cache line at which [`find`](Table::find) will begin.
    #[inline]
    pub(super) fn prefetch(&self, tag: Tag) {
        if let Some(slot) = self.slots.get(self.home(tag)) {
            prefetch(slot);
        }
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> &V {
        &self.slots[index].value
    }

    /// The state at `index`, to be changed to one that does not expire earlier.
    #[inline]
    pub(super) fn get_mut(&mut self, index: usize) -> &mut V {
        &mut self.slots[index].value
    }

    /// Replaces the state at `index`.
    pub(super) fn set(&mut self, index: usize, value: V) {
        self.earliest = self.earliest.min(value.expires_at());
        self.slots[index].value = value;
    }

    /// Adds a state whose tag is not in the table. Tells how many states that had expired it took the place of.
    ///
    /// Keys that come and go cost no more than those that stay: the first dead state on the way is overwritten, and
    /// the table is swept only when it would have to grow.
    pub(super) fn insert(&mut self, tag: Tag, value: V, now: Timestamp) -> usize {
        self.earliest = self.earliest.min(value.expires_at());
        if let Some(dead) = self.first_dead(tag, now) {
            self.slots[dead] = Slot { tag, value };
            return 1;
        }
        let mut swept = 0;
        if (self.len() + 1) * 5 > self.slots.len() * 4 {
            swept = self.sweep_slots(now, usize::MAX);
            // A sweep that frees little would soon be followed by the next: then it is time to grow.
            if (self.len() + 1) * 5 > self.slots.len() * 3 {
                self.resize((self.slots.len() + self.slots.len() / 4).max(LEAST));
            }
        }
        self.len += 1;
        place(&mut self.slots, tag, value);
        swept
    }

    /// The first slot from the tag's home on whose state has expired, if there is one before an empty slot.
    fn first_dead(&self, tag: Tag, now: Timestamp) -> Option<usize> {
        if self.slots.is_empty() || self.earliest > now {
            return None;
        }
        let mut index = self.home(tag);
        while self.slots[index].tag != Tag::NONE {
            if self.slots[index].value.expires_at() <= now {
                return Some(index);
            }
            index = self.after(index);
        }
        None
    }

    /// Takes a state out. Those that were pushed past it move back: there are no tombstones to wade through.
    pub(super) fn remove(&mut self, index: usize) -> V {
        let removed = std::mem::take(&mut self.slots[index]).value;
        self.len -= 1;
        let mut hole = index;
        let mut next = self.after(hole);
        while self.slots[next].tag != Tag::NONE {
            let home = self.home(self.slots[next].tag);
            // May the state at `next` stand in the hole? Only if its home does not lie between the two.
            let between =
                if hole <= next { hole < home && home <= next } else { hole < home || home <= next };
            if !between {
                self.slots.swap(hole, next);
                hole = next;
            }
            next = self.after(next);
        }
        removed
    }

    /// Looks at up to `budget` slots, at most all of them, and drops what has expired.
    pub(super) fn sweep_slots(&mut self, now: Timestamp, budget: usize) -> usize {
        if self.earliest > now {
            return 0;
        }
        let before = self.len;
        let mut passed = 0;
        while passed < budget.min(self.slots.len()) {
            // A state that is dropped may be followed into its slot by another: the hand has not passed it yet.
            passed += usize::from(!self.step(now));
        }
        if self.slots.len() > LEAST && self.len() * 4 < self.slots.len() {
            self.resize((self.len() * 2).max(LEAST));
        }
        (before - self.len) as usize
    }

    /// Drops one state that has expired, if there is any. A search that finds none remembers when the next one
    /// will be, and until then the answer costs nothing.
    pub(super) fn evict_one(&mut self, now: Timestamp) -> bool {
        if self.earliest > now {
            return false;
        }
        for _ in 0..self.slots.len() {
            if self.step(now) {
                return true;
            }
        }
        let live = self.slots.iter().filter(|slot| slot.tag != Tag::NONE);
        self.earliest = live.map(|slot| slot.value.expires_at()).min().unwrap_or(Timestamp::MAX);
        false
    }

    /// Looks at the slot under the hand: drops its state if it has expired, else moves on.
    fn step(&mut self, now: Timestamp) -> bool {
        let index = self.hand as usize;
        let expired = |slot: &Slot<V>| slot.tag != Tag::NONE && slot.value.expires_at() <= now;
        if index < self.slots.len() && expired(&self.slots[index]) {
            // The hand stays: another state may have moved back to here.
            self.remove(index);
            return true;
        }
        self.hand = if index + 1 >= self.slots.len() { 0 } else { self.hand + 1 };
        false
    }

    /// All states and their tags.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Tag, &V)> {
        self.slots.iter().filter(|slot| slot.tag != Tag::NONE).map(|slot| (slot.tag, &slot.value))
    }

    fn resize(&mut self, size: usize) {
        let mut slots: Box<[Slot<V>]> = std::iter::repeat_with(Slot::default).take(size).collect();
        for slot in std::mem::take(&mut self.slots) {
            if slot.tag != Tag::NONE {
                place(&mut slots, slot.tag, slot.value);
            }
        }
        self.slots = slots;
        self.hand = 0;
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a fraction of a `usize` fits one")]
fn home(tag: Tag, size: usize) -> usize {
    ((u128::from(tag.rest) * size as u128) >> 64) as usize
}

/// Puts a state into the first empty slot from its home on; there is one.
fn place<V>(slots: &mut [Slot<V>], tag: Tag, value: V) {
    let mut index = home(tag, slots.len());
    while slots[index].tag != Tag::NONE {
        index = if index + 1 == slots.len() { 0 } else { index + 1 };
    }
    slots[index] = Slot { tag, value };
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    impl Expires for i64 {
        fn expires_at(&self) -> Timestamp {
            Timestamp::from_nanos(*self)
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Put(u64, i64),
        Remove(u64),
        Sweep(i64),
        Evict(i64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        // Few tags, many of which share a home: probing, wrapping around and moving back all happen.
        let rest = prop_oneof![1..9u64, Just(1 << 63), Just((1 << 63) + 1), (u64::MAX - 4)..=u64::MAX];
        let step = prop_oneof![
            4 => (rest.clone(), 0..100i64).prop_map(|(rest, at)| Step::Put(rest, at)),
            1 => rest.prop_map(Step::Remove),
            1 => (0..100i64).prop_map(Step::Sweep),
            1 => (0..100i64).prop_map(Step::Evict),
        ];
        proptest::collection::vec(step, 0..200)
    }

    proptest! {
        /// Whatever is done to the table, it holds what a `HashMap` would: nothing live is lost, nothing dead
        /// comes back, and an eviction succeeds exactly when something has expired.
        #[test]
        fn behaves_as_a_map(steps in steps()) {
            let mut table = Table::<i64>::default();
            let mut map = HashMap::<u64, i64>::new();
            let tag = |rest| Tag { place: 0, rest };
            for step in steps {
                match step {
                    Step::Put(rest, at) => {
                        let (now, before) = (at - 50, table.len());
                        match table.find(tag(rest)) {
                            Some(index) => table.set(index, at),
                            None => {
                                let dropped = table.insert(tag(rest), at, Timestamp::from_nanos(now));
                                prop_assert_eq!(table.len(), before + 1 - dropped);
                                let held: HashMap<u64, i64> = table.iter().map(|(tag, at)| (tag.rest, *at)).collect();
                                map.retain(|rest, at| *at > now || held.contains_key(rest));
                            }
                        }
                        map.insert(rest, at);
                    }
                    Step::Remove(rest) => {
                        let removed = table.find(tag(rest)).map(|index| table.remove(index));
                        prop_assert_eq!(removed, map.remove(&rest));
                    }
                    Step::Sweep(now) => {
                        let before = table.len();
                        let swept = table.sweep_slots(Timestamp::from_nanos(now), usize::MAX);
                        prop_assert_eq!(swept, before - table.len());
                        let held: HashMap<u64, i64> = table.iter().map(|(tag, at)| (tag.rest, *at)).collect();
                        map.retain(|_, at| *at > now);
                        prop_assert_eq!(&held, &map, "a whole sweep leaves nothing dead");
                    }
                    Step::Evict(now) => {
                        let any = map.values().any(|at| *at <= now);
                        prop_assert_eq!(table.evict_one(Timestamp::from_nanos(now)), any);
                        let held: HashMap<u64, i64> = table.iter().map(|(tag, at)| (tag.rest, *at)).collect();
                        prop_assert_eq!(map.len() - held.len(), usize::from(any));
                        map.retain(|rest, at| *at > now || held.contains_key(rest));
                    }
                }
                prop_assert_eq!(table.len(), map.len());
                for (rest, at) in &map {
                    let index = table.find(tag(*rest));
                    prop_assert_eq!(index.map(|index| *table.get(index)), Some(*at));
                }
            }
        }
    }
}
