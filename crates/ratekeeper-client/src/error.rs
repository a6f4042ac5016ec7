//! What can go wrong.

use std::fmt;
use std::io;
use std::time::Duration;

use crate::frame::MAX_KEY;

/// Why there is no decision.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A key has 1 to 1024 bytes. Nothing was sent.
    Key {
        /// How many this one has.
        bytes: usize,
    },
    /// There is no connection, and none could be made. Nothing was sent.
    Connect(io::Error),
    /// The server answered that it will not decide this, and why.
    Refused(String),
    /// No answer came in time. The request may have been executed.
    Timeout(Duration),
    /// The connection was lost before the answer came. The request may have been executed.
    Lost(io::ErrorKind),
    /// What came back is no answer. The request may have been executed.
    Malformed,
}

impl Error {
    /// True if the request may have been executed all the same: sending it again may charge twice.
    pub fn may_have_been_executed(&self) -> bool {
        matches!(self, Error::Timeout(_) | Error::Lost(_) | Error::Malformed)
    }

    /// True if the same request may well be answered later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Error::Connect(_) | Error::Timeout(_) | Error::Lost(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Key { bytes } => write!(f, "key: {bytes} bytes; a key has 1 to {MAX_KEY} bytes"),
            Error::Connect(error) => write!(f, "cannot connect: {error}"),
            Error::Refused(why) => write!(f, "refused: {why}"),
            Error::Timeout(after) => {
                write!(f, "no answer within {after:?}; the request may have been executed")
            }
            Error::Lost(kind) => write!(f, "connection lost ({kind}); the request may have been executed"),
            Error::Malformed => f.write_str("the answer is malformed; the request may have been executed"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Connect(error) => Some(error),
            _ => None,
        }
    }
}
