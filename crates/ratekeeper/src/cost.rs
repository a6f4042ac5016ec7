//! How much a request takes.

use std::fmt;

/// How many units of a quota a request takes. Defaults to [one](Cost::ONE).
///
/// A request of [zero](Cost::ZERO) is answered like any other, but takes nothing and never writes state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(u64);

impl Cost {
    /// The cost of an ordinary request.
    pub const ONE: Cost = Cost(1);
    /// No units: what a request asks for that only looks, and what was granted to one that got nothing.
    pub const ZERO: Cost = Cost(0);

    /// Returns a cost of `units`; any number is valid, a cost above a quota's capacity is denied for ever.
    #[inline]
    pub const fn new(units: u64) -> Self {
        Cost(units)
    }

    /// Returns the number of units.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl Default for Cost {
    fn default() -> Self {
        Cost::ONE
    }
}

// The only integer: with a second one, the type of the literal in `try_acquire(1)` would be ambiguous.
impl From<u64> for Cost {
    fn from(units: u64) -> Self {
        Cost(units)
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
