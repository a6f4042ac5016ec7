//! The settings of a store in memory.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::tag::{Hashing, KeyHasher};
use super::{Budget, Line, MemoryStore, Search};
use crate::port::Clock;
use crate::{MonotonicClock, Timestamp};

/// Keys that a shard holds on average when the store is full. Growing such a shard takes some ten microseconds.
const KEYS_PER_SHARD: usize = 2_048;

/// The fewest shards: enough that the cores of one machine seldom meet at one lock.
const LEAST_SHARDS: usize = 64;

/// What a new key gets when there are as many live ones as there may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFull {
    /// A denial, with [`Reason::StoreFull`](crate::Reason::StoreFull).
    #[default]
    Refuse,
    /// A share in one state for all such keys, under the same quota.
    Share,
}

/// A [`MemoryStore`] in the making.
#[derive(Debug)]
#[must_use = "a builder is not a store yet: call `build`"]
pub struct MemoryStoreBuilder {
    max_keys: usize,
    max_bytes: Option<usize>,
    kept_for_plans: Option<u8>,
    keep_keys: bool,
    on_full: OnFull,
    hashing: Hashing,
    time: Time,
}

impl Default for MemoryStoreBuilder {
    fn default() -> Self {
        MemoryStoreBuilder {
            max_keys: Self::DEFAULT_MAX_KEYS,
            max_bytes: None,
            kept_for_plans: None,
            keep_keys: false,
            on_full: OnFull::default(),
            hashing: Hashing::default(),
            time: Time::Process,
        }
    }
}

impl MemoryStoreBuilder {
    /// A million keys: some 40 MB of them, for GCRA.
    pub const DEFAULT_MAX_KEYS: usize = 1_000_000;

    /// The most states there may be, one for every key and rule; at least one.
    ///
    /// A key that is limited already under some rule of a plan gets the states that the plan's other rules need beyond
    /// this bound, or a flood of new keys would change what it is told: at most as many times the bound as the plan has
    /// rules, and only for as long as those states count.
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.max_keys = max_keys.max(1);
        self
    }

    /// The most bytes that the store may allocate.
    pub fn max_bytes(mut self, max_bytes: usize) -> Self {
        self.max_bytes = Some(max_bytes);
        self
    }

    /// The percentage of states and of bytes that quotas of requests cannot take: it is kept for plans, which may take
    /// everything.
    pub fn kept_for_plans(mut self, percent: u8) -> Self {
        self.kept_for_plans = Some(percent.min(100));
        self
    }

    /// Whether the store remembers the bytes of its keys, so that [`forget`](crate::port::Store::forget) can find them.
    pub fn keep_keys(mut self, keep: bool) -> Self {
        self.keep_keys = keep;
        self
    }

    /// What a new key gets when the store is full.
    pub fn on_full(mut self, policy: OnFull) -> Self {
        self.on_full = policy;
        self
    }

    /// How keys are hashed.
    pub fn hashing(mut self, hashing: Hashing) -> Self {
        self.hashing = hashing;
        self
    }

    /// The clock to decide by; the process's unless said otherwise. It should not step back: if it does, time stands
    /// still for every key that was asked for at a later instant, until it comes to that again.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.time = Time::Other(Arc::new(clock));
        self
    }

    /// The store.
    pub fn build(self) -> MemoryStore {
        let hasher = KeyHasher::random(self.hashing);
        self.build_with(hasher)
    }

    pub(super) fn build_with(self, hasher: KeyHasher) -> MemoryStore {
        let shards = (self.max_keys / KEYS_PER_SHARD).max(LEAST_SHARDS).next_power_of_two();
        MemoryStore {
            shards: std::iter::repeat_with(Line::default).take(shards).collect(),
            hasher,
            budget: Budget::new(self.max_keys),
            on_full: self.on_full,
            time: self.time,
            search: Search::default(),
            refused: AtomicU64::new(0),
            restored_at: Timestamp::MIN,
        }
    }
}

/// Where the time comes from. The common clock is called directly, not through a pointer.
#[derive(Debug)]
pub(super) enum Time {
    Process,
    Other(Arc<dyn Clock>),
}

impl Time {
    #[inline]
    pub(super) fn now(&self) -> Timestamp {
        match self {
            Time::Process => MonotonicClock.now(),
            Time::Other(clock) => clock.now(),
        }
    }
}
