//! The right to be in flight.

use super::acquire::Held;
use crate::{Charged, Cost, Timestamp};

/// The right to be in flight. Dropping it gives it back; there is no other way, so it cannot be given back twice.
#[derive(Debug)]
#[must_use = "a permit that is not held is given back at once"]
pub struct Permit<'a> {
    held: Held<'a>,
    /// How many it counts as; more than one only as a part of several.
    cost: Cost,
    since: Timestamp,
    outcome: Outcome,
}

/// A permit that borrows nothing: it can live in any task or thread.
pub type OwnedPermit = Permit<'static>;

/// How what a permit was for has ended. Only an adaptive limit learns from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It was done, and how long it took tells how loaded the far side is.
    Success,
    /// The far side was overloaded: it refused, shed the load or timed out.
    Overload,
    /// It tells nothing: cancelled, failed before it began, or not known. What a dropped permit counts as.
    #[default]
    Ignored,
}

impl<'a> Permit<'a> {
    pub(crate) fn new(held: Held<'a>, cost: Cost) -> Self {
        let since = held.now();
        Permit { held, cost, since, outcome: Outcome::Ignored }
    }

    /// Gives the permit back, and tells how it went.
    pub fn finish(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let (cost, since, outcome) = (self.cost, self.since, self.outcome);
        self.held.with(|desk, now, wakes| {
            #[cfg(feature = "adaptive")]
            desk.learn(since, outcome, now);
            #[cfg(not(feature = "adaptive"))]
            let _ = (since, outcome);
            desk.refund(cost, Charged::NOW, now, wakes);
        });
    }
}
