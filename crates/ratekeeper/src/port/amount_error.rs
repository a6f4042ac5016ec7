//! Why rules cannot be asked for these amounts.

use std::fmt;

use crate::quote::shorten;
use crate::{Name, StoreError, StoreErrorKind, Unit};

/// Amounts that the rules of a request cannot be asked for. Its text names the unit, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AmountError {
    /// Nobody says how much of a unit that a plan counts.
    Missing {
        /// The plan that counts it.
        plan: Name,
        /// The unit.
        unit: Unit,
    },
    /// No rule of the request counts this unit.
    Uncounted {
        /// The unit, as the request has it.
        unit: String,
        /// The units that are counted.
        counted: Vec<String>,
    },
    /// The request names this unit twice.
    Twice {
        /// The unit, as the request has it.
        unit: String,
    },
    /// The request names more than [4](Unit::MOST_NAMED) units.
    TooMany {
        /// How many it names.
        named: usize,
    },
    /// The request names more of a unit than 2^63 − 1.
    TooMuch {
        /// The unit, as the request has it.
        unit: String,
        /// How much of it.
        amount: u64,
    },
    /// A part of the cost would do, and a rule counts something else than requests.
    NotInPart {
        /// The plan that counts it.
        plan: Name,
        /// The unit.
        unit: Unit,
    },
    /// The plan counts what is in flight, and can be taken by a hold only.
    TakenByHolds {
        /// The plan.
        plan: Name,
    },
}

impl fmt::Display for AmountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AmountError::Missing { plan, unit } => {
                write!(f, "{unit}: missing; `{plan}` counts {unit}: say how many, or set `assume`")
            }
            AmountError::Uncounted { unit, counted } => {
                let unit = shorten(unit);
                match counted.is_empty() {
                    true => {
                        write!(f, "{unit}: counted by no rule; a quota of the request's own counts requests")
                    }
                    false => {
                        let counted = counted.join(", ");
                        write!(f, "{unit}: counted by no rule; those of this request count {counted}")
                    }
                }
            }
            AmountError::Twice { unit } => {
                write!(f, "{}: named twice; say each unit once", shorten(unit))
            }
            AmountError::TooMany { named } => {
                write!(f, "units: {named}; a request names at most {}", Unit::MOST_NAMED)
            }
            AmountError::TooMuch { unit, amount } => {
                write!(f, "{}: {amount}; must be at most {}", shorten(unit), i64::MAX)
            }
            AmountError::NotInPart { plan, unit } => {
                write!(
                    f,
                    "{unit}: whole; `{plan}` counts {unit}, and only requests are granted in part: use acquire"
                )
            }
            AmountError::TakenByHolds { plan } => {
                write!(f, "plan: `{plan}`; it counts what is in flight: use hold")
            }
        }
    }
}

impl std::error::Error for AmountError {}

impl From<AmountError> for StoreError {
    #[cold]
    fn from(error: AmountError) -> Self {
        StoreError::new(StoreErrorKind::Unsupported, error.to_string()).caused_by(error)
    }
}
