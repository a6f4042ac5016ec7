//! What is leased, and what became of it.

use super::holding::Fates;

/// What a [`Leased`](super::Leased) store holds, what became of its tokens, and who answered.
///
/// Counts go up from zero when the store is made. Every token that was granted, or refunded, is held, or counted here once as spent, returned or burnt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseStatistics {
    /// Keys that are leased now.
    pub held: usize,
    /// The most keys that can be.
    pub capacity: usize,
    /// Tokens that are held now.
    pub left: u64,
    /// Tokens that requests have spent.
    pub spent: u64,
    /// Tokens that requests have given back while their lease lived: they are held again, or counted once more.
    pub refunded: u64,
    /// Tokens that were given back to the store when their lease ended. The rule that refills slowest takes that much back, the
    /// others less.
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

impl LeaseStatistics {
    /// Counts what became of tokens.
    #[inline]
    pub(super) fn add(&mut self, fates: Fates) {
        self.spent = self.spent.saturating_add(fates.spent);
        self.burnt = self.burnt.saturating_add(fates.burnt);
    }

    /// Returns the sum of these counts and those of a part, which holds so much.
    pub(super) fn plus(self, part: &LeaseStatistics, keys: usize, left: u64) -> Self {
        LeaseStatistics {
            held: self.held + keys,
            capacity: self.capacity,
            left: self.left.saturating_add(left),
            spent: self.spent.saturating_add(part.spent),
            refunded: self.refunded.saturating_add(part.refunded),
            returned: self.returned.saturating_add(part.returned),
            burnt: self.burnt.saturating_add(part.burnt),
            full: self.full + part.full,
            short: self.short + part.short,
            refused: self.refused + part.refused,
            errors: self.errors + part.errors,
            by_lease: self.by_lease + part.by_lease,
            by_pause: self.by_pause + part.by_pause,
            by_flight: self.by_flight + part.by_flight,
            by_store: self.by_store + part.by_store,
        }
    }
}
