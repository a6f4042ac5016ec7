//! What goes wrong is said, and how to set it right.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use ratekeeper::{FailureMode, Plan, StoreErrorKind};
use ratekeeper_http::Limit;
use ratekeeper_http::key::{ClientIp, Header};
use test_support::fake_store::FakeStore;
use tower::ServiceExt;

use crate::server::support::{self, serve};

fn down() -> FakeStore {
    let store = FakeStore::new().later();
    store.fail(StoreErrorKind::Unreachable);
    store
}

fn app(limit: &Limit) -> Router {
    Router::new().route("/", get(|| async { "hello" })).layer(limit.layer())
}

#[tokio::test]
async fn a_missing_peer_says_how_to_set_it_right() {
    let limit = Limit::new("api", "2/h".parse().unwrap()).by(ClientIp::default());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = app(&limit);
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let answer = support::get(address, "/", &[]).await;
    assert_eq!(answer.status, 500);
    assert_eq!(answer.header("content-type"), "application/problem+json");
    let detail = answer.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("into_make_service_with_connect_info::<SocketAddr>()"), "{detail}");
}

/// Where a log goes that a test reads.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_mistake_of_set_up_is_logged() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    // For all threads: a subscriber of this thread alone misses a line that another thread tries to log first.
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let limit = Limit::new("logged", "2/h".parse().unwrap()).by(ClientIp::default());
    let response = app(&limit).oneshot(http::Request::new(Body::empty())).await.unwrap();
    assert_eq!(response.status(), 500);
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let line =
        text.lines().find(|line| line.contains("limit=\"logged\"")).unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains("ERROR") && line.contains("into_make_service_with_connect_info"), "{line}");
}

#[tokio::test]
async fn a_store_that_is_down_is_what_the_plan_says() {
    let status = async |mode| {
        let plan = Plan::parse("api", "10/h").unwrap().on_store_error(mode);
        let address = serve(app(&Limit::of(plan).store(down()))).await;
        let answer = support::get(address, "/", &[]).await;
        assert_eq!(answer.header("ratelimit").is_empty(), mode != FailureMode::Local, "{mode:?}");
        (answer.status, !answer.header("retry-after").is_empty(), answer.header("content-type").to_owned())
    };
    let text = "text/plain; charset=utf-8".to_owned();
    let problem = "application/problem+json".to_owned();
    assert_eq!(status(FailureMode::Open).await, (200, false, text.clone()));
    assert_eq!(status(FailureMode::Local).await, (200, false, text));
    assert_eq!(status(FailureMode::Closed).await, (429, true, problem.clone()));
    assert_eq!(status(FailureMode::Error).await, (503, true, problem));
}

#[tokio::test]
async fn a_missing_or_absurd_header_is_anonymous() {
    let address = serve(app(&Limit::new("api", "2/h".parse().unwrap()).by(Header::new("x-user")))).await;
    assert_eq!(support::get(address, "/", &[]).await.status, 200);
    let long = "u".repeat(16_000);
    assert_eq!(support::get(address, "/", &[("x-user", &long)]).await.status, 200);
    assert_eq!(support::get(address, "/", &[]).await.status, 429, "both were anonymous");
    assert_eq!(support::get(address, "/", &[("x-user", "ann")]).await.status, 200);
}

#[tokio::test]
async fn a_shadow_counts_and_refuses_nobody() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hear = Arc::clone(&heard);
    let limit = Limit::new("api", "1/h".parse().unwrap()).shadow().on_denied(move |denied| {
        hear.lock().unwrap().push((denied.limit.to_owned(), denied.key.to_vec(), denied.shadow));
    });
    let address = serve(app(&limit)).await;
    for _ in 0..3 {
        let answer = support::get(address, "/", &[]).await;
        assert_eq!((answer.status, answer.header("ratelimit")), (200, ""));
    }
    let expected = ("api".to_owned(), b"__global__".to_vec(), true);
    assert_eq!(*heard.lock().unwrap(), [expected.clone(), expected]);
}

#[tokio::test]
async fn on_denied_may_change_the_response_and_may_panic() {
    let limit = Limit::new("api", "1/h".parse().unwrap());
    let polite = limit.clone().on_denied(|denied| {
        *denied.response.status_mut() = http::StatusCode::IM_A_TEAPOT;
        *denied.response.body_mut() = denied.rule.as_bytes().to_vec();
    });
    let rude = limit.on_denied(|denied| {
        denied.response.body_mut().clear();
        panic!("on purpose");
    });
    let (polite, rude) = (serve(app(&polite)).await, serve(app(&rude)).await);
    assert_eq!(support::get(polite, "/", &[]).await.status, 200);
    let answer = support::get(polite, "/", &[]).await;
    assert_eq!((answer.status, &*answer.body), (418, &b"api"[..]));
    let answer = support::get(rude, "/", &[]).await;
    assert_eq!(answer.status, 429, "the same limit, and the usual response");
    assert_eq!(answer.json()["status"], 429);
}

/// The first of several was taken: who is behind the limit may have taken another one.
#[tokio::test]
async fn a_header_with_two_values_is_refused_unless_it_is_said_which_counts() {
    let limit = |by: Header| Limit::new("api", "2/h".parse().unwrap()).by(by);
    let two = [("x-user", "alice"), ("x-user", "bob")];
    let address = serve(app(&limit(Header::new("x-user")))).await;
    for _ in 0..5 {
        let refused = support::get(address, "/", &two).await;
        assert_eq!((refused.status, refused.header("content-type")), (400, "application/problem+json"));
        let why = refused.json()["detail"].as_str().unwrap().to_owned();
        assert_eq!(why, "header `x-user` is there more than once; send it once");
        let grpc = [two[0], two[1], ("content-type", "application/grpc")];
        assert_eq!(support::get(address, "/", &grpc).await.header("grpc-status"), "3");
    }
    for user in ["alice", "bob"] {
        let answer = support::get(address, "/", &[("x-user", user), ("x-user", user)]).await;
        assert_eq!((answer.status, answer.header("ratelimit")), (200, r#""api";r=1;t=1800"#), "{user}");
    }
    // Who says which one counts, counts that one; in shadow mode nobody is refused.
    for (by, counted) in [(Header::new("x-user").first(), "alice"), (Header::new("x-user").last(), "bob")] {
        let limit = limit(by);
        let address = serve(app(&limit)).await;
        assert_eq!(support::get(address, "/", &two).await.status, 200);
        for user in ["alice", "bob"] {
            let left = limit.gate().statistics(user.as_bytes()).await.unwrap().rate.unwrap().remaining;
            assert_eq!(left, if user == counted { 1 } else { 2 }, "{counted}: {user}");
        }
    }
    let address = serve(app(&limit(Header::new("x-user")).shadow())).await;
    assert_eq!(support::get(address, "/", &two).await.status, 200);
}
