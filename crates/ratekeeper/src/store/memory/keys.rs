//! The bytes of the keys in a shard, for those who want to find them by how they start.
//!
//! Slots hold hashes. Whoever [asks for it](super::MemoryStoreBuilder::keep_keys) gets the keys beside them: one run of
//! bytes for each shard, to which a key is added whenever it gets a state, and from which nothing is taken but all at
//! once, when it has doubled, when room is needed or the shard is tidied up. A decision on a state that is there never
//! looks here.
//!
//! ```text
//! place   8 bytes   the half of the key's hash that all its states have
//! length  2 bytes   with the highest bit set if a request's own quota brought the key
//! key     1 to 1024 bytes
//! ```

use std::collections::HashSet;

use foldhash::fast::RandomState;

use super::budget::Footprint;
use super::tag::KeyHash;
use crate::Key;

/// Places of keys: already hashes, so that any hasher will do.
pub(super) type KeyPlaces = HashSet<u64, RandomState>;

/// Bytes before the key of an entry.
const HEAD: usize = 10;

/// In an entry's length: a request's own quota brought the key.
const BROUGHT: u16 = 1 << 15;

/// The fewest bytes that are allocated, and the fewest after which duplicates are looked for.
const LEAST: usize = 512;

/// Bytes for each state of the shard before duplicates are looked for: less than the state takes itself.
const BYTES_PER_STATE: usize = 16;

/// The keys of a shard, one after another. Some are there twice, and some have lost their states.
#[derive(Debug, Default)]
pub(super) struct KeptKeys {
    entries: Vec<u8>,
    /// Bytes of those that requests brought.
    brought: usize,
    /// How many bytes there were when duplicates were last looked for.
    tidied: usize,
    /// A state has gone since then: its key may be of no use any more.
    is_stale: bool,
}

impl KeptKeys {
    /// Returns the bytes that the key will take.
    pub(super) fn size_of(key: Key<'_>) -> usize {
        HEAD + key.as_bytes().len()
    }

    /// Returns the bytes that the keys take.
    pub(super) fn held(&self) -> Footprint {
        Footprint { bytes: self.entries.capacity(), brought_bytes: self.brought, ..Footprint::default() }
    }

    /// Returns true if no key is kept.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns how many bytes should be [reserved](KeptKeys::reserve) for this key, if there is no room for it.
    pub(super) fn bigger(&self, key: Key<'_>) -> Option<usize> {
        let (len, capacity) = (self.entries.len() + Self::size_of(key), self.entries.capacity());
        (len > capacity).then(|| len.max(capacity + capacity / 4).max(LEAST))
    }

    /// Allocates so many bytes in all, which were claimed from the budget.
    pub(super) fn reserve(&mut self, size: usize) {
        self.entries.reserve_exact(size.saturating_sub(self.entries.len()));
    }

    /// Adds a key; there is room for it.
    pub(super) fn add(&mut self, hash: KeyHash, key: Key<'_>, brought: bool) {
        let bytes = key.as_bytes();
        // A key has at most 1024 bytes.
        let len = u16::try_from(bytes.len()).unwrap_or(0);
        self.entries.extend_from_slice(&hash.place.to_ne_bytes());
        self.entries.extend_from_slice(&(if brought { len | BROUGHT } else { len }).to_ne_bytes());
        self.entries.extend_from_slice(bytes);
        self.brought += if brought { Self::size_of(key) } else { 0 };
    }

    /// Returns true if it has doubled since duplicates were last looked for. Looking for them is looking at so many `states`: one
    /// long key that gets state after state must not make every other request pay for that.
    pub(super) fn is_due(&self, states: usize) -> bool {
        self.entries.len() >= LEAST.max(2 * self.tidied).max(BYTES_PER_STATE * states)
    }

    /// Notes that a state has gone.
    pub(super) fn lose_state(&mut self) {
        self.is_stale = !self.is_empty();
    }

