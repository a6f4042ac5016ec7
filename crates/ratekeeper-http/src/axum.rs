//! axum: the decision as an extractor, and what was spent as a part of a response.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use axum::response::{IntoResponseParts, ResponseParts};
use http::StatusCode;
use http::request::Parts;

use crate::limit::LimitDecision;
use crate::usage::Spent;

/// Extracts the decision of the innermost limit that [hands it over](crate::Limit::with_decision); 500 if none does.
impl<S: Send + Sync> FromRequestParts<S> for LimitDecision {
    type Rejection = (StatusCode, &'static str);

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        parts.extensions.get().cloned().ok_or((
            StatusCode::INTERNAL_SERVER_ERROR,
            "no limit has handed its decision over: put `limit.with_decision()` around this route",
        ))
    }
}

/// Extracts the decision, if there is one, in handlers that some requests reach without: because they are
/// [exempt](crate::Limit::exempt) or no limit was put around them.
impl<S: Send + Sync> OptionalFromRequestParts<S> for LimitDecision {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Infallible> {
        Ok(parts.extensions.get().cloned())
    }
}

/// Tells a limit that [holds](crate::Limit::hold) what was spent: `(Spent::tokens(42), "body")`.
impl IntoResponseParts for Spent {
    type Error = Infallible;

    fn into_response_parts(self, mut parts: ResponseParts) -> Result<ResponseParts, Infallible> {
        parts.extensions_mut().insert(self);
        Ok(parts)
    }
}
