//! The layer over a remote store, in paused time: every answer takes a while.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use axum::routing::get;
use ratekeeper::TokioClock;
use ratekeeper::{Keeper, MemoryStore, Plan, Registry};
use ratekeeper_http::{ChargePolicy, Limit};
use test_support::fake_store::FakeStore;
use tokio::time::Instant;
use tower::ServiceExt;

/// There and back.
const TRIP: Duration = Duration::from_millis(2);

fn remote() -> FakeStore {
    FakeStore::over(MemoryStore::builder().clock(TokioClock).build()).delays(TRIP, Duration::ZERO)
}

fn limit(quota: &str) -> Limit {
    Limit::new("api", quota.parse().unwrap()).store(remote())
}

fn app(limit: &Limit) -> Router {
    Router::new()
        .route("/", get(|| async { "hello" }))
        .route("/wrong", get(|| async { StatusCode::UNAUTHORIZED }))
        .layer(limit.layer())
}

fn request(path: &str) -> http::Request<Body> {
    http::Request::get(path).body(Body::empty()).unwrap()
}

async fn remaining(limit: &Limit) -> u64 {
    limit.gate().statistics(b"__global__").await.unwrap().rate.unwrap().remaining
}

#[tokio::test(start_paused = true)]
async fn clones_admit_exactly_the_quota() {
    let app = app(&limit("100/h"));
    let admitted = AtomicUsize::new(0);
    let requests = (0..1_000).map(|_| async {
        let response = app.clone().oneshot(request("/")).await.unwrap();
        admitted.fetch_add(usize::from(response.status() == 200), Ordering::Relaxed);
    });
    // All are on their way before the first is answered.
    let mut all: Vec<_> = requests.map(Box::pin).collect();
    let start = Instant::now();
    std::future::poll_fn(|context| {
        all.retain_mut(|one| one.as_mut().poll(context).is_pending());
        if all.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    assert_eq!(admitted.load(Ordering::Relaxed), 100);
    assert!(start.elapsed() < 2 * TRIP, "side by side, not one after another");
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_are_served_in_order() {
    let limit = limit("1/s burst 1").queue(10, Duration::from_secs(60));
    let app = app(&limit);
    let start = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..5 {
        tasks.push(tokio::spawn(app.clone().oneshot(request("/"))));
        // The order in which they come is the order in which the store hears of them.
        tokio::time::sleep(TRIP * 2).await;
    }
    let mut seconds = Vec::new();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap().status(), 200);
        seconds.push(start.elapsed().as_millis() / 100);
    }
    assert!(seconds.windows(2).all(|pair| pair[0] + 9 <= pair[1]), "a second apart: {seconds:?}");
    assert!(seconds[4] <= 42, "and not more: {seconds:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_charged_comes_back() {
    let limit = limit("5/h").charge(ChargePolicy::OnFailure);
    let app = app(&limit);
    for _ in 0..10 {
        assert_eq!(app.clone().oneshot(request("/")).await.unwrap().status(), 200);
        // Given back by a task, and a trip takes its time.
        tokio::time::sleep(TRIP * 2).await;
    }
    assert_eq!(remaining(&limit).await, 5);
    assert_eq!(app.clone().oneshot(request("/wrong")).await.unwrap().status(), 401);
    tokio::time::sleep(TRIP * 2).await;
    assert_eq!(remaining(&limit).await, 4);
}

/// Only the requests were given back, which a plan that counts bytes refused.
#[tokio::test(start_paused = true)]
async fn what_is_not_charged_comes_back_of_every_unit() {
    let plan = Plan::parse("up", "5/h bucket; 1000 bytes/h bucket").unwrap();
    let keeper = Keeper::new(remote(), Registry::new([plan]));
    let limit = Limit::over(keeper.clone(), "up".parse().unwrap())
        .cost_of("bytes", |_| 100)
        .charge(ChargePolicy::OnFailure);
    let app = Router::new().route("/", get(|| async { "hello" })).layer(limit);
    for _ in 0..10 {
        assert_eq!(app.clone().oneshot(request("/")).await.unwrap().status(), 200);
        // Given back by a task, and a trip takes its time.
        tokio::time::sleep(TRIP * 2).await;
    }
    let ruling = keeper.peek("__global__", "up", &[("requests", 0), ("bytes", 0)]).await.unwrap();
    let left: Vec<u64> = ruling.each().map(|(_, _, decision)| decision.remaining).collect();
    assert_eq!(left, [5, 1000]);
}

#[tokio::test(start_paused = true)]
async fn who_hangs_up_while_it_is_decided_frees_the_seat() {
    let limit = limit("5/h").in_flight(1);
    let app = app(&limit);
    let first = tokio::spawn(app.clone().oneshot(request("/")));
    tokio::task::yield_now().await;
    assert_eq!(app.clone().oneshot(request("/")).await.unwrap().status(), 429, "one is in flight");
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    assert_eq!(app.oneshot(request("/")).await.unwrap().status(), 200);
}

/// A permit that was put back on the way to the store counted as a request that took no time: 16 seconds were told, not
/// 61.
#[tokio::test(start_paused = true)]
async fn a_refusal_says_how_long_those_in_flight_take() {
    let limit = limit("4/h").in_flight(1);
    let slow = get(|| async { tokio::time::sleep(Duration::from_secs(60)).await });
    let app = Router::new().route("/", slow).layer(limit.layer());
    for _ in 0..3 {
        assert_eq!(app.clone().oneshot(request("/")).await.unwrap().status(), 200);
    }
    let in_flight = tokio::spawn(app.clone().oneshot(request("/")));
    tokio::time::sleep(TRIP * 2).await;
    let refused = app.oneshot(request("/")).await.unwrap();
    assert_eq!((refused.status().as_u16(), refused.headers()["retry-after"].to_str().unwrap()), (429, "61"));
    assert_eq!(in_flight.await.unwrap().unwrap().status(), 200);
}
