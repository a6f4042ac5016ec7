//! Why a stream has ended.

use std::fmt;
use std::io;
use std::time::Duration;

/// Why a stream to a control plane could not be opened, or has ended.
#[derive(Debug)]
pub(super) enum XdsFailure {
    /// There is no connection.
    Connect(io::Error),
    /// Nobody answered in this time.
    Silent(Duration),
    /// A request was not read in this time.
    Unread(Duration),
    /// What was answered is not HTTP/2, or the connection broke.
    Http2(h2::Error),
    /// It answers, but not by gRPC.
    Http(http::StatusCode),
    /// The control plane ended the stream with this status.
    Status(String),
    /// A message that cannot be taken: what is wrong with it.
    Message(String),
    /// The stream has ended without a word.
    Ended,
}

impl From<h2::Error> for XdsFailure {
    fn from(error: h2::Error) -> Self {
        XdsFailure::Http2(error)
    }
}

impl fmt::Display for XdsFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            XdsFailure::Connect(error) => write!(f, "cannot connect: {error}"),
            XdsFailure::Silent(time) => write!(f, "no answer within {time:?}"),
            XdsFailure::Unread(time) => write!(f, "a request was not read within {time:?}"),
            XdsFailure::Http2(error) => write!(f, "HTTP/2 failed: {error}"),
            XdsFailure::Http(status) => write!(f, "answers HTTP {status}, which is not gRPC"),
            XdsFailure::Status(status) => write!(f, "the stream was ended: {status}"),
            XdsFailure::Message(what) => f.write_str(what),
            XdsFailure::Ended => f.write_str("the stream has ended"),
        }
    }
}
