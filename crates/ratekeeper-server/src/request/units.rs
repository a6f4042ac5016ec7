//! The units that a request names.

use ratekeeper::keeper::KeeperError;
use ratekeeper::port::{AmountError, Request};
use ratekeeper::{Amounts, Cost, Unit};

use super::error::RequestError;
use super::field::RequestField;

/// The units that a request names, in their order, without an allocation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NamedUnits<'a> {
    named: [(&'a str, u64); Unit::MOST_NAMED],
    len: usize,
}

impl<'a> NamedUnits<'a> {
    /// Adds so much of a unit. Which units there are, the plans know.
    ///
    /// # Errors
    ///
    /// It is one too many, it was named before, or the amount is beyond 2^63 − 1.
    pub(crate) fn push(&mut self, unit: &'a str, amount: u64) -> Result<(), RequestError> {
        if amount > Request::MOST {
            return Err(too_much(unit, amount));
        }
        if self.as_slice().iter().any(|(earlier, _)| *earlier == unit) {
            return Err(refused(AmountError::Twice { unit: unit.to_owned() }));
        }
        let Some(free) = self.named.get_mut(self.len) else {
            return Err(refused(AmountError::TooMany { named: self.len + 1 }));
        };
        *free = (unit, amount);
        self.len += 1;
        Ok(())
    }

    /// Returns the units, in the order in which they were added.
    #[inline]
    pub(crate) fn as_slice(&self) -> &[(&'a str, u64)] {
        &self.named[..self.len]
    }

    /// Returns the same units of a request whose wire has two fields for what it takes, a plain cost and these.
    ///
    /// # Errors
    ///
    /// Both are said.
    pub(crate) fn instead_of(self, cost: Option<u64>) -> Result<Self, RequestError> {
        match cost {
            Some(_) if self.len > 0 => {
                let problem = "together with `cost`; say one of them, the other as `requests`";
                Err(RequestError::Invalid(RequestField::Costs, problem.to_owned()))
            }
            _ => Ok(self),
        }
    }
}

/// Returns what a request says that it takes.
pub(super) fn said<'a>(cost: Option<u64>, units: &'a [(&'a str, u64)]) -> Amounts<'a> {
    match cost {
        Some(cost) => Amounts::new(Cost::new(cost), units),
        None => Amounts::of(units),
    }
}

/// Refuses a cost beyond what an amount of any unit may be. Verbs that are older than units take any.
pub(super) fn within(cost: Option<u64>) -> Result<(), RequestError> {
    match cost {
        Some(cost) if cost > Request::MOST => Err(too_much("requests", cost)),
        _ => Ok(()),
    }
}

#[cold]
fn too_much(unit: &str, amount: u64) -> RequestError {
    refused(AmountError::TooMuch { unit: unit.to_owned(), amount })
}

#[cold]
fn refused(error: AmountError) -> RequestError {
    KeeperError::Amounts(error).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_four_each_once_and_none_beyond_63_bits() {
        let mut units = NamedUnits::default();
        let said = |result: Result<(), RequestError>| result.map_err(|error| error.to_string());
        for (unit, amount) in [("a", 0), ("b", 1), ("c", 2), ("d", Request::MOST)] {
            assert_eq!(said(units.push(unit, amount)), Ok(()));
        }
        let kept = units;
        let beyond = "d: 9223372036854775808; must be at most 9223372036854775807";
        assert_eq!(said(units.push("d", 1 << 63)), Err(beyond.to_owned()));
        assert_eq!(said(units.push("a", 1)), Err("a: named twice; say each unit once".to_owned()));
        assert_eq!(said(units.push("e", 1)), Err("units: 5; a request names at most 4".to_owned()));
        assert_eq!(units.as_slice(), kept.as_slice(), "what is wrong changes nothing");
        assert!(units.instead_of(None).is_ok());
        let both = units.instead_of(Some(1)).unwrap_err();
        assert_eq!(both.field(), Some(RequestField::Costs));
        assert!(NamedUnits::default().instead_of(Some(1)).is_ok());
    }
}
