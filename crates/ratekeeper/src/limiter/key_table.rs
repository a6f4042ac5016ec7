//! A table of keys and their limiters: bounded by whoever fills it, and forgetting a little at a time.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::hash::Hash;
use std::sync::atomic::{Ordering, fence};

use hashbrown::HashTable;

use super::core::LimiterCore;
use crate::sync::Arc;
use crate::{Nanos, Timestamp};

/// How many keys are looked at in one go to find some that can be forgotten: what a request pays at most.
pub(super) const STEPS: usize = 8;

/// When a key is looked at again that is as good as fresh but that somebody holds a handle of.
const HELD: Nanos = Nanos::from_millis(1);

/// When a key is looked at again that somebody waits for, or that has a quota of its own.
const BOUND: Nanos = Nanos::from_secs(1);

/// Keys, their limiters, and when each may be as good as fresh.
#[derive(Debug)]
pub(crate) struct KeyTable<K> {
    /// Where in `entries` each key is.
    index: HashTable<u32>,
    entries: Vec<Option<KeyEntry<K>>>,
    free: Vec<u32>,
    /// For each key the instant before which it cannot be forgotten, unless something is given back: then it is
    /// [looked at](KeyTable::revisit) earlier. What is charged in between only lasts longer.
    due: BTreeSet<(Timestamp, u32)>,
}

#[derive(Debug)]
struct KeyEntry<K> {
    hash: u64,
    due: Timestamp,
    key: K,
    core: Arc<LimiterCore>,
}

impl<K> KeyEntry<K> {
    /// Returns whether somebody holds a handle, and how long until it is as good as fresh. If nobody does, nobody can get hold of
    /// it meanwhile: that would need the lock which this is called under.
    fn look(&self) -> (bool, Nanos) {
        let is_held = Arc::strong_count(&self.core) > 1;
        // Whoever let go of it has done so after what it took: that must be seen here too.
        fence(Ordering::Acquire);
        (is_held, self.core.fresh_in())
    }
}

impl<K> Default for KeyTable<K> {
    fn default() -> Self {
        KeyTable { index: HashTable::new(), entries: Vec::new(), free: Vec::new(), due: BTreeSet::new() }
    }
}

impl<K: Hash + Eq> KeyTable<K> {
    /// Returns the limiter of this key, if there is one.
    pub(crate) fn get<Q: Eq + ?Sized>(&self, hash: u64, key: &Q) -> Option<&Arc<LimiterCore>>
    where
        K: Borrow<Q>,
    {
        let is_it = |at: &u32| self.entry(*at).is_some_and(|entry| entry.key.borrow() == key);
        let at = *self.index.find(hash, is_it)?;
        self.entry(at).map(|entry| &entry.core)
    }

    /// Adds a key that is not there.
    pub(crate) fn insert(&mut self, hash: u64, key: K, core: Arc<LimiterCore>, now: Timestamp) {
        let entry = KeyEntry { hash, due: now, key, core };
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
        self.due.insert((now, at));
    }

    /// Forgets some of the keys that are as good as fresh and that nobody holds a handle of; returns how many.
    pub(crate) fn forget_some(&mut self, now: Timestamp) -> usize {
        let mut forgotten = 0;
        for _ in 0..STEPS {
            let Some((_, at)) = self.due.first().copied().filter(|(due, _)| *due <= now) else { break };
            let Some(entry) = self.entry(at) else { break };
            match entry.look() {
                (false, Nanos::ZERO) => {
                    self.remove_at(at);
                    forgotten += 1;
                }
                (is_held, wait) => self.look_at(at, now + planned(wait, is_held)),
            }
        }
        forgotten
    }

    /// Returns when one of the first keys can be forgotten; `None` if no such key can be, as far as it can be foreseen. Those are
    /// looked at again, because what was charged meanwhile lasts longer.
    pub(crate) fn first_due(&mut self, now: Timestamp) -> Option<Timestamp> {
        let first: Vec<_> = self.due.iter().copied().take(STEPS).collect();
        let mut soonest: Option<Timestamp> = None;
        for (due, at) in first {
            // Nobody is due earlier than it says.
            if soonest.is_some_and(|soonest| soonest <= due) {
                break;
            }
            let Some(entry) = self.entry(at) else { continue };
            let (is_held, wait) = entry.look();
            self.look_at(at, now + planned(wait, is_held));
            if !is_held && wait < Nanos::MAX {
                soonest = Some(soonest.map_or(now + wait, |soonest| soonest.min(now + wait)));
            }
        }
        soonest
    }

    /// Looks at a key earlier than planned: something was given back to the one with this hash.
    pub(crate) fn revisit(&mut self, hash: u64, now: Timestamp) {
        let has_it = |at: &u32| self.entry(*at).is_some_and(|entry| entry.hash == hash);
        let Some(at) = self.index.find(hash, has_it).copied() else { return };
        if let Some(entry) = self.entry(at) {
            entry.core.clear_returns();
            self.look_at(at, now);
        }
    }

    fn look_at(&mut self, at: u32, due: Timestamp) {
        let Some(Some(entry)) = self.entries.get_mut(at as usize) else { return };
        self.due.remove(&(entry.due, at));
        entry.due = due;
        self.due.insert((due, at));
    }

    /// Returns all limiters.
    pub(crate) fn cores(&self) -> impl Iterator<Item = &Arc<LimiterCore>> {
        self.entries.iter().flatten().map(|entry| &entry.core)
    }

    fn entry(&self, at: u32) -> Option<&KeyEntry<K>> {
        self.entries.get(at as usize)?.as_ref()
    }

    fn remove_at(&mut self, at: u32) {
        let Some(entry) = self.entries.get_mut(at as usize).and_then(Option::take) else { return };
        if let Ok(found) = self.index.find_entry(entry.hash, |other| *other == at) {
            found.remove();
        }
        self.due.remove(&(entry.due, at));
        self.free.push(at);
    }
}

/// When a key is to be looked at again that is as good as fresh after `wait`.
fn planned(wait: Nanos, is_held: bool) -> Nanos {
    match wait {
        Nanos::MAX => BOUND,
        wait if is_held => wait.max(HELD),
        wait => wait,
    }
}
