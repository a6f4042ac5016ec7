//! Who writes a state, and so whether one that lies too far ahead is cut off.

use crate::{Nanos, Timestamp};

/// Who writes the state that a quota is decided on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tenancy {
    /// The state is the rule's own: nobody but this rule wrote it. If it reaches further ahead than two
    /// refills, as far as a debt goes, and [a second](SLACK), the clock stepped back or the quota was lowered, and it is cut
    /// off to one refill.
    Own,
    /// The state is shared by all quotas that requests bring for this key, and may belong to a longer one: it is
    /// honoured as it stands, never cut off.
    Shared,
}

impl Tenancy {
    /// Returns true if a state noted for this instant is cut off: it lies further ahead of now than a caller who came late
    /// explains, and no other quota may have written it.
    pub(super) fn cuts_off(self, noted: Timestamp, now: Timestamp) -> bool {
        noted > now + SLACK && self == Tenancy::Own
    }
}

/// How far a state of one's own may reach beyond two refills before it is cut off. Callers that read the clock and
/// then wait for their turn come with instants of the past: those must not look like a clock that stepped back.
pub const SLACK: Nanos = Nanos::from_secs(1);
