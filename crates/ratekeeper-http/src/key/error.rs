//! Why there is no key.

use std::fmt;

/// The request does not tell whose it is, and there is no fallback that would be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExtractError {
    /// Nobody has put the peer's address into the request.
    NoPeer,
    /// A [`Composite`](super::Composite) without parts, or an extractor that wrote nothing.
    Empty,
}

impl ExtractError {
    /// How to set it right.
    pub const fn remedy(self) -> &'static str {
        match self {
            ExtractError::NoPeer => {
                "axum: serve `app.into_make_service_with_connect_info::<SocketAddr>()` and enable the feature `axum` \
                 of ratekeeper-http; tonic: enable the feature `tonic`; hyper and others: put a \
                 `ratekeeper_http::key::Peer` into the request's extensions"
            }
            ExtractError::Empty => "an extractor must write at least one byte",
        }
    }
}

impl fmt::Display for ExtractError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            ExtractError::NoPeer => "the peer's address is not known",
            ExtractError::Empty => "the key is empty",
        };
        write!(f, "{what}; {}", self.remedy())
    }
}

impl std::error::Error for ExtractError {}
