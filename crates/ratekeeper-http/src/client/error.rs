//! Why a request was not sent.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use ratekeeper::Nanos;
use ratekeeper::limiter::{AcquireError, LimiterKind};

/// A request that was not sent, or failed on its way.
#[derive(Debug)]
#[non_exhaustive]
pub enum PaceError<E> {
    /// It was not sent: it would have had to wait longer than it may, or the pace was closed.
    Rejected(Rejected),
    /// The inner client failed with this error.
    Client(E),
}

/// Why a request was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rejected {
    /// The local limit has no room in time.
    Local(AcquireError),
    /// The server takes no more for longer than the request may wait: it has said so, or has just refused one without
    /// saying for how long.
    Server {
        /// How long the pause will last.
        ready_in: Duration,
    },
    /// The pace was [closed](super::Pace::close), before the request or while it waited.
    Closed,
}

impl Rejected {
    /// Returns how long until a request like this could be sent, as far as that is known.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Rejected::Local(error) => error.retry_after().map(Nanos::as_duration),
            Rejected::Server { ready_in } => Some(*ready_in),
            Rejected::Closed => None,
        }
    }

    /// Returns which sort of limiter has no room; `None` if it was the server, or the pace is closed.
    pub fn limiter(&self) -> Option<LimiterKind> {
        match self {
            Rejected::Local(error) => Some(error.limiter()),
            Rejected::Server { .. } | Rejected::Closed => None,
        }
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rejected::Local(error) => write!(f, "not sent: {error}"),
            Rejected::Server { ready_in } => {
                write!(
                    f,
                    "not sent: the server takes no more requests for {ready_in:?}; raise the timeout to wait for it"
                )
            }
            Rejected::Closed => f.write_str("not sent: the pace was closed; make a new one to send more"),
        }
    }
}

impl Error for Rejected {}

impl<E: fmt::Display> fmt::Display for PaceError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PaceError::Rejected(rejected) => rejected.fmt(f),
            PaceError::Client(error) => error.fmt(f),
        }
    }
}

impl<E: Error + 'static> Error for PaceError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            PaceError::Rejected(_) => None,
            PaceError::Client(error) => error.source(),
        }
    }
}
