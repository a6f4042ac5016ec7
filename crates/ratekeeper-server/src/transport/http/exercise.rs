//! Any bytes as a client of HTTP might send them, for tests and for fuzzing.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use ratekeeper::testkit::fuzz::check_message;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::context::HttpTransport;
use super::guard::HostNames;
use super::reply::HttpReply;
use super::reply_body::HttpReplyBody;
use super::{route, transport};
use crate::console::{Console, ConsoleAbout};
use crate::engine::{fuzz_engine, fuzz_tokens};
use crate::net::Connection;
use crate::stream::{in_runtime, pieces};

/// Tokens are asked for.
const NEEDS_TOKENS: u8 = 1;
/// The client is on another machine.
const IS_REMOTE: u8 = 2;
/// It asks the listener for those who look at the service of Envoy, or that for Prometheus.
const IS_DEBUG: u8 = 4;
const IS_PROMETHEUS: u8 = 8;

/// Paths whose answers tell of time, of memory, or of something chosen by chance.
const UNSTEADY: [&str; 9] =
    ["metrics", "stats", "history", "events", "keys", "try", "v1/holds", "plans", "rlconfig"];

/// What is asked for by a body, or behind the `?`: the head of a request up to where the input goes.
const ROUTES: [&str; 20] = [
    "POST /throttle",
    "POST /v1/acquire",
    "POST /v1/peek",
    "POST /v1/refund",
    "POST /v1/debit",
    "POST /v1/holds",
    "POST /v1/reset",
    "POST /v1/forget",
    "POST /v1/try",
    "POST /json",
    "POST /v1/rls/explain",
    "POST /v1/rls/reset",
    "POST /v1/holds/00000000000000000000000000000001/settle",
    "POST /v1/holds/00000000000000000000000000000001/extend",
    "DELETE /v1/holds/00000000000000000000000000000001?",
    "GET /v1/history?",
    "GET /v1/events?",
    "GET /v1/keys/",
    "DELETE /v1/keys/",
    "GET /v1/keys/?",
];

/// Has a client send these bytes, whole and in pieces: a byte of flags, four that tell how long the pieces are, and the stream.
///
/// # Panics
///
/// The answers depend on the pieces, or an error is not one short line.
pub(crate) fn exercise(bytes: &[u8]) {
    let (flags, bytes) = bytes.split_first().unwrap_or((&0, &[]));
    let (pieces, stream) = pieces(bytes);
    let cut = answers(*flags, pieces.map(Bytes::copy_from_slice).collect());
    let whole = answers(*flags, vec![Bytes::copy_from_slice(stream)]);
    if let Some(difference) = difference(&cut, &whole) {
        panic!("answers depend on how bytes come: {difference}");
    }
}

/// Says how answers to bytes that came in pieces differ from those to the same bytes as a whole, where they must not.
fn difference(cut: &[Answered], whole: &[Answered]) -> Option<String> {
    let shared = cut.len().min(whole.len());
    // Where a request is answered before its body has come, the connection ends: what was sent behind it is not answered.
    let is_excused = shared > 0 && whole[shared - 1].to_body;
    if cut.len() != whole.len() && !is_excused {
        return Some(format!("{} answers in pieces, and {} as a whole", cut.len(), whole.len()));
    }
    let (cut, whole) = (&cut[..shared], &whole[..shared]);
    let statuses = |answers: &[Answered]| answers.iter().map(|answer| answer.status).collect::<Vec<u16>>();
    let is_steady = whole.iter().all(|answer| answer.is_steady);
    let is_same = if is_steady { cut == whole } else { statuses(cut) == statuses(whole) };
    (!is_same).then(|| format!("{cut:?} in pieces, and {whole:?} as a whole"))
}

