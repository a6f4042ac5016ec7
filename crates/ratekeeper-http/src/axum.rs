//! axum: the decision as an extractor.

use axum::extract::FromRequestParts;
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
