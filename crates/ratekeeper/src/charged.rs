//! When a cost was charged that is now refunded.

use crate::{Nanos, Timestamp};

/// When a cost was taken that is now given back.
///
/// What was taken has been refilling ever since, so a late refund gives back less, and a very late one nothing: see
/// [`Store::refund`](crate::port::Store::refund).
///
/// ```
/// use ratekeeper::{Charged, Nanos, Timestamp};
/// let now = Timestamp::from_secs(100);
/// assert_eq!(Charged::ago(Nanos::from_secs(5)).instant(now), Timestamp::from_secs(95));
/// assert_eq!(Charged::at(Timestamp::from_secs(96)).instant(now), Timestamp::from_secs(96));
/// assert_eq!(Charged::NOW.instant(now), now);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charged {
    when: When,
    /// It was taken from the keeper's local store, while the real one could not be asked.
    locally: bool,
}

/// The two ways to tell when something was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At this instant of the store's clock, as [`Decision::charged_at`](crate::Decision::charged_at) told it: exact.
    At(Timestamp),
    /// So long before the store gets to hear of the refund, for callers that do not know the store's clock. Round up:
    /// an age that is too long gives back too little, one that is too short too much.
    Ago(Nanos),
}

impl Charged {
    /// Charged just now: for a refund that follows at once. It gives back most, so use it for nothing older.
    pub const NOW: Charged = Charged::ago(Nanos::ZERO);

    /// Returns a charge made at this instant of the store's clock, as [`Decision::charged_at`](crate::Decision::charged_at)
    /// told it.
    pub const fn at(instant: Timestamp) -> Self {
        Charged { when: When::At(instant), locally: false }
    }

    /// Returns a charge made so long ago. Round up: see [`When::Ago`].
    pub const fn ago(age: Nanos) -> Self {
        Charged { when: When::Ago(age), locally: false }
    }

    /// Returns the instant or age of the charge, as the caller gave it.
    pub const fn when(self) -> When {
        self.when
    }

    /// Returns the instant of the charge as seen from `now`, the store's: never a later one.
    pub fn instant(self, now: Timestamp) -> Timestamp {
        match self.when {
            When::At(instant) => instant.min(now),
            When::Ago(age) => now.saturating_sub(age),
        }
    }

    /// Returns the same charge, marked as taken from the keeper's local store.
    pub(crate) const fn locally(mut self) -> Self {
        self.locally = true;
        self
    }

    /// Returns true if the charge was taken from the keeper's local store.
    pub(crate) const fn was_local(self) -> bool {
        self.locally
    }
}
