//! What is left of one call's grant.

use crate::Timestamp;

/// What is left of one call's grant, or of two that end together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    pub(super) left: u64,
    granted: u64,
    /// Before it was asked for, by the clock of this process.
    since: Timestamp,
    /// When it can be spent no more.
    pub(super) ends: Timestamp,
    /// When it was taken, by the store's clock: what giving it back needs to know. The beginning of time if nobody charged for
    /// it.
    pub(super) charged: Timestamp,
}

/// What a lease had left when it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leftover {
    /// How much it is, all of which the store is told of: what has refilled meanwhile it keeps.
    pub(super) cost: u64,
    /// What of it has refilled for every rule, at least, and is lost.
    pub(super) refilled: u64,
    /// When it was taken, by the store's clock.
    pub(super) charged: Timestamp,
}

impl Batch {
    pub(super) const NONE: Batch =
        Batch { left: 0, granted: 0, since: Timestamp::MIN, ends: Timestamp::MIN, charged: Timestamp::MIN };

    pub(super) fn new(granted: u64, since: Timestamp, ends: Timestamp, charged: Option<Timestamp>) -> Self {
        Batch { left: granted, granted, since, ends, charged: charged.unwrap_or(Timestamp::MIN) }
    }

    /// Returns true if it can be spent now. A clock that stepped back tells nothing about it.
    #[inline]
    pub(super) fn is_live(&self, now: Timestamp) -> bool {
        self.since <= now && now < self.ends
    }

    /// Returns true if something is left of it that can be spent no more.
    #[inline]
    pub(super) fn has_ended(&self, now: Timestamp) -> bool {
        self.left > 0 && !self.is_live(now)
    }

    /// Returns true if it is what was charged then, and can be spent now.
    pub(super) fn is_of(&self, charged: Timestamp, now: Timestamp) -> bool {
        self.charged == charged && charged > Timestamp::MIN && self.is_live(now)
    }

    /// Takes back what was spent of it: no more than that can be.
    pub(super) fn put_back(&mut self, cost: u64) -> Option<()> {
        let left = self.left.checked_add(cost).filter(|left| *left <= self.granted)?;
        self.left = left;
        Some(())
    }

    /// Returns this and a newer one as one, which ends as this one does and is as old.
    pub(super) fn with(self, newer: Batch) -> Self {
        Batch {
            left: self.left.saturating_add(newer.left),
            granted: self.granted.saturating_add(newer.granted),
            since: self.since.max(newer.since),
            ends: self.ends.min(newer.ends),
            charged: self.charged.min(newer.charged),
        }
    }

    /// Returns what to give back, of which so much is lost; nothing if that is all, or nobody charged for it.
    pub(super) fn leftover(&self, refilled: u64) -> Option<Leftover> {
        let is_worth_it = self.left > refilled && self.charged > Timestamp::MIN;
        is_worth_it.then_some(Leftover { cost: self.left, refilled, charged: self.charged })
    }
}
