//! Values that stay where they are and are found by a hash: chunks that never move, and an index of four bytes each.
//!
//! A table of large values must be sparse, and doubles when it grows. Here only the index is sparse: eight bits of the hash and
//! 24 of the position in one word, so that looking for a value hardly ever looks at another.

use super::sync::prefetch;

/// Values in one chunk: the fewest that are ever allocated.
const CHUNK: usize = 8;

/// The fewest entries of an index.
const LEAST: usize = 8;

/// An entry without a value.
const EMPTY: u32 = 0;

/// Bits of an entry that are a position, and one: the rest are bits of the hash.
const POSITION_BITS: u32 = 24;

/// The end of the list of free places.
const NONE: u32 = u32::MAX;

/// A value knows the hash that it is found by.
pub(super) trait Hashed {
    fn hash(&self) -> u64;
}

/// A hash table whose values do not move, so that others may remember where they are. It never grows by itself: whoever
/// adds a value has asked for the [bytes](Slab::growth) and [reserved](Slab::reserve) them before.
#[derive(Debug)]
pub(super) struct Slab<T> {
    chunks: Vec<Box<[SlabSlot<T>; CHUNK]>>,
    /// Linear probing, at most four fifths full; it grows by a quarter.
    index: Box<[u32]>,
    len: u32,
    /// The first free place; each knows the next.
    free: u32,
}

#[derive(Debug)]
enum SlabSlot<T> {
    Full(T),
    Free { next: u32 },
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { chunks: Vec::new(), index: Box::new([]), len: 0, free: NONE }
    }
}

impl<T: Hashed> Slab<T> {
    /// The most values: more positions do not fit the index.
    pub(super) const MOST: usize = (1 << POSITION_BITS) - 1;

    /// Returns how many values there are.
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns the bytes that are allocated, without what the values own themselves.
    pub(super) fn bytes(&self) -> usize {
        Self::chunk_bytes(self.chunks.len(), self.chunks.capacity()) + size_of_val(&*self.index)
    }

    fn chunk_bytes(chunks: usize, capacity: usize) -> usize {
        chunks * size_of::<[SlabSlot<T>; CHUNK]>() + capacity * size_of::<usize>()
    }

    /// Returns the bytes that [`reserve`](Slab::reserve) will allocate, before it gives the old ones back.
    #[inline]
    pub(super) fn growth(&self) -> usize {
        let chunk = if self.free == NONE { size_of::<[SlabSlot<T>; CHUNK]>() } else { 0 };
        chunk
            + self.more_chunks().map_or(0, |capacity| capacity * size_of::<usize>())
            + self.bigger_index().map_or(0, |size| size * size_of::<u32>())
    }

    /// Allocates what one more value needs.
    pub(super) fn reserve(&mut self) {
        if let Some(capacity) = self.more_chunks() {
            self.chunks.reserve_exact(capacity - self.chunks.len());
        }
        if self.free == NONE {
            let first = position(self.chunks.len() * CHUNK);
            let next = |at: usize| if at + 1 < CHUNK { first + position(at + 1) } else { NONE };
            self.chunks.push(Box::new(std::array::from_fn(|at| SlabSlot::Free { next: next(at) })));
            self.free = first;
        }
        if let Some(size) = self.bigger_index() {
            self.rebuild(size);
        }
    }

    fn more_chunks(&self) -> Option<usize> {
        let (len, capacity) = (self.chunks.len(), self.chunks.capacity());
        (self.free == NONE && len == capacity).then(|| capacity + (capacity / 4).max(1))
    }

    fn bigger_index(&self) -> Option<usize> {
        let size = self.index.len();
        ((self.len() + 1) * 5 > size * 4).then(|| (size + size / 4).max(LEAST))
    }

