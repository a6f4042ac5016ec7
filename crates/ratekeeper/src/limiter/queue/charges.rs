//! Which charges may still be given back.

use crate::charged::{Charged, When};
use crate::{Nanos, Timestamp};

/// A charge that may be given back: when it was made, and after how many resets and changes of quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingCharge {
    pub(super) at: Timestamp,
    /// Either forgets every charge before it. Counted, because two things may happen at one instant.
    pub(super) resets: u32,
}

/// How often the charges so far have been forgotten (by a reset, or another quota), and when they were last.
#[derive(Debug, Default)]
pub(crate) struct ChargeLedger {
    resets: u32,
    reset_at: Option<Timestamp>,
}

impl ChargeLedger {
    /// Notes when the limiter was made, where there may have been another one before: nothing is left of what that has
    /// charged. It has come in again or was forgotten by a reset, or that one would still be there.
    pub(super) fn begin_at(&mut self, now: Timestamp) {
        self.reset_at = Some(now.saturating_sub(Nanos::from_nanos(1)));
    }

    /// Returns what to keep of a charge that is made now.
    pub(super) fn charge_at(&self, now: Timestamp) -> PendingCharge {
        PendingCharge { at: now, resets: self.resets }
    }

    /// Forgets all charges so far: none of them can be given back any more.
    pub(super) fn forget(&mut self, now: Timestamp) {
        self.resets = self.resets.wrapping_add(1);
        self.reset_at = Some(now);
    }

    /// Returns when this was charged, unless it has been forgotten since.
    pub(super) fn instant_of(&self, charge: PendingCharge) -> Option<Timestamp> {
        (charge.resets == self.resets).then_some(charge.at)
    }

    /// Returns when this was charged, as a caller says, unless it has been forgotten since. An age of nothing is
    /// later than a reset just now.
    pub(super) fn instant_as_said(&self, charged: Charged, now: Timestamp) -> Option<Timestamp> {
        let at = charged.instant(now);
        let is_left = |reset_at| at > reset_at || (at == reset_at && matches!(charged.when(), When::Ago(_)));
        self.reset_at.is_none_or(is_left).then_some(at)
    }
}
