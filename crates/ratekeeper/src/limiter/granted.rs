//! What a limiter of any sort has granted.

use super::permit::OwnedPermit;
use super::queue::PermitOutcome;
use crate::Decision;

/// A grant of any limiter, or of several: holds the permits of those that count what is in flight, and gives them back
/// when dropped.
#[derive(Debug)]
#[must_use = "permits that are not held are given back at once"]
pub struct Granted {
    decision: Decision,
    // Most have one at most: no allocation for them.
    permit: Option<OwnedPermit>,
    more: Vec<OwnedPermit>,
}

impl Granted {
    pub(super) fn new(decision: Decision, permits: impl IntoIterator<Item = OwnedPermit>) -> Self {
        let mut permits = permits.into_iter();
        Granted { decision, permit: permits.next(), more: permits.collect() }
    }

    /// Returns the decision; of several limiters, all of them joined: what is left is the least of them, and `rule` is
    /// the number of the part that has it.
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// Gives the permits back, and says how it went: adaptive limits learn from it.
    pub fn finish(self, outcome: PermitOutcome) {
        self.permit.into_iter().chain(self.more).for_each(|permit| permit.finish(outcome));
    }
}
