//! One request of a trace.

use ratekeeper::{Timestamp, Unit};

use super::line_error::LineError;

/// What one line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEntry<'a> {
    /// When the request was made.
    pub at: Timestamp,
    /// Who made it; empty where the trace tells nobody apart.
    pub key: &'a [u8],
    /// How many requests it counts as.
    pub cost: u64,
    /// How much it takes of other units.
    pub units: TraceUnits<'a>,
    /// The plans that it named.
    pub plans: TracePlans<'a>,
    /// What a server has answered, if the trace tells.
    pub was_allowed: Option<bool>,
}

impl<'a> TraceEntry<'a> {
    /// Returns an entry of a trace that tells nothing of plans and answers.
    #[inline]
    pub fn new(at: Timestamp, key: &'a [u8], cost: u64, units: TraceUnits<'a>) -> Self {
        TraceEntry { at, key, cost, units, plans: TracePlans::default(), was_allowed: None }
    }
}

/// The plans of a recorded request: their names with commas between them, `-` if it brought its own quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TracePlans<'a>(&'a str);

impl<'a> TracePlans<'a> {
    pub(super) fn parse(word: &'a [u8]) -> Option<Self> {
        str::from_utf8(word).ok().filter(|word| !word.is_empty()).map(TracePlans)
    }

    /// True if the trace tells which plans requests have named.
    #[inline]
    pub fn are_told(self) -> bool {
        !self.0.is_empty()
    }

    /// True if the request has named this plan.
    pub fn has(self, plan: &str) -> bool {
        self.0 != "-" && self.0.split(',').any(|name| name == plan)
    }

    /// True if the request has named more than one.
    pub fn are_several(self) -> bool {
        self.0.contains(',')
    }
}

/// The words `unit=amount` of a line: checked when the line is read, and split again by whoever needs them, so that an entry
/// stays small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceUnits<'a>(&'a str);

impl<'a> TraceUnits<'a> {
    /// Reads the words `unit=amount` of a line.
    ///
    /// # Errors
    ///
    /// A word is not a unit and its amount; a unit is named twice, or is `requests`; there are more than four; an amount is
    /// more than 2^63 − 1.
    pub fn parse(words: &'a [u8]) -> Result<Self, LineError> {
        let units = TraceUnits(str::from_utf8(words).map_err(|_| LineError::Unit)?);
        for (index, word) in units.words().enumerate() {
            let (unit, amount) = split(word).ok_or(LineError::Unit)?;
            Unit::new(unit).map_err(|_| LineError::Unit)?;
            match unit {
                "requests" => return Err(LineError::RequestsNamed),
                _ if amount > ratekeeper::port::Request::MOST => return Err(LineError::Amount),
                _ if units.iter().take(index).any(|(earlier, _)| earlier == unit) => {
                    return Err(LineError::UnitTwice);
                }
                _ if index >= Unit::MOST_NAMED => return Err(LineError::TooManyUnits),
                _ => {}
            }
        }
        Ok(units)
    }

    fn words(self) -> impl Iterator<Item = &'a str> {
        self.0.split([' ', '\t']).filter(|word| !word.is_empty())
    }

    /// Returns each unit with its amount.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, u64)> {
        self.words().filter_map(split)
    }

    /// True if the line names none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

fn split(word: &str) -> Option<(&str, u64)> {
    let (unit, amount) = word.split_once('=')?;
    let is_number = amount.starts_with(|first: char| first.is_ascii_digit());
    // Too large for 64 bits is too large in any case.
    let amount =
        if is_number && amount.bytes().all(|byte| byte.is_ascii_digit()) { amount } else { return None };
    Some((unit, amount.parse().unwrap_or(u64::MAX)))
}
