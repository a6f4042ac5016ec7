//! Open addressing over fixed-size slots: a look-up touches one cache line, or two neighbouring ones.
//!
//! Written by hand, because a decision that finds an expired state on its way to an empty slot may reuse it, because a table
//! must never allocate by itself, and because no map of the ecosystem tells when its next value expires.

use super::budget::Footprint;
use super::sync::prefetch;
use super::tag::Tag;
use crate::Timestamp;

/// The fewest slots that are ever allocated.
const LEAST: usize = 8;

/// Bytes that a processor fetches at once.
const CACHE_LINE: usize = 64;

/// What is kept in a slot knows when it will equal a fresh key's.
pub(super) trait Expires: Default {
    fn expires_at(&self) -> Timestamp;
}

/// A hash table from tags to states, linear probing, at most four fifths full. It grows by a quarter: with a power
/// of two, the table would be half empty for half of its life. It never grows by itself: whoever adds states has
/// [asked for the bytes](StateTable::bigger) and [resized](StateTable::resize) it before.
#[derive(Debug)]
pub(super) struct StateTable<V> {
    slots: Box<[TableSlot<V>]>,
    len: u32,
    /// How many of the states belong to quotas that requests brought.
    brought: u32,
    /// No state in here expires before this.
    earliest: Timestamp,
}

#[derive(Debug, Default)]
struct TableSlot<V> {
    tag: Tag,
    value: V,
}

impl<V> Default for StateTable<V> {
    fn default() -> Self {
        StateTable { slots: Box::new([]), len: 0, brought: 0, earliest: Timestamp::MAX }
    }
}

impl<V: Expires> StateTable<V> {
    /// Returns how many states there are, expired ones included.
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns an instant before which no state in here expires.
    pub(super) fn earliest(&self) -> Timestamp {
        self.earliest
    }

    /// Returns what the table takes, without what the values own themselves.
    pub(super) fn held(&self) -> Footprint {
        let brought = self.brought as usize;
        Footprint {
            states: self.len(),
            brought,
            bytes: size_of_val(&*self.slots),
            brought_bytes: brought * Self::WEIGHT,
        }
    }

    /// Bytes that one state counts for: two slots, for a table that was just swept is at least half full.
    pub(super) const WEIGHT: usize = 2 * size_of::<TableSlot<V>>();

    /// Returns the bytes that so many slots take.
    pub(super) const fn bytes(slots: usize) -> usize {
        slots * size_of::<TableSlot<V>>()
    }

    /// Returns true if so many more states can be added.
    #[inline]
    pub(super) fn has_room(&self, more: usize) -> bool {
        (self.len() + more) * 5 <= self.slots.len() * 4
    }

    /// Returns how many slots the table should have for so many more states, if it should have more than now.
    ///
    /// If it was `swept` because there was no room, it must have got more than just enough: a sweep that frees little
    /// would soon be followed by the next.
    pub(super) fn bigger(&self, more: usize, swept: bool) -> Option<usize> {
        let is_good =
            if swept { (self.len() + more) * 3 <= self.slots.len() * 2 } else { self.has_room(more) };
        let enough = ((self.len() + more) * 5).div_ceil(4);
        (more > 0 && !is_good).then(|| (self.slots.len() + self.slots.len() / 4).max(LEAST).max(enough))
    }

    /// Returns how many slots would do, if there are far too many.
    pub(super) fn smaller(&self) -> Option<usize> {
        let is_sparse = self.slots.len() > LEAST && self.len() * 2 < self.slots.len();
        is_sparse.then(|| if self.len == 0 { 0 } else { (self.len() * 3 / 2 + 1).max(LEAST) })
    }

    /// Returns where probing for a tag begins: the hash as a fraction of the table, so that any size will do.
    #[inline]
    fn home(&self, tag: Tag) -> usize {
        home(tag, self.slots.len())
    }

    #[inline]
    fn after(&self, index: usize) -> usize {
        if index + 1 == self.slots.len() { 0 } else { index + 1 }
    }

    /// Returns where the tag's state is.
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

