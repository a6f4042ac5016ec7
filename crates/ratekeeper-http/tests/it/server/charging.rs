//! Who is charged in the end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use axum::routing::{any, get};
use http::{HeaderMap, HeaderName};
use http_body::Frame;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use ratekeeper::{Keeper, MemoryStore, Plan, Registry, TokioClock};
use ratekeeper_http::headers::HeaderDialect;
use ratekeeper_http::{ChargePolicy, Estimate, Limit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tower::ServiceExt;
use tower_layer::Layer;

use crate::server::support;

fn limit(charge: ChargePolicy) -> Limit {
    Limit::new("login", "5/h".parse().unwrap()).charge(charge)
}

async fn remaining(limit: &Limit) -> u64 {
    limit.gate().statistics(b"__global__").await.unwrap().rate.unwrap().remaining
}

fn app(limit: &Limit) -> Router {
    Router::new()
        .route("/right", get(|| async { "welcome" }))
        .route("/wrong", get(|| async { StatusCode::UNAUTHORIZED }))
        .route("/never", get(std::future::pending::<()>))
        .layer(limit.layer())
}

fn request(path: &str) -> http::Request<Body> {
    http::Request::get(path).body(Body::empty()).unwrap()
}

#[tokio::test]
async fn on_failure() {
    let limit = limit(ChargePolicy::OnFailure);
    let app = app(&limit);
    for _ in 0..10 {
        let response = app.clone().oneshot(request("/right")).await.unwrap();
        assert_eq!(response.headers()["ratelimit"], r#""login";r=5"#, "told what is left in the end");
    }
    assert_eq!(remaining(&limit).await, 5);
    for left in (0..5).rev() {
        assert_eq!(app.clone().oneshot(request("/wrong")).await.unwrap().status(), 401);
        assert_eq!(remaining(&limit).await, left);
    }
    assert_eq!(app.clone().oneshot(request("/right")).await.unwrap().status(), 429);
}

#[tokio::test]
async fn on_completion() {
    let limit = limit(ChargePolicy::OnCompletion);
    let app = app(&limit);
    let response = app.clone().oneshot(request("/right")).await.unwrap();
    axum::body::to_bytes(response.into_body(), 100).await.unwrap();
    assert_eq!(remaining(&limit).await, 4, "answered to the end");
    drop(app.clone().oneshot(request("/right")).await.unwrap());
    assert_eq!(remaining(&limit).await, 4, "hung up before the body was read");
    let abandoned = tokio::spawn(app.clone().oneshot(request("/never")));
    tokio::task::yield_now().await;
    assert_eq!(remaining(&limit).await, 3, "taken while it is served");
    abandoned.abort();
    assert!(abandoned.await.unwrap_err().is_cancelled());
    assert_eq!(remaining(&limit).await, 4, "given back");
}

/// Only the requests were given back, which a plan that counts bytes refused: every success was charged.
#[tokio::test(start_paused = true)]
async fn what_is_given_back_is_given_back_of_every_unit() {
    for (charge, is_estimated) in [
        (ChargePolicy::OnFailure, false),
        (ChargePolicy::OnFailure, true),
        (ChargePolicy::OnCompletion, false),
    ] {
        let plan = Plan::parse("up", "60/m bucket; 1000 bytes/m bucket").unwrap();
        let store = MemoryStore::builder().clock(TokioClock).build();
        let keeper = Keeper::new(store, Registry::new([plan]));
        let left = async || {
            let ruling = keeper.peek("__global__", "up", &[("requests", 0), ("bytes", 0)]).await.unwrap();
            ruling.each().map(|(_, _, decision)| decision.remaining).collect::<Vec<_>>()
        };
        let mut limit = Limit::over(keeper.clone(), "up".parse().unwrap()).charge(charge);
        if !is_estimated {
            limit = limit.cost_of("bytes", |_| 100);
        }
        let app = Router::new()
            .route("/right", get(|| async { "welcome" }))
            .route("/wrong", get(|| async { StatusCode::UNAUTHORIZED }))
            .layer(limit);
        let call = async |path: &str| {
            let mut request = request(path);
            if is_estimated {
                request.extensions_mut().insert(Estimate::of("bytes", 100).and("requests", 2));
            }
            app.clone().oneshot(request).await.unwrap()
        };
        for _ in 0..3 {
            // Hung up before the body was read.
            drop(call("/right").await);
            assert_eq!(left().await, [60, 1000], "{charge:?}");
        }
        let read = call("/wrong").await.into_body().collect().await.unwrap();
        assert!(read.to_bytes().is_empty());
        assert_eq!(left().await, [if is_estimated { 58 } else { 59 }, 900], "{charge:?}");
    }
}

/// What each rule had said before was told after it, too.
#[tokio::test(start_paused = true)]
async fn after_a_refund_the_fields_tell_what_is_left_then() {
    let plan = Plan::parse("up", "60/m bucket; 1000 bytes/m bucket").unwrap();
    let store = MemoryStore::builder().clock(TokioClock).build();
    let limit = Limit::of(plan)
        .store(store)
        .cost_of("bytes", |_| 100)
        .charge(ChargePolicy::OnFailure)
        .dialect(HeaderDialect::IetfAndPerUnit);
    let app = Router::new()
        .route("/right", get(|| async { "welcome" }))
        .route("/wrong", get(|| async { StatusCode::UNAUTHORIZED }))
        .layer(limit);
    let wrong = app.clone().oneshot(request("/wrong")).await.unwrap();
    assert_eq!(wrong.headers()["ratelimit"], r#""per-m";r=59;t=1, "bytes-per-m";r=900;t=1"#);
    let right = app.oneshot(request("/right")).await.unwrap();
    assert_eq!(right.headers()["ratelimit"], r#""per-m";r=59;t=1"#, "of the rule that binds");
    assert_eq!(right.headers()["x-ratelimit-remaining-requests"], "59");
    assert!(!right.headers().contains_key("x-ratelimit-remaining-bytes"), "nobody says it");
}

/// Nobody knows that it succeeded. (It was given back: who hung up on wrong guesses guessed for free.)
#[tokio::test]
async fn on_failure_charges_whoever_hangs_up() {
    let limit = limit(ChargePolicy::OnFailure);
    let app = app(&limit);
    let abandoned = tokio::spawn(app.clone().oneshot(request("/never")));
    tokio::task::yield_now().await;
    abandoned.abort();
    assert!(abandoned.await.unwrap_err().is_cancelled());
    assert_eq!(remaining(&limit).await, 4);
    let panics = Router::new().route("/", get(panicking)).layer(limit.layer());
    let panicked = tokio::spawn(panics.oneshot(request("/")));
    assert!(panicked.await.unwrap_err().is_panic());
    assert_eq!(remaining(&limit).await, 3);
}

async fn panicking() -> &'static str {
    panic!("on purpose")
}

/// A gRPC call tells after its body how it ended; only the headers were looked at.
#[tokio::test]
async fn on_failure_reads_the_trailers_of_grpc() {
    let limit = limit(ChargePolicy::OnFailure);
    let call = async |status: &'static str, reads: bool| {
        let service = tower::service_fn(move |_: http::Request<Body>| async move {
            let trailers =
                HeaderMap::from_iter([(HeaderName::from_static("grpc-status"), status.parse().unwrap())]);
            let body =
                Full::new(Bytes::from_static(b"message")).with_trailers(async move { Some(Ok(trailers)) });
            let response = http::Response::builder().header("content-type", "application/grpc").body(body);
            Ok::<_, Infallible>(response.unwrap())
        });
        let response = limit.layer().layer(service).oneshot(request("/")).await.unwrap();
        if reads {
            response.into_body().collect().await.unwrap();
        }
    };
    call("0", true).await;
    assert_eq!(remaining(&limit).await, 5, "a success");
    call("16", true).await;
    assert_eq!(remaining(&limit).await, 4, "unauthenticated");
    call("0", false).await;
    assert_eq!(remaining(&limit).await, 3, "hung up before it was told");
}

/// The trailers of gRPC-web are in its body, where nobody looks for them: it waited for others, which never come, and
/// charged every success.
#[tokio::test]
async fn on_failure_expects_no_trailers_of_grpc_web() {
    for content_type in ["application/grpc-web", "application/grpc-web+proto", "application/grpc-web-text"] {
        let limit = limit(ChargePolicy::OnFailure);
        let call = async |status: Option<&'static str>| {
            let service = tower::service_fn(move |_: http::Request<Body>| async move {
                let response = http::Response::builder().header("content-type", content_type);
                let response =
                    status.into_iter().fold(response, |it, status| it.header("grpc-status", status));
                let body = Full::new(Bytes::from_static(b"\x80\0\0\0\x0fgrpc-status:0\r\n"));
                Ok::<_, Infallible>(response.body(body).unwrap())
            });
            let response = limit.layer().layer(service).oneshot(request("/")).await.unwrap();
            response.into_body().collect().await.unwrap();
        };
        call(None).await;
        assert_eq!(remaining(&limit).await, 5, "{content_type}: a success");
        call(Some("0")).await;
        assert_eq!(remaining(&limit).await, 5, "{content_type}: a success that says so");
        call(Some("16")).await;
        assert_eq!(remaining(&limit).await, 4, "{content_type}: unauthenticated");
    }
}

/// A body that never says that it has ended, as that of a file that is streamed.
struct Endless(Option<Bytes>);

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.take().map_or(Poll::Pending, |chunk| Poll::Ready(Some(Ok(Frame::data(chunk)))))
    }
}

