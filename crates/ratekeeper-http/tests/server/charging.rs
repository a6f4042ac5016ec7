//! Who is charged in the end.

use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use axum::routing::get;
use ratekeeper_http::{Charge, Limit};
use tower::ServiceExt;

fn limit(charge: Charge) -> Limit {
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
    let limit = limit(Charge::OnFailure);
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
    let limit = limit(Charge::OnCompletion);
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
