//! A part of the keys: bounded by whoever fills it, and forgetting a little at a time.

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{Ordering, fence};

use hashbrown::HashTable;

use super::core::Core;
use super::sync::Arc;
use crate::{Nanos, Timestamp};

/// How many keys are looked at in one go to find some that can be forgotten: what a request pays at most.
const STEPS: usize = 8;

/// When a key is looked at again that is as good as fresh but in somebody's hands.
const HELD: Nanos = Nanos::from_millis(1);

/// When a key is looked at again that somebody waits for, or that has a quota of its own.
const BOUND: Nanos = Nanos::from_secs(1);

/// Keys, their limiters, and when each may be as good as fresh.
#[derive(Debug)]
pub(crate) struct Table<K> {
    /// Where in `entries` each key is.
    index: HashTable<u32>,
    entries: Vec<Option<Entry<K>>>,
    free: Vec<u32>,
    /// For each key one instant before which it cannot be forgotten. It may be out of date, but never too late
    /// unless something was given back: what is charged in between only lasts longer.
    due: BinaryHeap<Reverse<(Timestamp, u32, u32)>>,
    /// Tells apart those who have had the same entry one after another.
    generation: u32,
}

#[derive(Debug)]
struct Entry<K> {
    hash: u64,
    generation: u32,
    key: K,
    core: Arc<Core>,
}

impl<K> Default for Table<K> {
    fn default() -> Self {
        Table {
            index: HashTable::new(),
            entries: Vec::new(),
            free: Vec::new(),
            due: BinaryHeap::new(),
            generation: 0,
        }
    }
}

impl<K: Hash + Eq> Table<K> {
    pub(crate) fn get<Q: Eq + ?Sized>(&self, hash: u64, key: &Q) -> Option<&Arc<Core>>
    where
        K: Borrow<Q>,
    {
        let is_it = |at: &u32| self.entry(*at).is_some_and(|entry| entry.key.borrow() == key);
        let at = *self.index.find(hash, is_it)?;
        self.entry(at).map(|entry| &entry.core)
    }

    /// Adds a key that is not there.
    pub(crate) fn insert(&mut self, hash: u64, key: K, core: Arc<Core>, now: Timestamp) {
        self.generation = self.generation.wrapping_add(1);
        let entry = Entry { hash, generation: self.generation, key, core };
        let at = match self.free.pop() {
            Some(at) => {
                self.entries[at as usize] = Some(entry);
                at
            }
            None => {
                self.entries.push(Some(entry));
                // A table of more than 2^32 keys does not fit into memory.
                u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
            }
        };
        let entries = &self.entries;
        let hash_of = |at: &u32| entries[*at as usize].as_ref().map_or(0, |entry| entry.hash);
        self.index.insert_unique(hash, at, hash_of);
        self.due.push(Reverse((now, at, self.generation)));
    }

    /// Forgets some of the keys that are as good as fresh and in nobody's hands; tells how many.
    pub(crate) fn forget_some(&mut self, now: Timestamp) -> usize {
        let mut forgotten = 0;
        for _ in 0..STEPS {
            match self.due.peek() {
                Some(Reverse((due, ..))) if *due <= now => {}
                _ => break,
            }
            let Some(Reverse((_, at, generation))) = self.due.pop() else { break };
            let Some(entry) = self.entry(at).filter(|entry| entry.generation == generation) else { continue };
            // Nobody can get hold of it meanwhile: that would need the lock which this is called under.
            let is_held = Arc::strong_count(&entry.core) > 1;
            // Whoever let go of it has done so after what it took: that must be seen here too.
            fence(Ordering::Acquire);
            match entry.core.fresh_in() {
                Nanos::ZERO if !is_held => {
                    self.remove_at(at);
                    forgotten += 1;
                }
                wait => {
                    let wait = if wait == Nanos::MAX { BOUND } else { wait.max(HELD) };
                    self.due.push(Reverse((now + wait, at, generation)));
                }
            }
        }
        forgotten
    }

    /// Looks at a key earlier than planned: something was given back.
    pub(crate) fn revisit<Q: Eq + ?Sized>(&mut self, hash: u64, key: &Q, now: Timestamp)
    where
        K: Borrow<Q>,
    {
        // Instants that were left behind are bounded too: a key that is given back to all the time waits its time.
        if self.due.len() > 2 * self.index.len() + STEPS {
            return;
        }
        let is_it = |at: &u32| self.entry(*at).is_some_and(|entry| entry.key.borrow() == key);
        let Some(at) = self.index.find(hash, is_it).copied() else { return };
        // The old instant stays behind, and says nothing once the generation has moved on.
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        if let Some(Some(entry)) = self.entries.get_mut(at as usize) {
            entry.generation = generation;
            self.due.push(Reverse((now, at, generation)));
        }
    }

    pub(crate) fn cores(&self) -> impl Iterator<Item = &Arc<Core>> {
        self.entries.iter().flatten().map(|entry| &entry.core)
    }

    fn entry(&self, at: u32) -> Option<&Entry<K>> {
        self.entries.get(at as usize)?.as_ref()
    }

    fn remove_at(&mut self, at: u32) {
        let Some(entry) = self.entries.get_mut(at as usize).and_then(Option::take) else { return };
        if let Ok(found) = self.index.find_entry(entry.hash, |other| *other == at) {
            found.remove();
        }
        self.free.push(at);
    }
}

/// The hash of a key, borrowed or not.
pub(crate) fn hash_of<Q: Hash + ?Sized>(hasher: &impl BuildHasher, key: &Q) -> u64 {
    hasher.hash_one(key)
}
