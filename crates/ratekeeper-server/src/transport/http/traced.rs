//! Requests that are traced: the names of their spans.

use http::{Method, Request};

use crate::otel::{RequestKind, TraceSpan, Tracer};
use crate::trace_parent::TraceParent;

/// Returns the span of a request, if it is traced. Probes, metrics, and the page of the console with its stream never are.
pub(super) fn begin<B>(tracer: &Tracer, request: &Request<B>) -> Option<TraceSpan> {
    let route = route(request.uri().path())?;
    let parent = request.headers().get(TraceParent::FIELD);
    let parent = parent.and_then(|value| TraceParent::parse(value.as_bytes()));
    tracer.begin(parent, RequestKind::Http { method: method(request.method()), route })
}

/// Returns the route of a path, with `{id}` for what differs: whoever asks for something else makes no new names.
fn route(path: &str) -> Option<&'static str> {
    const ROUTES: [&str; 17] = [
        "/throttle",
        "/v1/acquire",
        "/v1/peek",
        "/v1/refund",
        "/v1/debit",
        "/v1/holds",
        "/v1/reset",
        "/v1/forget",
        "/v1/plans",
        "/v1/stats",
        "/v1/history",
        "/v1/events",
        "/v1/try",
        "/json",
        "/v1/rls/explain",
        "/v1/rls/reset",
        "/v1/rls/config",
    ];
    if let Some(known) = ROUTES.into_iter().find(|route| *route == path) {
        return Some(known);
    }
    if let Some(key) = path.strip_prefix("/v1/keys/") {
        return (!key.is_empty()).then_some("/v1/keys/{key}");
    }
    match path.strip_prefix("/v1/holds/")?.split_once('/') {
        None => Some("/v1/holds/{id}"),
        Some((_, "settle")) => Some("/v1/holds/{id}/settle"),
        Some((_, "extend")) => Some("/v1/holds/{id}/extend"),
        Some(_) => None,
    }
}

fn method(method: &Method) -> &'static str {
    match *method {
        Method::POST => "POST",
        Method::GET => "GET",
        Method::DELETE => "DELETE",
        _ => "_OTHER",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_becomes_one_of_few_names() {
        assert_eq!(route("/v1/acquire"), Some("/v1/acquire"));
        assert_eq!(route("/v1/holds/0af7"), Some("/v1/holds/{id}"));
        assert_eq!(route("/v1/holds/0af7/settle"), Some("/v1/holds/{id}/settle"));
        assert_eq!(route("/v1/keys/user%3A42"), Some("/v1/keys/{key}"));
        for silent in [
            "/",
            "/v1/stats/stream",
            "/v1/keys/",
            "/health",
            "/ready",
            "/metrics",
            "/v1/holds/a/b",
            "/v1/acquire/",
            "/x",
        ] {
            assert_eq!(route(silent), None, "{silent}");
        }
        assert_eq!(method(&Method::from_bytes(b"MINE").unwrap()), "_OTHER");
    }
}
