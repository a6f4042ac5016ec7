//! Any text as the fields by which a request says who asks, for tests and for fuzzing.

use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::{HeaderValue, Method, Request};

use super::guard::{HostNames, check_host, check_origin};
use crate::net::Connection;
use crate::secret::bearer;
use crate::trace_parent::TraceParent;

/// A name that points to this machine because somebody else says so.
const ELSEWHERE: &str = "evil.example";

/// Reads lines as `traceparent`, `host`, `origin` and `authorization`.
///
/// # Panics
///
/// A page from elsewhere is let in, or a trace is not the one that was named.
pub(crate) fn exercise_fields(bytes: &[u8]) {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let [trace, host, origin, authorization] = std::array::from_fn(|_| lines.next().unwrap_or_default());
    check_trace(trace);
    let names = HostNames::new(["limits.example"], Some("api-1"));
    let (here, there) = (Connection::alone(), Connection::alone_from([192, 0, 2, 1].into()));
    let Some(request) = request(host, origin, authorization) else { return };
    let is_known = check_host(&names, &here, &request).is_ok();
    assert!(
        check_host(&names, &there, &request).is_ok(),
        "who comes from elsewhere is asked for a token instead"
    );
    if let Ok(text) = str::from_utf8(host) {
        assert!(!is_known || !text.trim_end_matches('.').ends_with(ELSEWHERE), "{text}");
        let elsewhere = format!("{text}.{ELSEWHERE}");
        if let Some(request) = self::request(elsewhere.as_bytes(), b"http://localhost:8080", b"") {
            assert!(check_host(&names, &here, &request).is_err(), "{elsewhere}");
        }
    }
    let is_own = check_origin(&names, &request, true).is_ok();
    let (origin, host) = (request.headers().get(ORIGIN), request.headers().get(HOST));
    if let (Some(origin), true) = (origin, is_own) {
        let origin = origin.to_str().unwrap_or("?");
        let authority = origin.split_once("://").map_or("?", |(_, authority)| authority);
        let is_asked = host.is_some_and(|host| host.as_bytes().eq_ignore_ascii_case(authority.as_bytes()));
        let name = authority.split(':').next().unwrap_or_default().to_ascii_lowercase();
        assert!(is_asked || ["limits.example", "api-1"].contains(&name.as_str()), "{origin}");
    }
    if let Some(token) = bearer(request.headers().get(AUTHORIZATION)) {
        assert!(authorization.trim_ascii_start().to_ascii_lowercase().starts_with(b"bearer "));
        assert!(authorization.trim_ascii().ends_with(token.trim_ascii()));
    }
}

fn request(host: &[u8], origin: &[u8], authorization: &[u8]) -> Option<Request<()>> {
    let mut request = Request::new(());
    *request.method_mut() = Method::POST;
    for (name, value) in [(HOST, host), (ORIGIN, origin), (AUTHORIZATION, authorization)] {
        if !value.is_empty() {
            request.headers_mut().insert(name, HeaderValue::from_bytes(value).ok()?);
        }
    }
    Some(request)
}

/// What is read is what is written, and nothing else is read.
fn check_trace(value: &[u8]) {
    let Some(parent) = TraceParent::parse(value) else { return };
    assert!(parent.trace != 0 && parent.span != 0);
    let written = format!("{:032x}-{:016x}", parent.trace, parent.span);
    assert_eq!(value.get(3..52), Some(written.as_bytes()));
    let again = format!("00-{written}-{:02x}", u8::from(parent.is_sampled));
    assert_eq!(TraceParent::parse(again.as_bytes()), Some(parent));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_as_they_are_sent() {
        exercise_fields(
            b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\nlocalhost:8080\nhttp://localhost:8080\nBearer sesame",
        );
        exercise_fields(
            b"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00-x\n[::1]:80\nnull\nbasic x",
        );
    }
}
