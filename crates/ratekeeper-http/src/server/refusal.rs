//! Responses to requests that are not served: a problem as JSON, or a status of gRPC.

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use ratekeeper::Nanos;

use super::grpc::{GRPC_MESSAGE, GRPC_STATUS};
use crate::headers::emit;
use crate::limit::{Denied, LimitFailure, LimitRefusal, LimitSettings};
use crate::log;

/// The draft's type of problem for a quota that is used up.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

/// The statuses of gRPC that are sent.
const INVALID_ARGUMENT: HeaderValue = HeaderValue::from_static("3");
const INTERNAL: HeaderValue = HeaderValue::from_static("13");
const RESOURCE_EXHAUSTED: HeaderValue = HeaderValue::from_static("8");
const UNAVAILABLE: HeaderValue = HeaderValue::from_static("14");

/// Returns the response to a request that is refused.
pub(super) fn refused(settings: &LimitSettings, refusal: &LimitRefusal, is_grpc: bool) -> Response<Vec<u8>> {
    let mut response = denial(settings, refusal, is_grpc);
    if let Some(hear) = &settings.on_denied {
        let mut heard = denial(settings, refusal, is_grpc);
        let mut denied = Denied {
            limit: settings.name.as_str(),
            rule: refusal.rule.as_str(),
            key: &refusal.key,
            decision: refusal.decision,
            shadow: settings.shadow,
            response: &mut heard,
        };
        // Whatever it does, a panic included, changes no decision.
        match catch_unwind(AssertUnwindSafe(|| hear(&mut denied))) {
            Ok(()) => response = heard,
            Err(_) => log::error(settings.name.as_str(), &"on_denied panicked: the usual response was sent"),
        }
    }
    response
}

fn denial(settings: &LimitSettings, refusal: &LimitRefusal, is_grpc: bool) -> Response<Vec<u8>> {
    let decision = &refusal.decision;
    let mut response = if is_grpc {
        grpc(RESOURCE_EXHAUSTED, "the quota has been exceeded")
    } else if decision.reason.is_informed() {
        let title = "Request cannot be satisfied as assigned quota has been exceeded";
        let mut more = String::from(",\"violated-policies\":[");
        push_json(refusal.rule.as_str(), &mut more);
        more.push(']');
        problem(StatusCode::TOO_MANY_REQUESTS, QUOTA_EXCEEDED, title, &more)
    } else {
        // No quota was exceeded as far as anybody knows.
        let detail = detail(&format!("refused without knowing the state: {}", decision.reason.as_str()));
        problem(StatusCode::TOO_MANY_REQUESTS, "about:blank", "Too Many Requests", &detail)
    };
    let headers = response.headers_mut();
    for report in [&refusal.rate, &refusal.in_flight].into_iter().flatten() {
        report.write(headers, settings.dialect);
    }
    // When it passes is not known, or it never does: whoever comes back at once does so in vain.
    let wait = refusal.expected.unwrap_or_else(|| decision.reset_after.max(Nanos::from_secs(1)));
    emit::write_retry_after(headers, Nanos::as_duration(wait));
    if settings.dialect.per_unit() {
        emit::write_retry_after_ms(headers, Nanos::as_duration(wait));
    }
    response
}

/// Returns the response to a request that could not be decided. It is logged too, unless the request is at fault, of
/// which a client can send any number.
pub(super) fn failed(settings: &LimitSettings, failure: &LimitFailure, is_grpc: bool) -> Response<Vec<u8>> {
    let (is_transient, text) = match failure {
        LimitFailure::Key(error) => (false, error.to_string()),
        LimitFailure::Keeper(error) => (error.is_transient(), error.to_string()),
    };
    let (status, grpc_status, title) = if failure.is_of_request() {
        (StatusCode::BAD_REQUEST, INVALID_ARGUMENT, "The request does not tell whose it is")
    } else {
        log::error(settings.name.as_str(), &format_args!("request not decided: {text}"));
        match is_transient {
            true => {
                (StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE, "The rate limiter's store does not answer")
            }
            false => (StatusCode::INTERNAL_SERVER_ERROR, INTERNAL, "The rate limit is not set up"),
        }
    };
    let mut response = match is_grpc {
        true => grpc(grpc_status, &text),
        // What a store says of itself is for the log, not for strangers.
        false if is_transient => problem(status, "about:blank", title, ""),
        false => problem(status, "about:blank", title, &detail(&text)),
    };
    if is_transient {
        emit::write_retry_after(response.headers_mut(), Duration::from_secs(1));
    }
    response
}

fn problem(status: StatusCode, kind: &str, title: &str, more: &str) -> Response<Vec<u8>> {
    let mut body = String::with_capacity(256);
    // Writing to a string cannot fail.
    let _ =
        write!(body, "{{\"type\":\"{kind}\",\"title\":\"{title}\",\"status\":{}{more}}}", status.as_u16());
    let mut response = Response::new(body.into_bytes());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    response
}

fn detail(text: &str) -> String {
    let mut more = String::from(",\"detail\":");
    push_json(text, &mut more);
    more
}

/// Appends a JSON string.
fn push_json(text: &str, into: &mut String) {
    into.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => into.extend(['\\', character]),
            control if control < ' ' => {
                let _ = write!(into, "\\u{:04x}", u32::from(control));
            }
            other => into.push(other),
        }
    }
    into.push('"');
}

/// Returns a response of nothing but trailers, which gRPC allows to be headers.
fn grpc(status: HeaderValue, message: &str) -> Response<Vec<u8>> {
    let mut response = Response::new(Vec::new());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(GRPC_STATUS, status);
    // Percent-encoded, as gRPC wants whatever is not printable ASCII, and the percent sign itself.
    let mut encoded = String::with_capacity(message.len());
    for byte in message.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(char::from(byte)),
            _ => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    if let Ok(message) = HeaderValue::try_from(encoded) {
        headers.insert(GRPC_MESSAGE, message);
    }
    response
}
