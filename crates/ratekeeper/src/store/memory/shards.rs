//! All shards of a store: each behind its lock, and beside it what can be read without.

use std::fmt;
use std::ops::{Deref, DerefMut};

use super::cache_line::CacheLine;
use super::mirror::Mirror;
use super::shard::Shard;
use super::sync::{SpinGuard, SpinLock};
use super::tag::Tag;
use crate::algorithm::gcra::{self, GcraView};
use crate::algorithm::{Tenancy, View, Wait};
use crate::{Cost, Quota, Timestamp};

/// The shards of a store. There is no way to a shard's states but by a [`LockedShard`], so that no change can miss the
/// [`Mirror`].
pub(super) struct Shards {
    locks: Box<[CacheLine<SpinLock<Shard>>]>,
    /// Apart from the locks: on a line beside it, a processor would fetch the one with the other.
    mirrors: Box<[CacheLine<Mirror>]>,
}

// A decision reads one cache line, the mirror's, and writes two: the shard's and the slot's.
#[cfg(not(loom))]
const _: () = assert!(size_of::<CacheLine<SpinLock<Shard>>>() == 64, "a shard and its lock fit a cache line");
#[cfg(not(loom))]
const _: () =
    assert!(size_of::<CacheLine<Mirror>>() == 64, "what is read without the lock fits a cache line");

impl Shards {
    /// Returns so many empty shards: a power of two.
    pub(super) fn new(count: usize) -> Self {
        Shards {
            locks: std::iter::repeat_with(CacheLine::default).take(count).collect(),
            mirrors: std::iter::repeat_with(CacheLine::default).take(count).collect(),
        }
    }

    /// Returns how many shards there are.
    pub(super) fn len(&self) -> usize {
        self.locks.len()
    }

    /// Returns the bytes that the shards take when they are empty.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.locks) + size_of_val(&*self.mirrors)
    }

    /// Returns the shard of this half of a hash.
    #[inline(always)]
    pub(super) fn of(&self, place: u64) -> ShardHandle<'_> {
        self.at(self.index_of(place))
    }

    /// Returns the index of the shard of this half of a hash.
    #[inline(always)]
    pub(super) fn index_of(&self, place: u64) -> usize {
        (place >> 32) as usize & (self.len() - 1)
    }

    /// Returns the shard at this index.
    #[inline(always)]
    pub(super) fn at(&self, index: usize) -> ShardHandle<'_> {
        ShardHandle { lock: &self.locks[index].0, mirror: &self.mirrors[index].0 }
    }

    /// Returns all shards.
    pub(super) fn iter(&self) -> impl Iterator<Item = ShardHandle<'_>> {
        (0..self.len()).map(|index| self.at(index))
    }
}

impl fmt::Debug for Shards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shards").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// One shard, not locked yet.
#[derive(Clone, Copy)]
pub(super) struct ShardHandle<'a> {
    lock: &'a SpinLock<Shard>,
    mirror: &'a Mirror,
}

impl<'a> ShardHandle<'a> {
    /// Waits for the shard's lock.
    #[inline]
    pub(super) fn lock(self) -> LockedShard<'a> {
        LockedShard { shard: self.lock.lock(), mirror: self.mirror }
    }

    /// Returns the shard if nobody holds its lock.
    pub(super) fn try_lock(self) -> Option<LockedShard<'a>> {
        self.lock.try_lock().map(|shard| LockedShard { shard, mirror: self.mirror })
    }

    /// Takes a cost from one GCRA quota of a key that is known; `None` if it is not. If the state is mirrored and refuses, no
    /// lock is taken.
    #[inline(always)]
    pub(super) fn take_known<'q>(
        self,
        tag: Tag,
        quota: &'q Quota,
        tenancy: Tenancy,
        cost: Cost,
        now: Timestamp,
    ) -> Option<(GcraView<'q>, Wait)> {
        if let Some(tat) = self.mirror.read(tag, now) {
            let (view, wait) = gcra::decide(quota, Some(tat), cost, now, tenancy);
            // What is ready has to be written, and so has what is to be cut off.
            if wait != Wait::Ready && !view.was_repaired() {
                return Some((view, wait));
            }
        }
        let mut shard = self.lock.lock();
        let (view, wait) = shard.take_known(tag, quota, tenancy, cost, now)?;
        if shard.refusals.mirrored > 0 || wait != Wait::Ready {
            self.reflect(&mut shard, tag, matches!(wait, Wait::After(_)));
        }
        Some((view, wait))
    }

    /// Makes the mirror true again after a decision on one state, and adds that if it refuses all the time.
    #[inline(never)]
    fn reflect(self, shard: &mut Shard, tag: Tag, refused: bool) {
        if shard.refusals.mirrored > 0 {
            self.mirror.advance(shard.latest);
            // No other state was touched.
            let is_same =
                |other, tat| tat > shard.latest && (other != tag || shard.instant(tag) == Some(tat));
            shard.refusals.mirrored = self.mirror.keep(is_same);
        }
        if refused
            && !self.mirror.has(tag)
            && shard.refusals.is_hot(tag)
            && let Some(tat) = shard.instant(tag)
        {
            shard.refusals.mirrored = self.mirror.add(tag, tat, shard.latest);
        }
    }

    /// Asks for the cache line on which the state of GCRA of this tag lies, unless it can be read without.
    #[inline]
    pub(super) fn prefetch(self, tag: Tag) {
        if !self.mirror.has(tag) {
            // Changes nothing, so that there is nothing to mirror.
            self.lock.lock().instants.prefetch(tag);
        }
    }

    /// Returns true if this is the same shard.
    #[cfg(test)]
    pub(super) fn is(self, other: ShardHandle<'_>) -> bool {
        std::ptr::eq(self.lock, other.lock)
    }
}

/// A shard whose lock is held. Before that is released, the mirror is made true again, whatever was done.
pub(super) struct LockedShard<'a> {
    shard: SpinGuard<'a, Shard>,
    mirror: &'a Mirror,
}

impl Deref for LockedShard<'_> {
    type Target = Shard;

    #[inline]
    fn deref(&self) -> &Shard {
        &self.shard
    }
}

impl DerefMut for LockedShard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Shard {
        &mut self.shard
    }
}

impl Drop for LockedShard<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.shard.refusals.mirrored > 0 {
            self.mirror.advance(self.shard.latest);
            let is_same = |tag, tat| tat > self.shard.latest && self.shard.instant(tag) == Some(tat);
            self.shard.refusals.mirrored = self.mirror.keep(is_same);
        }
    }
}
