//! Answers to JSON, most of it written by hand because every request pays for it.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderValue, Response, StatusCode};
use ratekeeper::port::{HoldId, HoldOutcome};
use ratekeeper::{Decision, Reason, Ruling};
use ratekeeper_http::PolicyHeaders;
use ratekeeper_http::headers::{HeaderDialect, emit};

use super::reply_body::HttpReplyBody;
use crate::rule_row::{self, RuleRow};

/// A reply, and its body.
pub(super) type HttpReply = Response<HttpReplyBody>;

/// Returns a reply with a JSON body.
pub(super) fn reply(status: StatusCode, body: impl Into<Bytes>) -> HttpReply {
    let mut reply = Response::new(HttpReplyBody::whole(body));
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

    fn decision(&mut self, decision: &Decision) {
        self.bool("allowed", decision.allowed);
        self.number("limit", saturated(decision.limit));
        self.times(decision.remaining, Some(decision));
    }

    /// Writes what is left, and how long that takes to change.
    fn times(&mut self, remaining: u64, decision: Option<&Decision>) {
        self.number("remaining", saturated(remaining));
        let retry_after = decision.and_then(|decision| decision.retry_after);
        self.number("retry_after_ms", retry_after.map_or(-1, |wait| saturated(wait.ceil_millis())));
        let reset_after = decision.map_or(0, |decision| saturated(decision.reset_after.ceil_millis()));
        self.number("reset_after_ms", reset_after);
    }

    /// Writes what each rule says.
    fn rules<'a>(&mut self, rows: impl Iterator<Item = RuleRow<'a>>) {
        self.name("rules");
        self.0.push(b'[');
        for (index, RuleRow { plan, rule, unit, decision }) in rows.enumerate() {
            if index > 0 {
                self.0.push(b',');
            }
            let mut row = JsonObject::new();
            row.plain("plan", Some(plan));
            row.plain("rule", Some(rule));
            row.plain("unit", Some(unit));
            row.decision(decision);
            self.0.extend_from_slice(&row.end());
        }
        self.0.push(b']');
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
/// 429 if the request was to take something (`refuses`), and 200 if it was to look. `each` tells of every rule, too.
pub(super) fn ruled(ruling: &Ruling, refuses: bool, each: bool) -> HttpReply {
    let denied = refuses && !ruling.allowed;
    let status = if denied { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::OK };
    with_headers(reply(status, ruling_body(ruling, each).end()), ruling, denied)
}

/// Returns a ruling on a hold: 201 with the id that it is ended by, or 429.
pub(super) fn held(ruling: &Ruling, id: Option<HoldId>, each: bool) -> HttpReply {
    let id = id.map(|id| id.to_string());
    let mut body = ruling_body(ruling, each);
    body.plain("id", id.as_deref());
    let status = if ruling.allowed { StatusCode::CREATED } else { StatusCode::TOO_MANY_REQUESTS };
    let mut reply = with_headers(reply(status, body.end()), ruling, !ruling.allowed);
    // Digits and letters are always a value.
    if let Some(Ok(location)) = id.map(|id| HeaderValue::try_from(format!("/v1/holds/{id}"))) {
        reply.headers_mut().insert(LOCATION, location);
    }
    reply
}

/// Returns what has become of a hold.
pub(super) fn changed(outcome: &HoldOutcome, each: bool) -> HttpReply {
    let decision = outcome.standing.as_ref().map(|standing| &standing.decision);
    let mut body = JsonObject::new();
    body.plain("state", Some(outcome.state.as_str()));
    body.times(decision.map_or(0, |decision| decision.remaining), decision);
    if each {
        body.rules(rule_row::of_outcome(outcome));
    }
    reply(StatusCode::OK, body.end())
}

fn ruling_body(ruling: &Ruling, each: bool) -> JsonObject {
    let mut body = JsonObject::new();
    body.decision(ruling);
    body.plain("plan", ruling.plan().map(|plan| plan.name().as_str()));
    body.plain("rule", ruling.rule().map(|rule| rule.name().as_str()));
    body.plain("reason", Some(ruling.reason.as_str()));
    if each {
        body.rules(rule_row::of_ruling(ruling));
    }
    body
}

fn with_headers(mut reply: HttpReply, ruling: &Ruling, denied: bool) -> HttpReply {
    let fields = PolicyHeaders::of_rules(ruling.rules());
    // What remains is the least of all rules, which may be of another unit than the rule that binds.
    let each = ruling.each().filter(|_| fields.counts_units()).map(|(_, _, decision)| *decision);
    fields.write_each(reply.headers_mut(), HeaderDialect::Ietf, ruling, &each.collect::<Vec<_>>());
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
