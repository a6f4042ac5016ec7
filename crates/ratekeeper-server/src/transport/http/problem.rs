//! Errors as `application/problem+json`, with a code that programs can rely on.

use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use ratekeeper::keeper::KeeperError;
use ratekeeper::{StoreError, StoreErrorKind};
use serde::Serialize;

use super::reply::{HttpReply, reply};
use crate::one_line::{MOST_TOLD, one_line};
use crate::request::RequestError;
use crate::rls::{RlsError, RlsErrorKind};
use crate::secret::NotAdmin;

/// The longest name of a field, in characters: one that nobody knows may be anything.
const MOST_NAMED: usize = 64;

/// The title of problems with a field.
const INVALID_FIELD: &str = "A field is wrong or missing";

/// Why a request was not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    status: StatusCode,
    code: &'static str,
    title: &'static str,
    detail: String,
    field: Option<String>,
}

#[derive(Serialize)]
struct ProblemBody<'a> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    code: &'static str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
}

impl Problem {
    fn new(status: StatusCode, code: &'static str, title: &'static str, detail: impl Into<String>) -> Self {
        Problem { status, code, title, detail: one_line(detail.into(), MOST_TOLD), field: None }
    }

    pub(super) fn malformed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed_json", "The body is not JSON", detail)
    }

    pub(super) fn field(name: impl Into<String>, detail: impl Into<String>) -> Self {
        let problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_field", INVALID_FIELD, detail);
        Problem { field: Some(one_line(name.into(), MOST_NAMED)), ..problem }
    }

    pub(super) fn too_large(most: usize) -> Self {
        let detail = format!("at most {most} bytes are read");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", "The body is too large", detail)
    }

    pub(super) fn media_type(detail: &'static str) -> Self {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            "The body is not JSON",
            detail,
        )
    }

    pub(super) fn unauthorized() -> Self {
        let detail = "send `authorization: Bearer TOKEN`";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", "The token is wrong or missing", detail)
    }

    /// Returns the problem of a request that was sent here by a name that is not this server's.
    pub(super) fn wrong_host(host: &str) -> Self {
        let shown: String = host.chars().take(100).collect();
        let detail = format!(
            "host: `{shown}`; ask by an address or `localhost`, show the token, or start the server with \
             --allowed-hosts {shown}"
        );
        Self::new(StatusCode::MISDIRECTED_REQUEST, "wrong_host", "This is another server", detail)
    }

    /// Returns the problem of a request by a page of another site.
    pub(super) fn cross_site(origin: &str) -> Self {
        let shown: String = origin.chars().take(100).collect();
        let detail = format!(
            "origin: `{shown}`; a page of another site asks for this. If that is the name that this server has behind a \
             proxy, start it with --allowed-hosts and that name"
        );
        Self::new(StatusCode::FORBIDDEN, "cross_site", "Not for pages of other sites", detail)
    }

    /// Returns the problem of one watcher too many.
    pub(super) fn too_many_streams(most: usize) -> Self {
        let detail = format!("{most} streams are open (limit {most}): close one, or ask GET /v1/stats");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_streams", "Too many watch already", detail)
    }

    /// Returns the problem of a plan that is not there, or not followed by itself.
    pub(super) fn unknown_plan(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "unknown_plan", "There is no plan of that name", detail)
    }

    pub(super) fn not_found() -> Self {
        let detail = "GET /openapi.json tells what there is";
        Self::new(StatusCode::NOT_FOUND, "not_found", "There is nothing here", detail)
    }

    /// Returns the problem of a path that this listener does not have, though another may.
    pub(super) fn nothing_else() -> Self {
        let detail = "this listener has only what there is to look at; ask the one of HTTP";
        Self::new(StatusCode::NOT_FOUND, "not_found", "There is nothing here", detail)
    }

    /// Returns the problem of a request of Envoy without an answer.
    pub(super) fn rls(error: &RlsError) -> Self {
        match error {
            RlsError::Keeper(KeeperError::Store(error)) => Self::store(error),
            RlsError::NotLoaded => {
                let title = "There are no limits yet";
                Self::new(StatusCode::BAD_REQUEST, "not_loaded", title, error.to_string())
            }
            _ if error.kind() == RlsErrorKind::Request => {
                let title = "The request cannot be answered";
                Self::new(StatusCode::BAD_REQUEST, "invalid_request", title, error.to_string())
            }
            _ => {
                let title = "A limit cannot be applied";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "invalid_limit", title, error.to_string())
            }
        }
    }

    pub(super) fn method(allowed: &'static str) -> Self {
        let detail = format!("use {allowed}");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "Not with this method", detail)
    }

    pub(super) fn store(error: &StoreError) -> Self {
        // What no store can do was asked for by mistake.
        if error.kind() == StoreErrorKind::Unsupported {
            return Self::field("quota", error.to_string());
        }
        let title = "The store cannot decide";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", title, error.to_string())
    }

    pub(super) fn gone() -> Self {
        let detail = "id: of no hold of this key; it has ended, its lease has run out, or it never was";
        Self::new(StatusCode::GONE, "gone", "There is no such hold", detail)
    }

    /// Returns the problem of a mistake of this server: an answer of another kind than the request.
    #[cold]
    pub(super) fn internal() -> Self {
        let detail = "the answer does not fit the request";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "A mistake of this server", detail)
    }

    pub(super) fn draining() -> Self {
        let detail = "ask another instance; requests on open connections are still decided";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "draining", "The server is about to stop", detail)
    }

    /// Returns the reply that says so.
    pub(super) fn into_reply(self) -> HttpReply {
        let body = ProblemBody {
            r#type: "about:blank",
            title: self.title,
            status: self.status.as_u16(),
            code: self.code,
            detail: &self.detail,
            field: self.field.as_deref(),
        };
        // Nothing in it can fail to be JSON.
        let mut reply = reply(self.status, serde_json::to_vec(&body).unwrap_or_default());
        let headers = reply.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        match self.status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::SERVICE_UNAVAILABLE if self.code == "too_many_streams" => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
            }
            StatusCode::METHOD_NOT_ALLOWED => {
                let allowed = self.detail.trim_start_matches("use ");
                if let Ok(allowed) = HeaderValue::from_str(allowed) {
                    headers.insert(ALLOW, allowed);
                }
            }
            _ => {}
        }
        reply
    }
}

