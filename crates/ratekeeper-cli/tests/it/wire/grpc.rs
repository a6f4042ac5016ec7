//! gRPC: the health client of tonic, and an HTTP/2 client that can also misbehave. A stock client of the contract runs in
//! Python.

use std::net::{Shutdown, SocketAddr};

use bytes::Bytes;
use h2::client::SendRequest;
use http::{Request, StatusCode};
use prost::Message;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::wire::http::get;
use crate::wire::stop::is_cut_off;
use test_support::proto::{AcquireRequest, Decision};
use test_support::server::{PATIENCE, Raw, Server, until};

pub(crate) const THROTTLE: &str = "/throttlecrab.RateLimiter/Throttle";
/// Key "k", burst 2, one in 3600 seconds.
const TWO: &[u8] = b"\0\0\0\0\x0a\x0a\x01k\x10\x02\x18\x01\x20\x90\x1c";
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// `ratekeeper.v1`: the decision on a plan, or the status of a call that has none.
pub(crate) fn ruled(server: &Server, method: &str, key: &str, plan: &str) -> Result<Decision, String> {
    let (key, plans) = (key.to_owned(), vec![plan.to_owned()]);
    let request = AcquireRequest { key, plans, ..Default::default() };
    asked(server, method, &request).map(|answer| Decision::decode(answer).unwrap())
}

/// `ratekeeper.v1`: the answer to any request, or the status of a call that has none.
pub(crate) fn asked(server: &Server, method: &str, request: &impl Message) -> Result<Bytes, String> {
    asked_with(server, method, request, None)
}

/// The same, by the bearer of a token.
pub(crate) fn asked_with(
    server: &Server,
    method: &str,
    message: &impl Message,
    token: Option<&str>,
) -> Result<Bytes, String> {
    let bearer = token.map(|token| format!("Bearer {token}"));
    asked_with_fields(server, method, message, bearer.as_deref().map(|bearer| ("authorization", bearer)))
}

/// The same, with another field.
#[cfg(feature = "otel")]
pub(crate) fn asked_with_field(
    server: &Server,
    method: &str,
    message: &impl Message,
    field: (&'static str, &str),
) -> Result<Bytes, String> {
    asked_with_fields(server, method, message, Some(field))
}

fn asked_with_fields(
    server: &Server,
    method: &str,
    message: &impl Message,
    field: Option<(&'static str, &str)>,
) -> Result<Bytes, String> {
    let message = message.encode_to_vec();
    let prefix = u32::try_from(message.len()).unwrap().to_be_bytes();
    let message = Bytes::from([&[0], &prefix[..], &message].concat());
    let mut request = request(&format!("/ratekeeper.v1.RateLimiter/{method}"), "application/grpc");
    if let Some((name, value)) = field {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    let (_, status, answer) = block(async {
        let (response, mut stream) = connect(server).await.send_request(request, false).unwrap();
        stream.send_data(message, true).unwrap();
        answer(response).await
    });
    if status == "0" { Ok(answer) } else { Err(status) }
}

/// `throttlecrab`: whether a key may take one of three, or the status of a call that was not decided.
pub(crate) fn throttled(server: &Server, key: &str) -> Result<bool, String> {
    let len = u8::try_from(key.len()).unwrap();
    // Burst 3, one in 3600 seconds.
    let request = [&[0x0a, len], key.as_bytes(), b"\x10\x03\x18\x01\x20\x90\x1c"].concat();
    let message = [&[0, 0, 0, 0, len + 9], &request[..]].concat();
    let (_, status, answer) = block(async { call(&mut connect(server).await, THROTTLE, &message).await });
    // The first field, unless it is false, which is not written.
    if status == "0" { Ok(answer.starts_with(b"\x08\x01")) } else { Err(status) }
}

/// `throttlecrab`: the status of a call with this message, its prefix included.
pub(crate) fn throttle_status(server: &Server, message: &[u8]) -> String {
    block(async { call(&mut connect(server).await, THROTTLE, message).await.1 })
}

pub(crate) fn block<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, work).await.unwrap() })
}

pub(crate) async fn connect(server: &Server) -> SendRequest<Bytes> {
    connect_to(server.address("grpc")).await
}

pub(crate) async fn connect_to(address: SocketAddr) -> SendRequest<Bytes> {
    let socket = tokio::net::TcpStream::connect(address).await.unwrap();
    socket.set_nodelay(true).unwrap();
    let (send, connection) = h2::client::handshake(socket).await.unwrap();
    tokio::spawn(connection);
    send.ready().await.unwrap()
}

pub(crate) fn request(path: &str, kind: &str) -> Request<()> {
    let uri = format!("http://localhost{path}");
    Request::post(uri).header("content-type", kind).header("te", "trailers").body(()).unwrap()
}

/// HTTP status, gRPC status, and the message without its prefix.
pub(crate) async fn call(
    client: &mut SendRequest<Bytes>,
    path: &str,
    message: &[u8],
) -> (StatusCode, String, Bytes) {
    let (response, mut stream) = client.send_request(request(path, "application/grpc"), false).unwrap();
    stream.send_data(Bytes::copy_from_slice(message), true).unwrap();
    answer(response).await
}

