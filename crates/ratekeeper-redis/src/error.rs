//! What a server may answer instead of a decision, and what to do about it.

use std::fmt;

use ratekeeper::{StoreError, StoreErrorKind};

/// The server could not be asked, or did not do what was asked.
#[derive(Debug)]
pub struct RedisError {
    kind: RedisErrorKind,
    message: String,
    source: Option<redis::RedisError>,
}

/// What sort of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RedisErrorKind {
    /// The address is none.
    Address,
    /// It cannot be reached.
    Unreachable,
    /// It did not answer in time.
    Timeout,
    /// The key holds something else than state.
    WrongType,
    /// The answer is none that the script gives.
    Protocol,
    /// Anything else.
    Other,
}

impl RedisError {
    pub(crate) fn new(kind: RedisErrorKind, message: impl Into<String>) -> Self {
        RedisError { kind, message: message.into(), source: None }
    }

    /// True if the server does not know the script by its name.
    pub(crate) fn is_no_script(&self) -> bool {
        self.source.as_ref().is_some_and(|source| source.code() == Some("NOSCRIPT"))
    }

    /// The kind of failure.
    pub fn kind(&self) -> RedisErrorKind {
        self.kind
    }
}

impl From<redis::RedisError> for RedisError {
    fn from(source: redis::RedisError) -> Self {
        let kind = if source.is_timeout() {
            RedisErrorKind::Timeout
        } else if source.is_io_error() || source.is_connection_dropped() {
            RedisErrorKind::Unreachable
        } else if source.code() == Some("WRONGTYPE") {
            RedisErrorKind::WrongType
        } else {
            RedisErrorKind::Other
        };
        RedisError { kind, message: source.to_string(), source: Some(source) }
    }
}

impl From<RedisError> for StoreError {
    fn from(error: RedisError) -> Self {
        let kind = match error.kind {
            RedisErrorKind::Address => StoreErrorKind::Unsupported,
            RedisErrorKind::Unreachable => StoreErrorKind::Unreachable,
            RedisErrorKind::Timeout => StoreErrorKind::Timeout,
            RedisErrorKind::WrongType => StoreErrorKind::Unreadable,
            RedisErrorKind::Protocol | RedisErrorKind::Other => StoreErrorKind::Other,
        };
        StoreError::new(kind, error.to_string()).caused_by(error)
    }
}

impl fmt::Display for RedisError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RedisError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}
