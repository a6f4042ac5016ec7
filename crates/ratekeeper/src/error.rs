//! What can go wrong between a question and a decision.

use std::error::Error;
use std::fmt;

/// A store could not decide.
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// What sort of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// It did not answer in time. Whether it charged is not known, so it is never asked again.
    Timeout,
    /// It cannot be reached.
    Unreachable,
    /// It answered that it cannot serve now: loading, read-only, out of memory.
    Unavailable,
    /// Too many others changed the same key at the same time.
    Contended,
    /// The stored state cannot be read, or belongs to another algorithm.
    Unreadable,
    /// The store cannot do what was asked.
    Unsupported,
    /// It was not asked, because it has failed too often lately.
    BreakerOpen,
    /// Anything else.
    Other,
}

impl StoreErrorKind {
    /// The kind as metrics spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            StoreErrorKind::Timeout => "timeout",
            StoreErrorKind::Unreachable => "unreachable",
            StoreErrorKind::Unavailable => "unavailable",
            StoreErrorKind::Contended => "contended",
            StoreErrorKind::Unreadable => "unreadable",
            StoreErrorKind::Unsupported => "unsupported",
            StoreErrorKind::BreakerOpen => "breaker_open",
            StoreErrorKind::Other => "other",
        }
    }
}

impl StoreError {
    /// A failure of this kind; the message says what happened and what to do.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        StoreError { kind, message: message.into(), source: None }
    }

    /// The same failure, with what caused it.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The kind of failure.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// True if the same question may well be answered later.
    pub fn is_transient(&self) -> bool {
        !matches!(self.kind, StoreErrorKind::Unreadable | StoreErrorKind::Unsupported)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}