/// Sends what follows the first byte to the route that this byte names: as its body, or behind its `?`.
///
/// # Panics
///
/// An error is not one short line, or the server says that it is its own fault.
pub(crate) fn exercise_body(bytes: &[u8]) {
    let (route, rest) = bytes.split_first().unwrap_or((&0, &[]));
    let route = ROUTES[usize::from(*route) % ROUTES.len()];
    let request = match route.starts_with("POST") {
        true => {
            let head = format!(
                "{route} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                rest.len()
            );
            [head.as_bytes(), rest].concat()
        }
        // What cannot stand in a line of a request never gets here.
        false => [route.as_bytes(), rest, b" HTTP/1.1\r\nhost: localhost\r\n\r\n"].concat(),
    };
    let answered = answers(0, vec![request.into()]);
    assert!(answered.len() <= 1 || !route.starts_with("POST"), "one answer to one request");
    assert!(!route.starts_with("POST") || answered.len() == 1, "an answer to every request");
}

/// What was answered to one request.
#[derive(Debug, PartialEq, Eq)]
struct Answered {
    status: u16,
    body: Bytes,
    /// The request has a body.
    to_body: bool,
    /// The path is none whose answers differ from time to time.
    is_steady: bool,
}

/// Returns the answers to requests that come in these pieces.
fn answers(flags: u8, pieces: Vec<Bytes>) -> Vec<Answered> {
    let (engine, tokens) = (fuzz_engine(), fuzz_tokens(flags & NEEDS_TOKENS != 0));
    let http = match (flags & IS_DEBUG != 0, flags & IS_PROMETHEUS != 0) {
        (true, _) => HttpTransport::for_debug(engine, tokens),
        (_, true) => HttpTransport::for_prometheus(engine, tokens, "/metrics".to_owned()),
        _ => {
            let console = Console::new(Arc::clone(&engine), ConsoleAbout::default());
            HttpTransport::new(engine, tokens, console)
        }
    };
    let http = http.known_as(HostNames::new(["limits.example"], Some("api-1")));
    let peer = if flags & IS_REMOTE != 0 { [192, 0, 2, 1] } else { [127, 0, 0, 1] };
    let connection = Connection::alone_from(peer.into());
    let answered = Mutex::new(Vec::new());
    let service = service_fn(|request: Request<Incoming>| {
        let (http, connection, answered) = (&http, &connection, &answered);
        let to_body = !request.body().is_end_stream();
        let is_steady = !UNSTEADY.iter().any(|word| request.uri().path().contains(*word));
        async move {
            let reply = route::answer(http, connection, request).await;
            let (reply, status, body) = seen(reply).await;
            let noted = Answered { status, body, to_body, is_steady };
            answered.lock().unwrap_or_else(PoisonError::into_inner).push(noted);
            Ok::<_, Infallible>(reply)
        }
    });
    let mut builder = transport::builder();
    // It tells the time.
    builder.auto_date_header(false);
    let client = MemoryClient { pieces: pieces.into_iter(), unread: Bytes::new() };
    // Whatever goes wrong, the client has gone.
    in_runtime(async { drop(builder.serve_connection(TokioIo::new(client), service).await) });
    answered.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Checks a reply, and returns it with its status and its body. One that has no end ends here.
async fn seen(reply: HttpReply) -> (HttpReply, u16, Bytes) {
    let (head, body) = reply.into_parts();
    let body = match body {
        HttpReplyBody::Messages(_) => Bytes::new(),
        body => {
            let Ok(body) = body.collect().await;
            body.to_bytes()
        }
    };
    let status = head.status.as_u16();
    check(status, &head.headers, &body);
    (Response::from_parts(head, HttpReplyBody::whole(body.clone())), status, body)
}

/// An answer is what its head says, and an error one short line.
fn check(status: u16, headers: &HeaderMap, body: &[u8]) {
    let kind = headers.get(CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
    if kind.ends_with(b"json") {
        let Ok(value) = serde_json::from_slice::<Value>(body) else {
            panic!("{status}, which is no JSON: {}", body.escape_ascii())
        };
        if kind == b"application/problem+json" {
            check_message(value["detail"].as_str().unwrap_or_default());
            // A field may have no name.
            if let Some(field) = value["field"].as_str().filter(|field| !field.is_empty()) {
                check_message(field);
            }
            assert!(status >= 400 && value["status"] == status, "{status}: {value}");
        }
    }
    assert_ne!(status, 500, "{}", body.escape_ascii());
}

/// A client that sends pieces, and takes whatever it is sent.
struct MemoryClient {
    pieces: std::vec::IntoIter<Bytes>,
    unread: Bytes,
}

impl AsyncRead for MemoryClient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.unread.is_empty() {
            self.unread = self.pieces.next().unwrap_or_default();
        }
        let len = self.unread.len().min(room.remaining());
        room.put_slice(&self.unread.split_to(len));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for MemoryClient {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statuses(flags: u8, stream: &str) -> Vec<u16> {
        let answered = answers(flags, vec![Bytes::copy_from_slice(stream.as_bytes())]);
        answered.iter().map(|answer| answer.status).collect()
    }

    /// The seeds are worth something only if they get somewhere.
    #[test]
    fn a_session_is_answered_by_the_routes() {
        let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let paths =
            ["/health", "/metrics", "/v1/stats", "/v1/stats/stream", "/v1/history", "/v1/keys/k", "/none"];
        let stream: String = paths.iter().map(|path| get(path)).collect();
        assert_eq!(statuses(0, &stream), [200, 200, 200, 200, 200, 200, 404]);
        assert_eq!(statuses(NEEDS_TOKENS, &stream), [200, 401, 401, 401, 401, 401, 401]);
        assert_eq!(statuses(IS_DEBUG, &get("/rlconfig")), [200]);
        assert_eq!(statuses(IS_PROMETHEUS, &get("/metrics")), [200]);
    }

    /// A connection that ended before all was answered passed, whatever the reason.
    #[test]
    fn an_answer_that_is_lost_is_found() {
        let answered = |status, to_body| Answered { status, body: Bytes::new(), to_body, is_steady: true };
        let is_same = |cut: &[Answered], whole: &[Answered]| difference(cut, whole).is_none();
        assert!(is_same(&[], &[]));
        assert!(!is_same(&[], &[answered(200, false)]));
        assert!(!is_same(&[answered(200, false)], &[answered(200, false), answered(200, false)]));
        assert!(is_same(&[answered(404, true)], &[answered(404, true), answered(200, false)]));
        assert!(!is_same(&[answered(200, false)], &[answered(404, false)]));
    }

    #[test]
    fn words_of_a_body_are_no_paths() {
        let request = |body: &str| {
            let head = "POST /throttle HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
            format!("{head}content-length: {}\r\n\r\n{body}", body.len())
        };
        let steady = |stream: &str| {
            let answered = answers(0, vec![Bytes::copy_from_slice(stream.as_bytes())]);
            answered.iter().map(|answer| (answer.to_body, answer.is_steady)).collect::<Vec<_>>()
        };
        assert_eq!(steady(&request("{\"key\":\"metrics\"}")), [(true, true)]);
        assert_eq!(steady("GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n"), [(false, false)]);
    }

    #[test]
    fn every_route_takes_its_body() {
        for (route, body, status) in [
            (0, r#"{"key":"k","max_burst":3,"count_per_period":1,"period":60}"#, 200),
            (5, r#"{"key":"k","plan":"held","costs":{"tokens":1}}"#, 201),
            (12, r#"{"key":"k","costs":{"tokens":1}}"#, 200),
            (13, r#"{"key":"k","lease_ms":1000}"#, 200),
        ] {
            let head = format!(
                "{} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                ROUTES[route],
                body.len()
            );
            assert_eq!(statuses(0, &[&head, body].concat()), [status], "{head}{body}");
            exercise_body(&[&[u8::try_from(route).unwrap()], body.as_bytes()].concat());
        }
        for route in 0..ROUTES.len() {
            exercise_body(&[u8::try_from(route).unwrap()]);
            exercise_body(&[&[u8::try_from(route).unwrap()], &b"key=k&each=true"[..]].concat());
        }
    }
}
