//! Why a store could not decide.

use std::error::Error;
use std::fmt;

/// The error of a store that could not decide: its [kind](StoreError::kind), its [reason](StoreError::reason) for metrics,
/// and a message that says what happened and what to do.
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    reason: &'static str,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// What kind of failure it is, and so whether asking again can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The store did not answer in time. Whether it charged is not known, so the same request is never sent twice.
    Timeout,
    /// The store cannot be reached.
    Unreachable,
    /// The store answered that it cannot serve now: it is loading, read-only or out of memory.
    Unavailable,
    /// Too many others changed the same key at the same time.
    Contended,
    /// The stored state cannot be read, or belongs to another algorithm.
    Unreadable,
    /// The store cannot do what was asked.
    Unsupported,
    /// The store was not asked, because it has failed too often lately.
    BreakerOpen,
    /// A failure that none of the other kinds describes.
    Other,
}

impl StoreErrorKind {
    /// Returns the kind as metrics spell it.
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
    /// Returns a failure of this kind; the message says what happened and what to do.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        StoreError { kind, reason: kind.as_str(), message: message.into(), source: None }
    }

    /// Returns the same failure, with the store's own word for its reason: one of a small, fixed set in `snake_case`, such as
    /// `out_of_memory`.
    #[must_use]
    pub fn because(mut self, reason: &'static str) -> Self {
        self.reason = reason;
        self
    }

    /// Returns the same failure, with what caused it as its [source](Error::source).
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns the kind of failure.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Returns why it failed, in one word that stays the same from release to release: what metrics count by.
    ///
    /// It is finer than the [kind](StoreError::kind) where the store knows more: a server that is `out_of_memory`,
    /// `read_only` or `loading` is [`Unavailable`](StoreErrorKind::Unavailable) each time. A store that gives no word
    /// has that of the kind.
    ///
    /// ```
    /// use ratekeeper::{StoreError, StoreErrorKind};
    ///
    /// let error = StoreError::new(StoreErrorKind::Unavailable, "OOM command not allowed");
    /// assert_eq!(error.reason(), "unavailable");
    /// assert_eq!(error.because("out_of_memory").reason(), "out_of_memory");
    /// ```
    pub fn reason(&self) -> &'static str {
        self.reason
    }

    /// Returns a copy without the source, which cannot be copied.
    pub(crate) fn without_source(&self) -> Self {
        StoreError { message: self.message.clone(), source: None, ..*self }
    }

    /// Returns the message, without the kind and the source.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Returns true if the same request may well be decided later.
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
