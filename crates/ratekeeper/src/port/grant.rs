//! The answer to a request that takes what there is.

use crate::{Cost, Decision, Nanos, Timestamp};

/// How much was granted of what was wanted, the decision that granted it, and what comes after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// How much was taken; nothing if the decision denies.
    pub granted: Cost,
    /// The decision on what was taken, or on the least that was wanted if that is refused.
    pub decision: Decision,
    /// The instant of the decision by the store's clock, also of one that denies.
    pub at: Timestamp,
    /// How long after [`at`](Grant::at) the first of the request's fixed windows ends, of the rules that bind. None if they
    /// have no such windows, or the store did not look at them: it was full.
    pub ends: Option<Nanos>,
    /// What one more request of cost 1 would be told right after this: what a [peek](super::Store::peek) at the same instant
    /// tells.
    pub next: Decision,
}

impl Grant {
    /// Returns the grant of somebody who looked at no state: nothing was charged, and the instant is the beginning of time.
    /// One more would be told the same.
    pub const fn without_state(granted: Cost, decision: Decision) -> Self {
        Grant { granted, decision, at: Timestamp::MIN, ends: None, next: decision }
    }
}
