//! Why a request has no answer.

use std::error::Error;
use std::fmt;

use ratekeeper::keeper::KeeperError;

use crate::rls::asked::{RlsDescriptor, RlsRequest};

/// Why a request has no answer. What is over a limit has one: that is no error.
#[derive(Debug)]
#[non_exhaustive]
pub enum RlsError {
    /// The request names no domain.
    EmptyDomain,
    /// The request has no descriptors.
    NoDescriptors,
    /// No configuration was loaded yet.
    NotLoaded,
    /// The request has too many descriptors.
    TooManyDescriptors {
        /// How many it has.
        sent: usize,
    },
    /// A descriptor has too many entries.
    TooManyEntries {
        /// Its position, from 0.
        descriptor: usize,
        /// How many it has.
        sent: usize,
    },
    /// A rule names a plan that the server does not have any more.
    UnknownPlan {
        /// The name of the plan.
        plan: String,
        /// The name that the rule is counted under.
        rule: String,
    },
    /// The keeper could not judge: the store failed, or a plan cannot be asked for hits.
    Keeper(KeeperError),
}

/// Whose fault it is that a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RlsErrorKind {
    /// The request's.
    Request,
    /// The configuration's: there is none, or it does not fit the plans of the server.
    Configuration,
    /// The store's.
    Store,
}

impl RlsError {
    /// Returns whose fault it is.
    pub fn kind(&self) -> RlsErrorKind {
        match self {
            RlsError::EmptyDomain
            | RlsError::NoDescriptors
            | RlsError::TooManyDescriptors { .. }
            | RlsError::TooManyEntries { .. } => RlsErrorKind::Request,
            RlsError::Keeper(KeeperError::Store(_)) => RlsErrorKind::Store,
            RlsError::NotLoaded | RlsError::UnknownPlan { .. } | RlsError::Keeper(_) => {
                RlsErrorKind::Configuration
            }
        }
    }
}

impl fmt::Display for RlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // These three are the words of the Go service.
            RlsError::EmptyDomain => f.write_str("rate limit domain must not be empty"),
            RlsError::NoDescriptors => f.write_str("rate limit descriptor list must not be empty"),
            RlsError::NotLoaded => f.write_str("no rate limit configuration loaded"),
            RlsError::TooManyDescriptors { sent } => {
                write!(f, "descriptors: {sent}; a request has at most {}", RlsRequest::MAX_DESCRIPTORS)
            }
            RlsError::TooManyEntries { descriptor, sent } => {
                let most = RlsDescriptor::MAX_ENTRIES;
                write!(f, "descriptors[{descriptor}].entries: {sent}; a descriptor has at most {most}")
            }
            RlsError::UnknownPlan { plan, rule } => write!(
                f,
                "rule {}: plan: `{}`; there is no plan of that name",
                rule.escape_debug(),
                plan.escape_debug()
            ),
            RlsError::Keeper(KeeperError::Store(error)) => write!(f, "store: {error}"),
            RlsError::Keeper(error) => error.fmt(f),
        }
    }
}

impl Error for RlsError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            RlsError::Keeper(error) => error.source(),
            _ => None,
        }
    }
}

impl From<KeeperError> for RlsError {
    #[cold]
    fn from(error: KeeperError) -> Self {
        RlsError::Keeper(error)
    }
}
