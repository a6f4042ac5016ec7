//! Answers: JSON, most of it written by hand because every request pays for it.

use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use ratekeeper::{Decision, Reason, Ruling};
use ratekeeper_http::PolicyHeaders;
use ratekeeper_http::headers::{HeaderDialect, emit};

/// What is sent back.
pub(super) type Reply = Response<Full<Bytes>>;

/// A JSON body.
pub(super) fn reply(status: StatusCode, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}

/// Writes the fields of an object.
struct Object(Vec<u8>);

impl Object {
    fn new() -> Self {
        Object(Vec::with_capacity(160))
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

    /// A text of characters that JSON need not escape, as names of rules and plans are.
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

/// `POST /throttle`: whole seconds, rounded up.
pub(super) fn throttled(decision: &Decision) -> Reply {
    let mut body = Object::new();
    body.bool("allowed", decision.allowed);
    body.number("limit", saturated(decision.limit));
    body.number("remaining", saturated(decision.remaining));
    body.number("reset_after", saturated(decision.reset_after.ceil_secs()));
    body.number("retry_after", decision.retry_after.map_or(-1, |wait| saturated(wait.ceil_secs())));
    reply(StatusCode::OK, body.end())
}

/// The decision with milliseconds, the rule that bound it, and the fields that say the same to an HTTP client.
pub(super) fn ruled(ruling: &Ruling, refuses: bool) -> Reply {
    let mut body = Object::new();
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
            // Where waiting cannot help, nobody is told to wait.
            None if ruling.reason == Reason::NeverFits => {}
            // Nobody knows for how long the store cannot decide, or has no room: to come back soon is no mistake.
            None => emit::write_retry_after(reply.headers_mut(), Duration::ZERO),
        }
    }
    reply
}