    /// Returns true if a state has gone, and maybe the last one of its key.
    pub(super) fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Keeps of the keys in these places one each, and no others.
    pub(super) fn tidy(&mut self, mut live: KeyPlaces) {
        let (mut kept, mut at) = (0, 0);
        self.brought = 0;
        while let Some(entry) = KeptKey::at(&self.entries, at) {
            let end = at + entry.size();
            if live.remove(&entry.place) {
                self.brought += if entry.brought { entry.size() } else { 0 };
                self.entries.copy_within(at..end, kept);
                kept += end - at;
            }
            at = end;
        }
        self.entries.truncate(kept);
        self.tidied = kept;
        self.is_stale = false;
    }

    /// Returns how many bytes would do, if there are far too many.
    pub(super) fn smaller(&self) -> Option<usize> {
        let is_sparse = self.entries.capacity() > LEAST && self.entries.len() * 2 < self.entries.capacity();
        is_sparse.then(|| self.entries.len() + self.entries.len() / 4)
    }

    /// Gives memory back down to so many bytes.
    pub(super) fn shrink(&mut self, size: usize) {
        self.entries.shrink_to(size);
    }

    /// Returns all keys that are kept, some of them twice.
    pub(super) fn iter(&self) -> impl Iterator<Item = KeptKey<'_>> {
        KeptKey::all(&self.entries)
    }

    /// Returns all keys as they lie in memory, to be copied and [looked at](KeptKey::all) later.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.entries
    }
}

/// A key that is kept, with the place of its states.
pub(super) struct KeptKey<'a> {
    pub(super) place: u64,
    pub(super) key: &'a [u8],
    /// A request's own quota brought it.
    pub(super) brought: bool,
}

impl<'a> KeptKey<'a> {
    /// Returns all keys of [these bytes](KeptKeys::as_bytes).
    pub(super) fn all(entries: &'a [u8]) -> impl Iterator<Item = Self> {
        let first = KeptKey::at(entries, 0).map(|entry| (0, entry));
        let entries = std::iter::successors(first, move |(at, entry)| {
            let next = at + entry.size();
            KeptKey::at(entries, next).map(|entry| (next, entry))
        });
        entries.map(|(_, entry)| entry)
    }

    fn at(entries: &'a [u8], at: usize) -> Option<Self> {
        let (place, rest) = entries.get(at..)?.split_first_chunk()?;
        let (len, rest) = rest.split_first_chunk()?;
        let len = u16::from_ne_bytes(*len);
        let key = rest.get(..usize::from(len & !BROUGHT))?;
        Some(KeptKey { place: u64::from_ne_bytes(*place), key, brought: len & BROUGHT != 0 })
    }

    fn size(&self) -> usize {
        HEAD + self.key.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::memory::{Hashing, KeyHasher};

    #[test]
    fn keeps_one_of_each_key_that_has_a_state() {
        let hasher = KeyHasher::with_seed(Hashing::Fold, [1, 2]);
        let mut keys = KeptKeys::default();
        let names = ["a", "bb", "a", "ccc", "bb", "a"];
        for (index, name) in names.iter().enumerate() {
            let key = Key::new(name).unwrap();
            if let Some(size) = keys.bigger(key) {
                keys.reserve(size);
            }
            keys.add(hasher.hash(key), key, index % 2 == 0);
        }
        assert_eq!(keys.iter().map(|entry| entry.key).collect::<Vec<_>>(), names.map(str::as_bytes));
        assert_eq!(keys.held(), Footprint { bytes: LEAST, brought_bytes: 34, ..Footprint::default() });
        let live = ["a", "bb"].map(|name| hasher.hash(Key::new(name).unwrap()).place);
        keys.tidy(live.into_iter().collect());
        assert_eq!(
            keys.iter().map(|entry| (entry.place, entry.key)).collect::<Vec<_>>(),
            [(live[0], &b"a"[..]), (live[1], b"bb")]
        );
        assert_eq!(keys.held().brought_bytes, 11);
        keys.tidy(KeyPlaces::default());
        assert_eq!((keys.iter().count(), keys.held().brought_bytes), (0, 0));
    }
}
