//! Why rules cannot make a plan.

use std::fmt;
use std::time::Duration;

use super::lease::Lease;
use crate::{Name, NameError, Nanos, QuotaError, Unit, UnitError};

/// The most rules of one plan.
pub(super) const MAX_RULES: usize = 16;

/// Rules that cannot make a plan. Its text names the field, its value, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// The name of the plan or of a rule is malformed.
    Name(NameError),
    /// The quota of a rule cannot be honoured.
    Quota(QuotaError),
    /// The plan has no rules; it needs at least one.
    NoRules,
    /// There are more than [16](crate::Plan::MAX_RULES) rules.
    TooManyRules,
    /// Two rules have this name.
    DuplicateRule(Name),
    /// The word of what a rule counts is malformed.
    Unit(UnitError),
    /// A rule counts places in flight at a rate: its text.
    PlacesAtARate(String),
    /// A unit is assumed of which a request takes one unless it says otherwise.
    AssumedOne(Unit),
    /// A unit is assumed that no rule counts.
    AssumedUncounted {
        /// The unit that is assumed.
        unit: Unit,
        /// The units that the plan's rules count.
        counted: Vec<Unit>,
    },
    /// A lease lasts longer than half the time in which a rule refills: more than half of its burst would be admitted beside
    /// it.
    LeaseTooLong {
        /// The lease.
        lease: Lease,
        /// The rule.
        rule: Name,
        /// The time in which the rule refills.
        refill: Nanos,
    },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::Name(error) => error.fmt(f),
            PlanError::Quota(error) => error.fmt(f),
            PlanError::NoRules => f.write_str("rules: none; a plan has at least one rule"),
            PlanError::TooManyRules => {
                write!(f, "rules: more than {MAX_RULES}; a plan has at most {MAX_RULES} rules")
            }
            PlanError::DuplicateRule(name) => {
                write!(f, "rule: `{name}`; each rule of a plan has a name of its own")
            }
            PlanError::Unit(error) => error.fmt(f),
            PlanError::PlacesAtARate(rule) => {
                write!(f, "rule: `{rule}`; places in flight have no rate: write `8 concurrent`")
            }
            PlanError::AssumedOne(unit) => {
                write!(f, "assume: `{unit}`; of that it is one unless the request says otherwise")
            }
            PlanError::AssumedUncounted { unit, counted } => {
                let counted: Vec<&str> = counted.iter().map(Unit::as_str).collect();
                write!(f, "assume: `{unit}`; the plan counts {}", counted.join(", "))
            }
            PlanError::LeaseTooLong { lease, rule, refill } => {
                let half = Duration::from_millis(refill.as_nanos() / 2_000_000);
                match Lease::lasting(half) {
                    Ok(most) => write!(
                        f,
                        "lease: `{lease}`; at most `{most}`, half of the {refill} in which rule `{rule}` refills"
                    ),
                    Err(_) => write!(
                        f,
                        "lease: `{lease}`; `off`, because rule `{rule}` refills in {refill}, and no lease is shorter than half of that"
                    ),
                }
            }
        }
    }
}

impl std::error::Error for PlanError {}

impl From<NameError> for PlanError {
    fn from(error: NameError) -> Self {
        PlanError::Name(error)
    }
}

impl From<QuotaError> for PlanError {
    fn from(error: QuotaError) -> Self {
        PlanError::Quota(error)
    }
}

impl From<UnitError> for PlanError {
    fn from(error: UnitError) -> Self {
        PlanError::Unit(error)
    }
}
