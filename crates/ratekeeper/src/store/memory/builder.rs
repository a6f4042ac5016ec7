//! The settings of a store in memory.

use std::sync::atomic::AtomicU64;

use super::budget::{Budget, Footprint, UNSAID};
use super::resets::Resets;
use super::search::Search;
use super::shard::ShardExtras;
use super::shards::Shards;
use super::store::MemoryStore;
use super::tag::{Hashing, KeyHasher};
use crate::Timestamp;
use crate::clock::TimeSource;
use crate::port::Clock;
use crate::store::on_full::OnFull;

/// Keys that a shard holds on average when the store is full. Growing such a shard takes some ten microseconds.
const KEYS_PER_SHARD: usize = 2_048;

/// The fewest shards: enough that the cores of one machine seldom meet at one lock. Under loom, they are to meet.
const LEAST_SHARDS: usize = if cfg!(loom) { 1 } else { 64 };

/// Bytes for each shard, at least: a store of few bytes has few shards.
const BYTES_PER_SHARD: usize = 16 << 10;

impl Default for MemoryStore {
    fn default() -> Self {
        MemoryStore::builder().build()
    }
}

impl MemoryStore {
    /// Returns a builder of a store, with the default settings.
    pub fn builder() -> MemoryStoreBuilder {
        MemoryStoreBuilder::default()
    }
}

/// A builder of a [`MemoryStore`].
///
/// ```
/// use ratekeeper::MemoryStore;
/// use ratekeeper::store::OnFull;
///
/// let store = MemoryStore::builder().max_keys(10_000).on_full(OnFull::Share).keep_keys(true).build();
/// assert_eq!((store.statistics().max_keys, store.is_empty()), (10_000, true));
/// ```
#[derive(Debug)]
#[must_use = "a builder is not a store yet: call `build`"]
pub struct MemoryStoreBuilder {
    max_keys: usize,
    max_bytes: Option<usize>,
    kept_for_plans: u8,
    keep_keys: bool,
    on_full: OnFull,
    hashing: Hashing,
    clock: TimeSource,
}

impl Default for MemoryStoreBuilder {
    fn default() -> Self {
        MemoryStoreBuilder {
            max_keys: Self::DEFAULT_MAX_KEYS,
            max_bytes: None,
            kept_for_plans: UNSAID,
            keep_keys: false,
            on_full: OnFull::default(),
            hashing: Hashing::default(),
            clock: TimeSource::default(),
        }
    }
}

impl MemoryStoreBuilder {
    /// A million keys: some 40 MB of them, for GCRA.
    pub const DEFAULT_MAX_KEYS: usize = 1_000_000;

    /// The least that [`max_bytes`](MemoryStoreBuilder::max_bytes) can be.
    pub const LEAST_BYTES: usize = 1 << 20;

