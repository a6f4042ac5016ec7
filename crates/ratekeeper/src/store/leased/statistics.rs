//! What is leased, and what became of it.

/// What a [`Leased`](super::Leased) store holds, what became of its tokens, and who answered.
///
/// Counts go up from zero when the store is made. Every token that was granted is held, or counted here once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseStatistics {
    /// Keys that tokens are held for now.
    pub held: usize,
    /// The most keys that tokens are held for.
    pub capacity: usize,
    /// Tokens that requests have spent.
    pub spent: u64,
    /// Tokens that were given back to the store when their lease ended.
    pub returned: u64,
    /// Tokens that were neither spent nor given back.
    pub burnt: u64,
    /// Calls that were granted all they asked for.
    pub full: u64,
    /// Calls that were granted less than they asked for.
    pub short: u64,
    /// Calls that were granted nothing.
    pub refused: u64,
    /// Calls that the store failed to answer.
    pub errors: u64,
    /// Requests that were allowed from a lease, without waiting.
    pub by_lease: u64,
    /// Requests that were refused while the key pauses, without waiting.
    pub by_pause: u64,
    /// Requests that waited for a call that was on its way.
    pub by_flight: u64,
    /// Requests that the store answered itself, as it would without leases.
    pub by_store: u64,
}