    /// Asks for the cache lines that [`find`](StateTable::find) will most likely read: the one at which it begins, and the next.
    /// At the usual load, more than half of the look-ups end in the second, and would wait for it under the lock.
    #[inline]
    pub(super) fn prefetch(&self, tag: Tag) {
        let home = self.home(tag);
        if let Some(slot) = self.slots.get(home) {
            prefetch(slot);
        }
        // An instant lies behind its tag of 16 bytes, so that of the second slot from here is one line further on.
        if let Some(slot) = self.slots.get(home + CACHE_LINE / size_of::<TableSlot<V>>()) {
            prefetch(&slot.value);
        }
    }

    /// Returns the state at `index`.
    #[inline]
    pub(super) fn get(&self, index: usize) -> &V {
        &self.slots[index].value
    }

    /// Returns the state at `index`, to be changed to one that does not expire earlier.
    #[inline]
    pub(super) fn get_mut(&mut self, index: usize) -> &mut V {
        &mut self.slots[index].value
    }

    /// Replaces the state at `index`.
    pub(super) fn set(&mut self, index: usize, value: V) {
        self.earliest = self.earliest.min(value.expires_at());
        self.slots[index].value = value;
    }

    /// Grows the table if a state of this tag needs it. False if there is one already.
    pub(super) fn make_room_for(&mut self, tag: Tag) -> bool {
        let is_new = self.find(tag).is_none();
        if let Some(size) = self.bigger(1, false).filter(|_| is_new) {
            self.resize(size);
        }
        is_new
    }

    /// Adds a state whose tag is not in the table, which [has room](StateTable::has_room) for it. The first state on the way
    /// that has expired makes way for it and is handed out: keys that come and go cost no more than those that stay.
    pub(super) fn insert(&mut self, tag: Tag, value: V, now: Timestamp) -> Option<(Tag, V)> {
        self.earliest = self.earliest.min(value.expires_at());
        self.brought += u32::from(tag.is_brought());
        if let Some(dead) = self.first_dead(tag, now) {
            let TableSlot { tag, value } = std::mem::replace(&mut self.slots[dead], TableSlot { tag, value });
            self.brought -= u32::from(tag.is_brought());
            return Some((tag, value));
        }
        self.len += 1;
        place(&mut self.slots, tag, value);
        None
    }

    /// Returns the first slot from the tag's home on whose state has expired, if there is one before an empty slot.
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
        let TableSlot { tag, value: removed } = std::mem::take(&mut self.slots[index]);
        self.len -= 1;
        self.brought -= u32::from(tag.is_brought());
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

    /// Takes every state out that has expired. Afterwards the table knows when the next one will.
    pub(super) fn sweep(&mut self, now: Timestamp, dropped: impl FnMut(Tag, V)) {
        if self.earliest > now {
            return;
        }
        self.take_out(|_, value| value.expires_at() <= now, dropped);
        self.earliest = self.iter().map(|(_, value)| value.expires_at()).min().unwrap_or(Timestamp::MAX);
    }

    /// Takes every state out of which this is true.
    pub(super) fn take_out(&mut self, which: impl Fn(Tag, &V) -> bool, mut out: impl FnMut(Tag, V)) {
        let mut index = 0;
        while index < self.slots.len() {
            let TableSlot { tag, value } = &self.slots[index];
            let tag = *tag;
            if tag != Tag::NONE && which(tag, value) {
                // Another state may move back to here: look again.
                out(tag, self.remove(index));
            } else {
                index += 1;
            }
        }
    }

