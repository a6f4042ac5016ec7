//! How much of which unit a request takes.

use crate::Cost;

/// How much a request takes: so many requests, and so much of other units by name.
///
/// Made of a number, which is a number of requests, or of a list of units, by `Into`:
///
/// ```
/// use ratekeeper::{Amounts, Keeper, MemoryStore, Plan, Registry};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let plans = Registry::new([Plan::parse("llm", "60/m; 1000 tokens/day")?]);
/// let keeper = Keeper::new(MemoryStore::default(), plans);
/// assert!(keeper.acquire("user:42", "llm", &[("tokens", 300)]).await?.allowed, "one request, 300 tokens");
/// assert!(keeper.acquire("user:42", "llm", Amounts::new(2, &[("tokens", 700)])).await?.allowed);
/// assert!(!keeper.acquire("user:42", "llm", &[("tokens", 1)]).await?.allowed);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts<'a> {
    requests: Option<Cost>,
    units: &'a [(&'a str, u64)],
}

impl<'a> Amounts<'a> {
    /// Nothing is said: one request, and of other units what the plan assumes. Of a hold that is settled: all as it was
    /// estimated.
    pub const UNSAID: Amounts<'static> = Amounts { requests: None, units: &[] };

    /// Returns so many requests, and so much of these units.
    pub fn new(requests: impl Into<Cost>, units: &'a [(&'a str, u64)]) -> Self {
        Amounts { requests: Some(requests.into()), units }
    }

    /// Returns so much of these units; how many requests is said among them, or not at all.
    pub const fn of(units: &'a [(&'a str, u64)]) -> Self {
        Amounts { requests: None, units }
    }

    /// Returns how many requests, if that was said by a number of its own.
    #[inline]
    pub const fn requests(&self) -> Option<Cost> {
        self.requests
    }

    /// Returns how many requests: one, unless that was said by a number, or by the name of the unit.
    #[inline]
    pub fn cost(&self) -> Cost {
        match self.requests {
            Some(requests) => requests,
            None => {
                let named = self.units.iter().find(|(unit, _)| *unit == "requests");
                named.map_or(Cost::ONE, |(_, requests)| Cost::new(*requests))
            }
        }
    }

    /// Returns the units that are named, as they are.
    #[inline]
    pub const fn units(&self) -> &'a [(&'a str, u64)] {
        self.units
    }
}

impl From<Cost> for Amounts<'_> {
    #[inline]
    fn from(requests: Cost) -> Self {
        Amounts { requests: Some(requests), units: &[] }
    }
}

// The only integer, as for a cost.
impl From<u64> for Amounts<'_> {
    #[inline]
    fn from(requests: u64) -> Self {
        Cost::new(requests).into()
    }
}

impl<'a> From<&'a [(&'a str, u64)]> for Amounts<'a> {
    fn from(units: &'a [(&'a str, u64)]) -> Self {
        Amounts::of(units)
    }
}

impl<'a, const N: usize> From<&'a [(&'a str, u64); N]> for Amounts<'a> {
    fn from(units: &'a [(&'a str, u64); N]) -> Self {
        Amounts::of(units)
    }
}
