//! The statistics of a store in memory.

/// The statistics of a store in memory: what it holds, what it may hold, and how often it had to refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreStatistics {
    /// States held: one for every key and rule. Some may have expired and not been dropped yet.
    pub keys: usize,
    /// The most there may be; see [`max_keys`](super::MemoryStoreBuilder::max_keys) for who gets one beyond.
    pub max_keys: usize,
    /// How many of them belong to quotas that requests brought, not to plans.
    pub keys_of_requests: usize,
    /// Bytes allocated for all of this.
    pub bytes: usize,
    /// The most there may be; see [`max_bytes`](super::MemoryStoreBuilder::max_bytes).
    pub max_bytes: usize,
    /// Bytes that count as taken by quotas that requests brought. Tables are shared, so this is a sum over states.
    pub bytes_of_requests: usize,
    /// The percentage of states and bytes that is [kept for plans](super::MemoryStoreBuilder::kept_for_plans).
    pub kept_for_plans: u8,
    /// States dropped because they had expired.
    pub expired: u64,
    /// Requests that found no place: of new keys, or of a log that could not grow.
    pub refused: u64,
    /// How many of those came with a quota of their own.
    pub refused_of_requests: u64,
}
