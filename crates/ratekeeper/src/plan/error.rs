//! Why rules cannot make a plan.

use std::fmt;

use crate::{Name, NameError, Quota, QuotaError};

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
    /// A rule limits what is in flight, which permits hold and no stored state does.
    Concurrency(Quota),
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
            PlanError::Concurrency(quota) => {
                write!(
                    f,
                    "rule: `{quota}`; what is in flight is held by a permit: use `Concurrency`, not a plan"
                )
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
