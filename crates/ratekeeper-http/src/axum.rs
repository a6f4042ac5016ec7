//! axum: the decision as an extractor.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use http::StatusCode;
use http::request::Parts;

use crate::LimitDecision;

/// The decision of the innermost limit that was told to [hand it over](crate::Limit::with_decision).
impl<S: Send + Sync> FromRequestParts<S> for LimitDecision {
    type Rejection = (StatusCode, &'static str);

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        parts.extensions.get().cloned().ok_or((
            StatusCode::INTERNAL_SERVER_ERROR,
            "no limit has handed its decision over: put `limit.with_decision()` around this route",
        ))
    }
}

/// The same for handlers that some requests reach without a decision, because they are
/// [exempt](crate::Limit::exempt) or no limit was put around them.
impl<S: Send + Sync> OptionalFromRequestParts<S> for LimitDecision {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Infallible> {
        Ok(parts.extensions.get().cloned())
    }
}
