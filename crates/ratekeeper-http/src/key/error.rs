//! Why there is no key.

use std::fmt;

use http::HeaderName;

/// The request does not tell whose it is, and there is no fallback that would be true.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExtractError {
    /// Nobody has put the peer's address into the request.
    NoPeer,
    /// A [`Composite`](super::Composite) without parts, or an extractor that wrote nothing.
    Empty,
    /// A [`Header`](super::Header) is there more than once, with different values. The request is answered with 400
    /// (gRPC: status 3).
    Ambiguous(HeaderName),
}

impl ExtractError {
    /// True if the request is at fault, and not how the limit is set up.
    pub const fn is_of_request(&self) -> bool {
        matches!(self, ExtractError::Ambiguous(_))
    }

    /// How to set it right.
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
