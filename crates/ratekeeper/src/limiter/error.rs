//! Why waiting ended without a grant.

use std::fmt;

use crate::Nanos;

/// Why waiting ended without a grant. Nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcquireError {
    /// The deadline passed, or could not be met and so was not waited for.
    Deadline {
        /// How long a grant would have taken, as far as that could be foreseen.
        ready_in: Option<Nanos>,
    },
    /// The limiter was closed.
    Closed,
    /// As many wait as may.
    QueueFull,
    /// The cost is more than the limiter can ever grant.
    NeverFits,
    /// As many keys are limited as may be, none of them could be forgotten, and this one is new.
    TooManyKeys,
}

/// What sort of failure an [`AcquireError`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AcquireErrorKind {
    /// It would have come too late.
    Deadline,
    /// The limiter was closed.
    Closed,
    /// Too much is going on just now.
    Overloaded,
    /// It could never be granted.
    NeverFits,
}

impl AcquireError {
    /// The sort of failure.
    pub const fn kind(&self) -> AcquireErrorKind {
        match self {
            AcquireError::Deadline { .. } => AcquireErrorKind::Deadline,
            AcquireError::Closed => AcquireErrorKind::Closed,
            AcquireError::QueueFull | AcquireError::TooManyKeys => AcquireErrorKind::Overloaded,
            AcquireError::NeverFits => AcquireErrorKind::NeverFits,
        }
    }

    /// True if asking again later may succeed.
    pub const fn is_transient(&self) -> bool {
        matches!(self.kind(), AcquireErrorKind::Deadline | AcquireErrorKind::Overloaded)
    }
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AcquireError::Deadline { ready_in: Some(wait) } => {
                write!(f, "deadline: a grant would take {wait}")
            }
            AcquireError::Deadline { ready_in: None } => f.write_str("deadline: it passed without a grant"),
            AcquireError::Closed => f.write_str("limiter: closed"),
            AcquireError::QueueFull => f.write_str("queue: as many wait as may"),
            AcquireError::NeverFits => f.write_str("cost: more than the limiter's capacity"),
            AcquireError::TooManyKeys => {
                f.write_str("key: as many are limited as may be, and this one is new")
            }
        }
    }
}

impl std::error::Error for AcquireError {}
