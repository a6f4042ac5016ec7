//! Requests that are traced: the names of their spans.

use http::{Method, Request};

use crate::otel::{RequestKind, TraceSpan, Tracer};
use crate::trace_parent::TraceParent;

/// Returns the span of a request, if it is traced. Probes and metrics never are.
pub(super) fn begin<B>(tracer: &Tracer, request: &Request<B>) -> Option<TraceSpan> {
    let route = route(request.uri().path())?;
    let parent = request.headers().get(TraceParent::FIELD);
    let parent = parent.and_then(|value| TraceParent::parse(value.as_bytes()));
    tracer.begin(parent, RequestKind::Http { method: method(request.method()), route })
}

/// Returns the route of a path, with `{id}` for what differs: whoever asks for something else makes no new names.
fn route(path: &str) -> Option<&'static str> {
    const ROUTES: [&str; 11] = [
        "/throttle",
        "/v1/acquire",
        "/v1/peek",
        "/v1/refund",
        "/v1/debit",
        "/v1/holds",
        "/v1/reset",
        "/v1/forget",
        "/v1/plans",
        "/json",
        "/v1/rls/explain",
    ];
    let known = ROUTES.into_iter().find(|route| *route == path);
    known.or_else(|| match path.strip_prefix("/v1/holds/")?.split_once('/') {
        None => Some("/v1/holds/{id}"),
        Some((_, "settle")) => Some("/v1/holds/{id}/settle"),
        Some((_, "extend")) => Some("/v1/holds/{id}/extend"),
        Some(_) => None,
    })
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
        for silent in ["/", "/health", "/ready", "/metrics", "/v1/holds/a/b", "/v1/acquire/", "/x"] {
            assert_eq!(route(silent), None, "{silent}");
        }
        assert_eq!(method(&Method::from_bytes(b"MINE").unwrap()), "_OTHER");
    }
}
