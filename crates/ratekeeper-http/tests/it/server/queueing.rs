//! Waiting instead of being refused: first come, first served, in paused time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use ratekeeper::MemoryStore;
use ratekeeper::TokioClock;
use ratekeeper_http::Limit;
use tokio::time::Instant;
use tower::ServiceExt;

fn limit(quota: &str) -> Limit {
    let store = MemoryStore::builder().clock(TokioClock).build();
    Limit::new("api", quota.parse().unwrap()).store(store)
}

/// Sends `count` requests in order, at once; tells each one's status and the second at which it was answered.
async fn send(limit: &Limit, count: usize) -> Vec<(usize, u16, u64)> {
    let app = Router::new().route("/", get(|| async { "hello" })).layer(limit.layer());
    let answers = Arc::new(Mutex::new(Vec::new()));
    let start = Instant::now();
    let mut tasks = Vec::new();
    for number in 0..count {
        let (app, answers) = (app.clone(), Arc::clone(&answers));
        tasks.push(tokio::spawn(async move {
            let response = app.oneshot(http::Request::new(Body::empty())).await.unwrap();
            let second = (start.elapsed() + Duration::from_millis(5)).as_secs();
            answers.lock().unwrap().push((number, response.status().as_u16(), second));
        }));
        tokio::task::yield_now().await;
    }
    for task in tasks {
        task.await.unwrap();
    }
    Arc::into_inner(answers).unwrap().into_inner().unwrap()
}

#[tokio::test(start_paused = true)]
async fn those_who_can_wait_are_served_in_order() {
    let limit = limit("1/s burst 2").queue(10, Duration::from_secs(3));
    let answers = send(&limit, 7).await;
    // Two at once, three after a second each; the others would have waited too long, and hear so at once.
    assert_eq!(
        answers,
        [(0, 200, 0), (1, 200, 0), (5, 429, 0), (6, 429, 0), (2, 200, 1), (3, 200, 2), (4, 200, 3)]
    );
}

#[tokio::test(start_paused = true)]
async fn the_queue_is_bounded() {
    let limit = limit("1/s burst 1").queue(2, Duration::from_secs(60));
    let answers = send(&limit, 5).await;
    assert_eq!(answers, [(0, 200, 0), (3, 429, 0), (4, 429, 0), (1, 200, 1), (2, 200, 2)]);
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_leaves_the_line() {
    let limit = limit("1/s burst 1").queue(10, Duration::from_secs(60));
    let app = Router::new().route("/", get(|| async { "hello" })).layer(limit.layer());
    let start = Instant::now();
    let request = || http::Request::new(Body::empty());
    assert_eq!(app.clone().oneshot(request()).await.unwrap().status(), 200);
    let impatient = tokio::spawn(app.clone().oneshot(request()));
    tokio::task::yield_now().await;
    let patient = tokio::spawn(app.oneshot(request()));
    tokio::task::yield_now().await;
    impatient.abort();
    assert_eq!(patient.await.unwrap().unwrap().status(), 200);
    assert_eq!((start.elapsed() + Duration::from_millis(5)).as_secs(), 1, "not behind one who is gone");
    assert_eq!(limit.gate().statistics(b"__global__").await.unwrap().queue_depth, 0);
}

/// Whatever the queue was, whoever found no place in it was told to come back after a second.
#[tokio::test(start_paused = true)]
async fn a_full_queue_says_how_long_it_takes() {
    let told = async |quota: &str, places: usize| {
        let limit = limit(quota).queue(places, Duration::from_secs(10_000));
        let app = Router::new().route("/", get(|| async { "hello" })).layer(limit.layer());
        let request = || http::Request::new(Body::empty());
        let first = app.clone().oneshot(request()).await.unwrap();
        assert_eq!(first.status(), 200);
        let mut waiting = Vec::new();
        for _ in 0..places {
            waiting.push(tokio::spawn(app.clone().oneshot(request())));
            tokio::task::yield_now().await;
        }
        let refused = app.clone().oneshot(request()).await.unwrap();
        assert_eq!(refused.status(), 429);
        assert_eq!(refused.headers()["ratelimit"].to_str().unwrap().rsplit('=').next().unwrap(), {
            refused.headers()["retry-after"].to_str().unwrap()
        });
        waiting.iter().for_each(|waiting| waiting.abort());
        refused.headers()["retry-after"].to_str().unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(told("1/s burst 1", 9).await, 10, "nine wait for a second each");
    assert_eq!(told("1 per 30s", 2).await, 90);
    assert_eq!(told("1/m bucket", 4).await, 300);
    assert_eq!(told("1/m fixed", 4).await, 300);
}

/// When a permit comes back cannot be foreseen, but how long they are kept is known.
#[tokio::test(start_paused = true)]
async fn a_full_queue_for_permits_says_how_long_it_takes() {
    const WORK: Duration = Duration::from_secs(20);
    let limit = Limit::new("api", "2 concurrent".parse().unwrap()).queue(5, Duration::from_secs(10_000));
    let app = Router::new().route("/", get(|| async { tokio::time::sleep(WORK).await })).layer(limit.layer());
    let request = || http::Request::new(Body::empty());
    app.clone().oneshot(request()).await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..7 {
        waiting.push(tokio::spawn(app.clone().oneshot(request())));
        tokio::task::yield_now().await;
    }
    let refused = app.clone().oneshot(request()).await.unwrap();
    assert_eq!(refused.status(), 429);
    // Five wait, and two leave every twenty seconds.
    assert_eq!(refused.headers()["retry-after"], "60");
    waiting.iter().for_each(|waiting| waiting.abort());
}