/// Nobody knows that a stream without a length has ended before it says so.
#[tokio::test]
async fn on_completion_a_stream_without_a_length_is_complete_when_its_end_is_read() {
    let limit = limit(ChargePolicy::OnCompletion);
    let stream =
        || async { Body::from_stream(futures_util::stream::iter([Ok::<_, Infallible>("all of it")])) };
    let app = Router::new().route("/", get(stream)).layer(limit.layer());
    let answer = async || app.clone().oneshot(request("/")).await.unwrap().into_body();
    let mut body = answer().await;
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "all of it");
    drop(body);
    assert_eq!(remaining(&limit).await, 5, "hung up before the end was read");
    let mut body = answer().await;
    assert!(body.frame().await.is_some());
    assert!(body.frame().await.is_none());
    assert_eq!(remaining(&limit).await, 4, "complete");
}

/// Servers do not poll the body of a response that has none, nor one whose last byte they have. `HEAD` was free: 20 of
/// 20 passed `3/h`.
#[tokio::test]
async fn on_completion_charges_what_is_not_polled_to_its_end() {
    let endless = |length: &'static str, chunk: &'static str| async move {
        ([("content-length", length)], Body::new(Endless(Some(Bytes::from_static(chunk.as_bytes())))))
    };
    let app = |limit: &Limit| {
        Router::new()
            .route("/", any(|| async { "hello" }))
            .route("/no-content", any(|| async { StatusCode::NO_CONTENT }))
            .route("/not-modified", any(|| async { (StatusCode::NOT_MODIFIED, Body::new(Endless(None))) }))
            .route("/empty", any(|| async { Body::empty() }))
            .route("/length", any(move || endless("5", "hello")))
            .route("/no-length", any(move || endless("0", "")))
            .route("/upgrade", any(|| async { (StatusCode::SWITCHING_PROTOCOLS, [("upgrade", "chat")]) }))
            .layer(limit.layer())
    };
    for request in [
        "HEAD /",
        "HEAD /length",
        "GET /",
        "GET /no-content",
        "GET /not-modified",
        "GET /empty",
        "GET /length",
        "GET /no-length",
        "GET /upgrade",
    ] {
        let limit = Limit::new("api", "3/h".parse().unwrap()).charge(ChargePolicy::OnCompletion);
        let address = support::serve(app(&limit)).await;
        let mut passed = 0;
        for _ in 0..20 {
            passed += u32::from(!exchange(address, request).await.starts_with("HTTP/1.1 429 "));
        }
        assert_eq!(passed, 3, "{request}");
    }
}

/// One request on a connection of its own; its answer, once the server has closed it or given it to another protocol.
async fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let upgrades = request.ends_with("upgrade");
    let connection = if upgrades { "upgrade" } else { "close" };
    let text =
        format!("{request} HTTP/1.1\r\nhost: localhost\r\nconnection: {connection}\r\nupgrade: chat\r\n\r\n");
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let is_head = |answer: &[u8]| answer.windows(4).any(|bytes| bytes == b"\r\n\r\n");
    while !(upgrades && is_head(&answer)) && stream.read_buf(&mut answer).await.unwrap() > 0 {}
    String::from_utf8(answer).unwrap()
}