impl From<RequestError> for Problem {
    fn from(error: RequestError) -> Self {
        let (status, code, title) = match &error {
            RequestError::Missing(_) | RequestError::Invalid(..) => {
                (StatusCode::UNPROCESSABLE_ENTITY, "invalid_field", INVALID_FIELD)
            }
            RequestError::OutOfBounds(..) => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "quota_out_of_bounds",
                "The quota is beyond what this server takes from requests",
            ),
            RequestError::LogNotAllowed(_) => {
                (StatusCode::UNPROCESSABLE_ENTITY, "log_not_allowed", "A request may not bring a `log`")
            }
            RequestError::PlansOnly => {
                (StatusCode::FORBIDDEN, "plans_only", "This server takes no quotas from requests")
            }
            RequestError::NotAdmin(_, refusal) => {
                let (status, code) = match refusal {
                    NotAdmin::Unknown => (StatusCode::UNAUTHORIZED, "unauthorized"),
                    NotAdmin::Remote => (StatusCode::FORBIDDEN, "admin_disabled"),
                    NotAdmin::Forbidden => (StatusCode::FORBIDDEN, "admin_required"),
                };
                (status, code, "Only an administrator may do this")
            }
            RequestError::CannotForget(_) => {
                (StatusCode::NOT_IMPLEMENTED, "unsupported", "The store cannot find keys by prefix")
            }
            RequestError::Unsupported(_) => {
                (StatusCode::NOT_IMPLEMENTED, "unsupported", "The store has no debts or no holds")
            }
            RequestError::Keeper(KeeperError::Store(error)) => return Self::store(error),
            RequestError::Keeper(KeeperError::UnknownPlan { .. }) => {
                return Self::unknown_plan(error.to_string());
            }
            RequestError::Keeper(KeeperError::Key(_)) => return Self::field("key", error.to_string()),
            RequestError::Keeper(
                KeeperError::Amounts(_) | KeeperError::Lease(_) | KeeperError::HoldWithoutPlan,
            ) => (StatusCode::UNPROCESSABLE_ENTITY, "invalid_field", INVALID_FIELD),
            // The plans are wrong together, and not one of them.
            RequestError::Keeper(_) => return Self::field("plans", error.to_string()),
        };
        let problem = Self::new(status, code, title, error.to_string());
        Problem { field: error.field().map(|field| field.name().to_owned()), ..problem }
    }
}
