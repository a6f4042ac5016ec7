//! Why a keeper could not decide.

use std::error::Error;
use std::fmt;

use super::held_to::MAX_PLANS;
use crate::port::{AmountError, LeaseError};
use crate::{KeyError, StoreError};

/// Why a request could not be decided. A denial is no error: it is a [`Ruling`](super::Ruling).
#[derive(Debug)]
#[non_exhaustive]
pub enum KeeperError {
    /// The request names a plan that does not exist, and the keeper does not
    /// [go on without it](super::OnMissingPlan).
    UnknownPlan {
        /// The name of the missing plan.
        name: String,
    },
    /// The request names no plan that exists.
    NoPlan,
    /// The request names the same plan twice.
    PlanTwice {
        /// The name that is given twice.
        name: String,
    },
    /// The request names more than [`MAX_PLANS`] plans.
    TooManyPlans {
        /// How many plans the request names.
        named: usize,
    },
    /// The plans cannot be asked for these amounts.
    Amounts(AmountError),
    /// A quota of the request's own is to be held, and only plans can be.
    HoldWithoutPlan,
    /// The lease of a hold is too short or too long.
    Lease(LeaseError),
    /// The key is empty or too long.
    Key(KeyError),
    /// The store failed, and the failure mode is [`Error`](crate::FailureMode::Error), or nothing can stand in for it.
    Store(StoreError),
}

impl From<KeyError> for KeeperError {
    fn from(error: KeyError) -> Self {
        KeeperError::Key(error)
    }
}

impl From<LeaseError> for KeeperError {
    #[cold]
    fn from(error: LeaseError) -> Self {
        KeeperError::Lease(error)
    }
}

impl From<AmountError> for KeeperError {
    #[cold]
    fn from(error: AmountError) -> Self {
        KeeperError::Amounts(error)
    }
}

impl KeeperError {
    /// Returns true if the same request may be decided later: the store failed for a while.
    pub fn is_transient(&self) -> bool {
        matches!(self, KeeperError::Store(error) if error.is_transient())
    }
}

impl fmt::Display for KeeperError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeeperError::UnknownPlan { name } => {
                write!(f, "plan: `{}`; there is no plan of that name", name.escape_debug())
            }
            KeeperError::NoPlan => f.write_str("plan: none; name at least one plan that exists"),
            KeeperError::PlanTwice { name } => {
                write!(f, "plan: `{}` twice; name each plan once", name.escape_debug())
            }
            KeeperError::TooManyPlans { named } => {
                write!(f, "plans: {named}; a request is held to at most {MAX_PLANS}")
            }
            KeeperError::HoldWithoutPlan => {
                f.write_str("quota: to be held; a hold names plans, by which it is ended")
            }
            KeeperError::Lease(error) => error.fmt(f),
            KeeperError::Amounts(error) => error.fmt(f),
            KeeperError::Key(error) => error.fmt(f),
            KeeperError::Store(error) => error.fmt(f),
        }
    }
}

impl Error for KeeperError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            KeeperError::Store(error) => error.source(),
            _ => None,
        }
    }
}
