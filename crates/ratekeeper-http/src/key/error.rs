//! Why there is no key.

use std::fmt;

use http::HeaderName;

/// Why a request has no key, where no fallback would be true.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExtractError {
    /// The request does not carry the peer's address: the server was not set up to put it there.
    NoPeer,
    /// The extractor wrote nothing into the key, and a key has at least one byte.
    Empty,
    /// The request has several headers of this name, with different values. It is answered with 400 (gRPC: status 3).
    Ambiguous(HeaderName),
}

impl ExtractError {
    /// Returns true if the request is at fault, and false if the limit's set-up is.
    pub const fn is_of_request(&self) -> bool {
        matches!(self, ExtractError::Ambiguous(_))
    }

    /// Returns how to set it right.
    pub const fn remedy(&self) -> &'static str {
        match self {
            ExtractError::NoPeer => {
                "axum: serve `app.into_make_service_with_connect_info::<SocketAddr>()` and enable the feature `axum` \
                 of ratekeeper-http; tonic: enable the feature `tonic`; hyper and others: put a \
                 `ratekeeper_http::key::Peer` into the request's extensions"
            }
            ExtractError::Empty => "an extractor must write at least one byte",
            ExtractError::Ambiguous(_) => "send it once",
        }
    }
}

impl fmt::Display for ExtractError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExtractError::NoPeer => f.write_str("the peer's address is not known")?,
            ExtractError::Empty => f.write_str("the key is empty")?,
            ExtractError::Ambiguous(name) => write!(f, "header `{name}` is there more than once")?,
        }
        write!(f, "; {}", self.remedy())
    }
}

impl std::error::Error for ExtractError {}
