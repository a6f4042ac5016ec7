//! How much of which unit a request takes.

use crate::error::ClientError;
use crate::quota::{checked_name, within_the_wire};

/// The most units that one request may name.
const MOST_UNITS: usize = 4;
/// The most bytes of a unit.
const MAX_UNIT: usize = 32;

/// How much a request takes, of requests and of other units by name; or what was spent of a hold.
///
/// What is not said is one request, of other units what the plan assumes; and of a hold that is settled, as it was
/// estimated.
///
/// ```
/// use ratekeeper_client::RemoteAmounts;
///
/// let estimate = RemoteAmounts::unit("tokens", 5_200).and("bytes", 3_000);
/// let several = RemoteAmounts::requests(3);
/// # let _ = (estimate, several, RemoteAmounts::UNSAID);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "amounts do nothing by themselves: pass them with a request"]
pub struct RemoteAmounts {
    units: Vec<(String, u64)>,
}

impl RemoteAmounts {
    /// Nothing is said.
    pub const UNSAID: RemoteAmounts = RemoteAmounts { units: Vec::new() };

    /// Returns so many requests.
    pub fn requests(count: u64) -> Self {
        Self::unit("requests", count)
    }

    /// Returns so much of a unit.
    pub fn unit(unit: impl Into<String>, amount: u64) -> Self {
        Self::UNSAID.and(unit, amount)
    }

    /// Adds so much of another unit. Each may be said once, and at most four of them.
    pub fn and(mut self, unit: impl Into<String>, amount: u64) -> Self {
        self.units.push((unit.into(), amount));
        self
    }

    /// Returns the units in the order in which they were named, all within the bounds of the wire.
    pub(crate) fn checked(&self) -> Result<Vec<(&str, i64)>, ClientError> {
        let wrong = |value, remedy| ClientError::Invalid { field: "units", value, remedy };
        if self.units.len() > MOST_UNITS {
            return Err(wrong(self.units.len().to_string(), "name at most 4"));
        }
        let mut checked: Vec<(&str, i64)> = Vec::with_capacity(self.units.len());
        for (unit, amount) in &self.units {
            checked_name("unit", unit, MAX_UNIT, "a unit has 1 to 32 bytes")?;
            if checked.iter().any(|(earlier, _)| earlier == unit) {
                return Err(wrong(format!("{unit:?} twice"), "say each unit once"));
            }
            checked.push((unit, within_the_wire("amount", *amount)?));
        }
        Ok(checked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_four_each_once_and_within_the_wire() {
        let error = |amounts: RemoteAmounts| amounts.checked().unwrap_err().to_string();
        let four = RemoteAmounts::requests(1).and("tokens", 0).and("a", 1).and("b", u64::MAX >> 1);
        assert_eq!(four.checked().unwrap()[1..3], [("tokens", 0), ("a", 1)]);
        assert_eq!(error(four.and("c", 1)), "units: 5; name at most 4");
        assert_eq!(error(RemoteAmounts::unit("a", 1).and("a", 1)), "units: \"a\" twice; say each unit once");
        assert!(
            error(RemoteAmounts::unit("a", 1 << 63)).starts_with("amount: 9223372036854775808; pass at most")
        );
        let long = RemoteAmounts::unit("a".repeat(70_000), 1);
        assert_eq!(error(long), "unit: 70000 bytes; a unit has 1 to 32 bytes");
        assert!(RemoteAmounts::UNSAID.checked().unwrap().is_empty());
    }
}
