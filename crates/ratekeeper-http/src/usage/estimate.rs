//! What a request is expected to take.

use super::unit_list::UnitList;

/// How much a request is expected to take of what its limits count, as an extension of the request: whatever has read the
/// request's body knows, and layers around do not.
///
/// On a server, a [`Limit`](crate::Limit) whose plan counts more than requests reads it; on a client, a
/// [`Pace`](crate::client::Pace). What it says of a unit that they do not count is not for them, and does no harm. It names at
/// most four units; more are ignored.
///
/// ```
/// use ratekeeper_http::Estimate;
/// let mut request = http::Request::new("{\"max_tokens\": 500}");
/// request.extensions_mut().insert(Estimate::tokens(500));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate(UnitList);

impl Estimate {
    /// Returns an estimate of so many `tokens`.
    pub fn tokens(amount: u64) -> Self {
        Estimate::of("tokens", amount)
    }

    /// Returns an estimate of so much of this unit.
    pub fn of(unit: &'static str, amount: u64) -> Self {
        let mut units = UnitList::default();
        units.set(unit, amount);
        Estimate(units)
    }

    /// Returns the same estimate, with so much of this unit.
    #[must_use]
    pub fn and(mut self, unit: &'static str, amount: u64) -> Self {
        self.0.set(unit, amount);
        self
    }

    /// Returns how much of this unit is expected, if anything is.
    pub fn get(&self, unit: &str) -> Option<u64> {
        self.0.get(unit)
    }

    pub(crate) fn units(&self) -> &[(&'static str, u64)] {
        self.0.as_slice()
    }
}