    /// Returns all states and their tags.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Tag, &V)> {
        self.slots.iter().filter(|slot| slot.tag != Tag::NONE).map(|slot| (slot.tag, &slot.value))
    }

    /// Returns the tags of all states that expire after this instant.
    pub(super) fn tags(&self, after: Timestamp) -> impl Iterator<Item = Tag> {
        self.iter().filter(move |(_, value)| value.expires_at() > after).map(|(tag, _)| tag)
    }

    /// Gives the table so many slots, which are enough.
    pub(super) fn resize(&mut self, size: usize) {
        let mut slots: Box<[TableSlot<V>]> = std::iter::repeat_with(TableSlot::default).take(size).collect();
        for slot in std::mem::take(&mut self.slots) {
            if slot.tag != Tag::NONE {
                place(&mut slots, slot.tag, slot.value);
            }
        }
        self.slots = slots;
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a fraction of a `usize` fits one")]
fn home(tag: Tag, size: usize) -> usize {
    ((u128::from(tag.rest) * size as u128) >> 64) as usize
}

/// Puts a state into the first empty slot from its home on; there is one.
fn place<V>(slots: &mut [TableSlot<V>], tag: Tag, value: V) {
    let mut index = home(tag, slots.len());
    while slots[index].tag != Tag::NONE {
        index = if index + 1 == slots.len() { 0 } else { index + 1 };
    }
    slots[index] = TableSlot { tag, value };
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
        Shrink,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        // Few tags, many of which share a home: probing, wrapping around and moving back all happen.
        let rest = prop_oneof![1..9u64, Just(1 << 63), Just((1 << 63) + 1), (u64::MAX - 4)..=u64::MAX];
        let step = prop_oneof![
            4 => (rest.clone(), 0..100i64).prop_map(|(rest, at)| Step::Put(rest, at)),
            1 => rest.prop_map(Step::Remove),
            1 => (0..100i64).prop_map(Step::Sweep),
            1 => Just(Step::Shrink),
        ];
        proptest::collection::vec(step, 0..200)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever is done to the table, it holds what a `HashMap` would: nothing live is lost, nothing dead
        /// comes back, and what is counted is what is there.
        #[test]
        fn behaves_as_a_map(steps in steps()) {
            let mut table = StateTable::<i64>::default();
            let mut map = HashMap::<u64, i64>::new();
            let tag = |rest| Tag { place: 0, rest };
            for step in steps {
                match step {
                    Step::Put(rest, at) => {
                        let (now, before) = (at - 50, table.len());
                        match table.find(tag(rest)) {
                            Some(index) => table.set(index, at),
                            None => {
                                let now = Timestamp::from_nanos(now);
                                if !table.has_room(1) {
                                    table.sweep(now, |_, _| ());
                                }
                                if let Some(size) = table.bigger(1, true) {
                                    table.resize(size);
                                }
                                let swept = table.len();
                                let made_way = table.insert(tag(rest), at, now);
                                prop_assert!(made_way.is_none_or(|(_, at)| at <= now.as_nanos()));
                                prop_assert_eq!(table.len(), swept + usize::from(made_way.is_none()));
                                prop_assert!(table.len() <= before + 1);
                                let held: HashMap<u64, i64> = table.iter().map(|(tag, at)| (tag.rest, *at)).collect();
                                map.retain(|rest, at| *at > now.as_nanos() || held.contains_key(rest));
                            }
                        }
                        map.insert(rest, at);
                    }
                    Step::Remove(rest) => {
                        let removed = table.find(tag(rest)).map(|index| table.remove(index));
                        prop_assert_eq!(removed, map.remove(&rest));
                    }
                    Step::Sweep(now) => {
                        let (before, mut swept) = (table.len(), 0);
                        table.sweep(Timestamp::from_nanos(now), |_, at| {
                            assert!(at <= now, "nothing live");
                            swept += 1;
                        });
                        prop_assert_eq!(swept, before - table.len());
                        let held: HashMap<u64, i64> = table.iter().map(|(tag, at)| (tag.rest, *at)).collect();
                        map.retain(|_, at| *at > now);
                        prop_assert_eq!(&held, &map, "a whole sweep leaves nothing dead");
                        prop_assert!(table.earliest() > Timestamp::from_nanos(now));
                    }
                    Step::Shrink => {
                        if let Some(size) = table.smaller() {
                            table.resize(size);
                        }
                    }
                }
                let brought = map.keys().filter(|rest| *rest % 2 == 1).count();
                prop_assert_eq!((table.held().states, table.held().brought), (map.len(), brought));
                prop_assert_eq!(table.len(), map.len());
                for (rest, at) in &map {
                    let index = table.find(tag(*rest));
                    prop_assert_eq!(index.map(|index| *table.get(index)), Some(*at));
                }
            }
        }
    }
}