    /// Asks for the memory that finding and adding a value of this hash will read: it is large, and asked for in no order.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        if let Some(entry) = self.index.get(self.home(hash)) {
            prefetch(entry);
        }
        if let Some(chunk) = self.chunks.get(self.free as usize / CHUNK) {
            prefetch(&chunk[self.free as usize % CHUNK]);
        }
    }

    /// Returns where the value is that has this hash and of which this is true.
    #[inline]
    pub(super) fn find(&self, hash: u64, is: impl Fn(&T) -> bool) -> Option<u32> {
        if self.index.is_empty() {
            return None;
        }
        let (mark, mut probe) = (mark(hash), self.home(hash));
        loop {
            let entry = self.index[probe];
            if entry == EMPTY {
                return None;
            }
            if entry >> POSITION_BITS == mark {
                let at = at(entry);
                if self.get(at).is_some_and(&is) {
                    return Some(at);
                }
            }
            probe = self.after(probe);
        }
    }

    /// Returns the value at a position.
    #[inline]
    pub(super) fn get(&self, at: u32) -> Option<&T> {
        match self.chunks.get(at as usize / CHUNK)?[at as usize % CHUNK] {
            SlabSlot::Full(ref value) => Some(value),
            SlabSlot::Free { .. } => None,
        }
    }

    /// Returns the value at a position, to be changed but for its hash.
    #[inline]
    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        match self.chunks.get_mut(at as usize / CHUNK)?[at as usize % CHUNK] {
            SlabSlot::Full(ref mut value) => Some(value),
            SlabSlot::Free { .. } => None,
        }
    }

    /// Adds a value, for which there is [room](Slab::reserve). Returns where it is.
    pub(super) fn insert(&mut self, value: T) -> u32 {
        let (hash, at) = (value.hash(), self.free);
        let slot = &mut self.chunks[at as usize / CHUNK][at as usize % CHUNK];
        if let SlabSlot::Free { next } = std::mem::replace(slot, SlabSlot::Full(value)) {
            self.free = next;
        }
        self.len += 1;
        self.note(hash, at);
        at
    }

    /// Takes a value out. Its memory is used by the next one.
    pub(super) fn remove(&mut self, at: u32) -> Option<T> {
        let hash = self.get(at)?.hash();
        let mut probe = self.home(hash);
        while self.index[probe] != entry(hash, at) {
            probe = self.after(probe);
        }
        self.close(probe);
        let slot = &mut self.chunks[at as usize / CHUNK][at as usize % CHUNK];
        let SlabSlot::Full(value) = std::mem::replace(slot, SlabSlot::Free { next: self.free }) else {
            return None;
        };
        self.free = at;
        self.len -= 1;
        Some(value)
    }

    /// Returns all values and where they are.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let slots = self.chunks.iter().flat_map(|chunk| chunk.iter());
        slots.enumerate().filter_map(|(at, slot)| match slot {
            SlabSlot::Full(value) => Some((position(at), value)),
            SlabSlot::Free { .. } => None,
        })
    }

    /// Returns the end of all positions: no value is there, nor beyond.
    pub(super) fn end(&self) -> u32 {
        position(self.chunks.len() * CHUNK)
    }

    /// Returns true if more than half of what is allocated is of no use.
    pub(super) fn is_sparse(&self) -> bool {
        self.chunks.len() * CHUNK > 2 * self.len().max(CHUNK / 2)
    }

    /// Returns the bytes that so many values take when they are added one by one, at most.
    pub(super) fn bytes_of(len: usize) -> usize {
        let chunks = len.div_ceil(CHUNK);
        let index = if len == 0 { 0 } else { (len * 5).div_ceil(4) * 5 / 4 + LEAST };
        Self::chunk_bytes(chunks, chunks + chunks / 4 + 1) + index * size_of::<u32>()
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        home(hash, self.index.len())
    }

    #[inline]
    fn after(&self, probe: usize) -> usize {
        if probe + 1 == self.index.len() { 0 } else { probe + 1 }
    }

    fn note(&mut self, hash: u64, at: u32) {
        let mut probe = self.home(hash);
        while self.index[probe] != EMPTY {
            probe = self.after(probe);
        }
        self.index[probe] = entry(hash, at);
    }

    /// Empties an entry. Those that were pushed past it move back.
    fn close(&mut self, mut hole: usize) {
        let mut next = self.after(hole);
        while self.index[next] != EMPTY {
            let home = self.get(at(self.index[next])).map_or(next, |value| self.home(value.hash()));
            let between =
                if hole <= next { hole < home && home <= next } else { hole < home || home <= next };
            if !between {
                self.index[hole] = self.index[next];
                hole = next;
            }
            next = self.after(next);
        }
        self.index[hole] = EMPTY;
    }

    fn rebuild(&mut self, size: usize) {
        self.index = vec![EMPTY; size].into_boxed_slice();
        for at in 0..self.end() {
            if let Some(hash) = self.get(at).map(Hashed::hash) {
                self.note(hash, at);
            }
        }
    }
}

#[inline]
fn entry(hash: u64, at: u32) -> u32 {
    (mark(hash) << POSITION_BITS) | (at + 1)
}

#[inline]
fn at(entry: u32) -> u32 {
    (entry & ((1 << POSITION_BITS) - 1)).wrapping_sub(1)
}

/// The lowest bits of the hash: the highest decide where the entry lies.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "eight bits")]
fn mark(hash: u64) -> u32 {
    hash as u32 & 0xff
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a fraction of a `usize` fits one")]
fn home(hash: u64, size: usize) -> usize {
    ((u128::from(hash) * size as u128) >> 64) as usize
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "there are at most 2^24")]
fn position(at: usize) -> u32 {
    at as u32
}