    /// Sets the most states there may be, one for every key and rule; at least one.
    ///
    /// More than 4,294,967,295 cannot be counted.
    ///
    /// A key that is limited already under some rule of a plan gets the states that the plan's other rules need beyond
    /// this bound, or a flood of new keys would change what it is told: at most as many times the bound as the plan has
    /// rules, and only for as long as those states count.
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.max_keys = max_keys.clamp(1, Budget::MOST_STATES);
        self
    }

    /// Sets the most bytes that the store may allocate, for tables, logs and [kept keys](MemoryStoreBuilder::keep_keys); at
    /// least a megabyte. Unless said otherwise, 128 for each of the [`max_keys`](MemoryStoreBuilder::max_keys), 192 if
    /// keys are kept, and at least 16 MiB: a million GCRA keys take 40 MB and never more than 50, a million of any other
    /// algorithm but the log never more than 100, and so this bound is met only by logs and by very long keys. A log
    /// takes 16 to 32 bytes for each request that it remembers, and `10000/day log` remembers ten thousand.
    ///
    /// A new key that finds states left but no bytes is treated as when there are no states, and so is the request of
    /// a known key whose log would have to grow: it is denied with [`Reason::StoreFull`](crate::Reason::StoreFull),
    /// never admitted without being recorded, and [`OnFull::Share`] does not give it somebody else's state. The bound
    /// holds at every moment, but for the scratch memory, some ten kilobytes, of whoever tidies a shard up; about a
    /// fiftieth of it is kept for that, and no key gets it.
    pub fn max_bytes(mut self, max_bytes: usize) -> Self {
        self.max_bytes = Some(max_bytes.max(Self::LEAST_BYTES));
        self
    }

    /// Sets the percentage of states and of bytes that [quotas of requests](crate::Rules::Quota) cannot take: it is kept for
    /// plans, which may take everything. Whoever brings a quota chooses its period, and a million keys under
    /// `1 per 30 years` would lock every new customer out for as long.
    ///
    /// Said, it holds from the start. Unless said otherwise it is half, but nothing until the first key of a plan comes:
    /// whoever uses quotas alone has all of the store. At 100, a quota of a request never gets a state.
    /// [`MemoryStore::keep_for_plans`] changes it.
    pub fn kept_for_plans(mut self, percent: u8) -> Self {
        self.kept_for_plans = percent.min(100);
        self
    }

    /// Sets whether the store remembers the bytes of its keys, so that [`forget`](crate::port::Store::forget) can find them by
    /// how they start. Slots hold hashes alone, so this takes memory, about the length of each key and 20 bytes,
    /// which counts in [`max_bytes`](MemoryStoreBuilder::max_bytes), and time when a key is new; a known key's decision
    /// costs the same. A key that has lost its states stays in memory until its shard is tidied up, by
    /// [`sweep`](MemoryStore::sweep) at the latest; no snapshot holds it.
    pub fn keep_keys(mut self, keep: bool) -> Self {
        self.keep_keys = keep;
        self
    }

    /// Sets what a new key gets when the store is full. Defaults to [`OnFull::Refuse`].
    pub fn on_full(mut self, policy: OnFull) -> Self {
        self.on_full = policy;
        self
    }

    /// Sets how keys are hashed. Defaults to [`Hashing::Fold`].
    pub fn hashing(mut self, hashing: Hashing) -> Self {
        self.hashing = hashing;
        self
    }

    /// Sets the clock to decide by. By default the process's [`MonotonicClock`](crate::MonotonicClock), or tokio's time if
    /// the builder is made in a runtime that has paused it. It should not step back: if it does, time stands
    /// still in every shard in which something was taken at a later instant, for all of its keys, until it comes to that
    /// again.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = TimeSource::new(clock);
        self
    }

    /// Builds the store. Allocates its shards, 128 bytes each; tables grow with their keys.
    pub fn build(self) -> MemoryStore {
        let hasher = KeyHasher::random(self.hashing);
        self.build_with(hasher)
    }

    /// Builds the store with a hasher of its own: that of a snapshot, or of a test.
    pub(super) fn build_with(self, hasher: KeyHasher) -> MemoryStore {
        let max_bytes = self.bytes();
        let wanted = (self.max_keys / KEYS_PER_SHARD).max(LEAST_SHARDS).next_power_of_two();
        let affordable = (max_bytes / BYTES_PER_SHARD + 1).next_power_of_two() / 2;
        self.build_of(wanted.min(affordable).max(LEAST_SHARDS), hasher)
    }

    fn bytes(&self) -> usize {
        self.max_bytes.unwrap_or_else(|| {
            let bytes_per_key = if self.keep_keys { 192 } else { 128 };
            self.max_keys.saturating_mul(bytes_per_key).max(16 << 20)
        })
    }

    /// Builds the store with so many shards, a power of two, and a hasher of its own.
    pub(super) fn build_of(self, shards: usize, hasher: KeyHasher) -> MemoryStore {
        let (max_bytes, shards) = (self.bytes(), Shards::new(shards));
        let spare = max_bytes / 64 + shards.len() * (size_of::<ShardExtras>() + Resets::MOST_BYTES);
        let budget = Budget::new(self.max_keys, max_bytes, self.kept_for_plans, spare);
        budget.take_anyway(Footprint { bytes: shards.bytes(), ..Footprint::default() });
        MemoryStore {
            shards,
            hasher,
            budget,
            keeps_keys: self.keep_keys,
            on_full: self.on_full,
            clock: self.clock,
            search: Search::default(),
            refused: AtomicU64::new(0),
            refused_of_requests: AtomicU64::new(0),
            restored_at: Timestamp::MIN,
        }
    }
}
