//! Answers to JSON, most of it written by hand because every request pays for it.

use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use ratekeeper::{Decision, Reason, Ruling};
use ratekeeper_http::PolicyHeaders;
use ratekeeper_http::headers::{HeaderDialect, emit};

/// A reply with a body that is already there.
pub(super) type HttpReply = Response<Full<Bytes>>;

/// Returns a reply with a JSON body.
pub(super) fn reply(status: StatusCode, body: impl Into<Bytes>) -> HttpReply {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}

/// Writes the fields of a JSON object.
struct JsonObject(Vec<u8>);

impl JsonObject {
    fn new() -> Self {
        JsonObject(Vec::with_capacity(160))
    }

    fn name(&mut self, name: &str) {
        self.0.push(if self.0.is_empty() { b'{' } else { b',' });
        self.0.push(b'"');
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b"\":");
    }

    fn number(&mut self, name: &str, value: i64) {
        self.name(name);
        self.0.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }

    fn bool(&mut self, name: &str, value: bool) {
        self.name(name);
        self.0.extend_from_slice(if value { b"true" } else { b"false" });
    }

    /// Writes a text that needs no escapes in JSON, as names of rules and plans do not.
    fn plain(&mut self, name: &str, value: Option<&str>) {
        self.name(name);
        match value {
            Some(value) => {
                self.0.push(b'"');
                self.0.extend_from_slice(value.as_bytes());
                self.0.push(b'"');
            }
            None => self.0.extend_from_slice(b"null"),
        }
    }

    fn end(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }
}

fn saturated(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Returns the reply to `POST /throttle`: whole seconds, rounded up.
pub(super) fn throttled(decision: &Decision) -> HttpReply {
    let mut body = JsonObject::new();
    body.bool("allowed", decision.allowed);
    body.number("limit", saturated(decision.limit));
    body.number("remaining", saturated(decision.remaining));
    body.number("reset_after", saturated(decision.reset_after.ceil_secs()));
    body.number("retry_after", decision.retry_after.map_or(-1, |wait| saturated(wait.ceil_secs())));
    reply(StatusCode::OK, body.end())
}

/// Returns a ruling with milliseconds and the rule that bound it, and the header fields that say the same. A denial is
/// 429 if the request was to take something (`refuses`), and 200 if it was to look.
pub(super) fn ruled(ruling: &Ruling, refuses: bool) -> HttpReply {
    let mut body = JsonObject::new();
    body.bool("allowed", ruling.allowed);
    body.number("limit", saturated(ruling.limit));
    body.number("remaining", saturated(ruling.remaining));
    body.number("retry_after_ms", ruling.retry_after.map_or(-1, |wait| saturated(wait.ceil_millis())));
    body.number("reset_after_ms", saturated(ruling.reset_after.ceil_millis()));
    body.plain("plan", ruling.plan().map(|plan| plan.name().as_str()));
    body.plain("rule", ruling.rule().map(|rule| rule.name().as_str()));
    body.plain("reason", Some(ruling.reason.as_str()));
    let denied = refuses && !ruling.allowed;
    let status = if denied { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::OK };
    let mut reply = reply(status, body.end());
    PolicyHeaders::of_rules(ruling.rules()).write(reply.headers_mut(), HeaderDialect::Ietf, ruling);
    if denied {
        match ruling.retry_after {
            Some(wait) => emit::write_retry_after(reply.headers_mut(), wait.as_duration()),
            // Waiting cannot help, so the client is not told to wait.
            None if ruling.reason == Reason::NeverFits => {}
            // Nobody knows how long the store cannot decide, or has no room: coming back soon is right.
            None => emit::write_retry_after(reply.headers_mut(), Duration::ZERO),
        }
    }
    reply
}

/// Returns how many states were forgotten.
pub(super) fn forgotten(count: u64) -> HttpReply {
    reply(StatusCode::OK, format!("{{\"forgotten\":{count}}}"))
}