async fn answer(response: h2::client::ResponseFuture) -> (StatusCode, String, Bytes) {
    let (head, mut body) = response.await.unwrap().into_parts();
    let mut message = Bytes::new();
    while let Some(data) = body.data().await {
        message = data.unwrap();
    }
    let trailers = body.trailers().await.unwrap().unwrap_or(head.headers);
    let status = trailers.get("grpc-status").map(|status| status.to_str().unwrap().to_owned());
    (head.status, status.unwrap_or_default(), message.slice(message.len().min(5)..))
}

#[test]
fn tonics_health_client() {
    let server = Server::start();
    block(async {
        let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{}", server.address("grpc")));
        let mut health = HealthClient::new(endpoint.unwrap().connect().await.unwrap());
        let whole = HealthCheckRequest::default();
        let told = health.check(whole.clone()).await.unwrap().into_inner();
        assert_eq!(told.status(), ServingStatus::Serving);
        let unknown = HealthCheckRequest { service: "nope".to_owned() };
        assert_eq!(health.check(unknown).await.unwrap_err().code(), tonic::Code::NotFound);
        let mut watch = health.watch(whole).await.unwrap().into_inner();
        assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
        server.signal("TERM");
        assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
        assert_eq!(watch.message().await.unwrap(), None, "a watch ends well");
    });
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn calls_are_counted_with_those_of_other_transports() {
    let server = Server::start();
    block(async {
        let mut client = connect(&server).await;
        let allowed = (StatusCode::OK, "0".to_owned());
        for (remaining, expected) in
            [(1, &b"\x08\x01\x10\x02\x18\x01\x28\x90\x1c"[..]), (0, b"\x08\x01\x10\x02\x28")]
        {
            let (http, grpc, message) = call(&mut client, THROTTLE, TWO).await;
            assert_eq!((http, grpc), allowed);
            assert!(message.starts_with(expected), "{remaining} left: {message:?}");
        }
        let (_, _, denied) = call(&mut client, THROTTLE, TWO).await;
        assert!(denied.starts_with(b"\x10\x02\x20"), "not allowed, and a time to wait: {denied:?}");
        let (_, status, _) = call(&mut client, THROTTLE, b"\0\0\0\0\0").await;
        assert_eq!(status, "3");
        let (_, status, _) = call(&mut client, "/no.Service/Method", TWO).await;
        assert_eq!(status, "12");
        let html = client.send_request(request(THROTTLE, "text/html"), true).unwrap().0.await.unwrap();
        assert_eq!(html.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
        // The same key, by another transport: one engine.
        assert!(server.ask("THROTTLE k 2 1 3600").starts_with("0 2 0 "));
        let page = get(&server, "/metrics").body;
        for (result, count) in [("allowed", 2), ("denied", 1), ("error", 2)] {
            let line =
                format!("ratekeeper_requests_total{{transport=\"grpc\",result=\"{result}\"}} {count}\n");
            assert!(page.contains(&line), "{line}{page}");
        }
        assert!(page.contains("ratekeeper_connections{transport=\"grpc\"} 1\n"), "{page}");
    });
}

#[test]
fn unfinished_calls_hold_up_nobody_and_there_is_an_end_of_them() {
    let server = Server::start();
    block(async {
        let mut client = connect(&server).await;
        let mut unfinished: Vec<_> = Vec::new();
        for _ in 0..127 {
            client = client.ready().await.unwrap();
            let (response, mut stream) =
                client.send_request(request(THROTTLE, "application/grpc"), false).unwrap();
            stream.send_data(Bytes::from_static(&TWO[..7]), false).unwrap();
            unfinished.push((response, stream));
        }
        assert_eq!(call(&mut client, THROTTLE, TWO).await.1, "0");
        let mut last = unfinished.pop().unwrap();
        last.1.send_data(Bytes::from_static(&TWO[7..]), true).unwrap();
        assert_eq!(answer(last.0).await.1, "0", "finished in pieces");
        assert_eq!(client.current_max_send_streams(), 128);
        // The client goes without a word.
        drop((client, unfinished));
    });
    assert_eq!(server.ask("PING"), "+PONG");
}

#[test]
fn a_call_that_is_not_finished_in_time_ends_and_its_connection_goes_on() {
    let server = Server::with(&["--request-timeout", "1"]);
    block(async {
        let mut client = connect(&server).await;
        let (response, mut stream) =
            client.send_request(request(THROTTLE, "application/grpc"), false).unwrap();
        stream.send_data(Bytes::from_static(&TWO[..7]), false).unwrap();
        assert_eq!(answer(response).await.1, "4", "the deadline has passed");
        assert_eq!(call(&mut client, THROTTLE, TWO).await.1, "0");
    });
    assert!(
        server.ask("THROTTLE k 2 1 3600").starts_with("1 2 0 "),
        "only the one that was finished was charged"
    );
}

#[test]
fn what_is_understood_and_what_is_not() {
    let server = Server::start();
    block(async {
        let mut client = connect(&server).await;
        for (kind, status) in [
            ("application/grpc", StatusCode::OK),
            ("application/grpc+proto", StatusCode::OK),
            ("Application/gRPC; charset=utf-8", StatusCode::OK),
            ("application/grpc+json", StatusCode::UNSUPPORTED_MEDIA_TYPE),
            ("application/grpc-web", StatusCode::UNSUPPORTED_MEDIA_TYPE),
            ("application/grpcx", StatusCode::UNSUPPORTED_MEDIA_TYPE),
        ] {
            let (response, mut stream) = client.send_request(request(THROTTLE, kind), false).unwrap();
            stream.send_data(Bytes::from_static(b"\0\0\0\0\0"), true).unwrap();
            assert_eq!(answer(response).await.0, status, "{kind}");
        }
        for (what, message, status) in [
            ("compressed", &b"\x01\0\0\0\0"[..], "12"),
            ("far too long", b"\0\xff\xff\xff\xff", "8"),
            ("no message", b"", "3"),
            ("two messages", &TWO.repeat(2), "3"),
            ("cut off", &TWO[..9], "3"),
            ("no text", b"\0\0\0\0\x09\x0a\x01\xff\x10\x02\x18\x01\x20\x3c", "3"),
            ("no protocol buffer", b"\0\0\0\0\x02\xff\xff", "3"),
        ] {
            assert_eq!(call(&mut client, THROTTLE, message).await.1, status, "{what}");
        }
        // Trailers of a client are not of interest, and end its request as well as anything.
        let (response, mut stream) =
            client.send_request(request(THROTTLE, "application/grpc"), false).unwrap();
        stream.send_data(Bytes::from_static(TWO), false).unwrap();
        let mut trailers = http::HeaderMap::new();
        trailers.insert("x", http::HeaderValue::from_static("y"));
        stream.send_trailers(trailers).unwrap();
        assert_eq!(answer(response).await.1, "0");
    });
    assert!(server.ask("THROTTLE k 2 1 3600").starts_with("1 2 0 "), "one was charged");
}

#[test]
fn a_call_in_flight_is_answered_before_the_server_leaves() {
    let server = Server::start();
    let answered = block(async {
        let mut client = connect(&server).await;
        let (response, mut stream) =
            client.send_request(request(THROTTLE, "application/grpc"), false).unwrap();
        stream.send_data(Bytes::from_static(&TWO[..7]), false).unwrap();
        // Answered on the same connection, so what was sent before it has been read.
        assert_eq!(call(&mut client, THROTTLE, TWO).await.1, "0");
        server.signal("TERM");
        server.await_log("stopping");
        stream.send_data(Bytes::from_static(&TWO[7..]), true)?;
        let (head, mut body) = response.await?.into_parts();
        assert_eq!(head.status, 200);
        while let Some(data) = body.data().await {
            data?;
        }
        body.trailers().await
    });
    let (status, log) = server.end();
    assert_eq!(status.code(), Some(0));
    match answered {
        Ok(trailers) => assert_eq!(trailers.unwrap()["grpc-status"], "0"),
        Err(error) => assert!(is_cut_off(&log), "{error} {log:?}"),
    }
}

#[test]
fn bytes_that_are_no_http2_end_their_connection_and_nothing_else() {
    let server = Server::start();
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..50 {
        let noise: Vec<u8> = (0..200)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                seed.to_be_bytes()[0]
            })
            .collect();
        let mut raw = Raw::connect(server.address("grpc"));
        let first = if round % 2 == 0 { PREFACE } else { b"" };
        // It may have closed before everything was sent.
        let _ = std::io::Write::write_all(&mut raw.0, &[first, &noise].concat());
        let _ = raw.0.shutdown(Shutdown::Write);
        let _ = std::io::Read::read_to_end(&mut raw.0, &mut Vec::new());
    }
    let mut raw = Raw::connect(server.address("grpc"));
    for byte in PREFACE {
        raw.send([*byte]);
    }
    raw.expect(b"\0");
    assert_eq!(block(async { call(&mut connect(&server).await, THROTTLE, TWO).await.1 }), "0");
    drop(raw);
    until("all are gone", || {
        get(&server, "/metrics").body.contains("ratekeeper_connections{transport=\"grpc\"} 0\n")
    });
}

#[test]
fn a_full_server_says_so() {
    let server = Server::with(&["--max-connections", "1"]);
    block(async {
        let mut first = connect(&server).await;
        assert_eq!(call(&mut first, THROTTLE, TWO).await.1, "0");
        let mut second = Raw::connect(server.address("grpc"));
        assert!(second.rest().ends_with("server full"));
    });
}

#[test]
fn silent_connections_are_closed() {
    let server = Server::with(&["--idle-timeout", "1"]);
    let mut raw = Raw::connect(server.address("grpc"));
    raw.send(PREFACE);
    let mut settings = Vec::new();
    // The server's settings, and then the end, possibly by a reset.
    if let Err(error) = std::io::Read::read_to_end(&mut raw.0, &mut settings) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "the connection stays open");
    }
    assert!(!settings.is_empty());
}
