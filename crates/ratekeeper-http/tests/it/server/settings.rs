//! What a limit can be told: its rules as text, whom it leaves alone, what a request costs.

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::{HeaderMap, Uri};
use ratekeeper::Quota;
use ratekeeper_http::key::ClientIp;
use ratekeeper_http::{Limit, LimitDecision};
use tower::ServiceExt;

fn app(limit: &Limit) -> Router {
    let hello = |decision: Option<LimitDecision>| async move { decision.is_some().to_string() };
    Router::new().route("/", get(hello)).route("/health", get(hello)).layer(limit.layer())
}

async fn get_path(app: &Router, path: &str) -> http::Response<Body> {
    app.clone().oneshot(http::Request::get(path).body(Body::empty()).unwrap()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn several_rules_from_one_text() {
    let limit = Limit::parse("api", "3/m; daily=5/day; 2 concurrent").unwrap();
    let app = app(&limit);
    let response = get_path(&app, "/").await;
    let told = |name: &str| {
        let lines = response.headers().get_all(name).iter();
        lines.map(|line| line.to_str().unwrap()).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(
        told("ratelimit-policy"),
        r#""per-m";q=3;w=60, "daily";q=5;w=86400, "api";q=2;qu="concurrent-requests""#
    );
    assert_eq!(told("ratelimit"), r#""per-m";r=2;t=20, "api";r=1"#);
    for expected in [200, 200, 429] {
        assert_eq!(get_path(&app, "/").await.status(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn one_rule_from_text_is_the_quota() {
    let quota: Quota = "10/s burst 20".parse().unwrap();
    for limit in [Limit::parse("api", "10/s burst 20;").unwrap(), Limit::new("api", quota)] {
        assert_eq!(get_path(&app(&limit), "/").await.headers()["ratelimit-policy"], r#""api";q=20;w=2"#);
    }
    let permits = Limit::parse("api", "2 concurrent; most=1 concurrent").unwrap();
    assert_eq!(get_path(&app(&permits), "/").await.headers()["ratelimit-policy"].to_str().unwrap(), {
        r#""api";q=1;qu="concurrent-requests""#
    });
    for wrong in ["", ";", "3/m; 5", "a=1/s; a=2/s"] {
        assert!(Limit::parse("api", wrong).is_err(), "{wrong}");
    }
    assert!(Limit::parse("no name", "3/m").is_err());
}

/// To leave a path alone, it had to cost nothing, and still had to have a key.
#[tokio::test(start_paused = true)]
async fn who_is_exempt_needs_no_key() {
    let limit = Limit::new("api", "1/h".parse().unwrap())
        .by(ClientIp::default())
        .with_decision()
        .exempt(|request| request.uri().path() == "/health");
    let app = app(&limit);
    assert_eq!(get_path(&app, "/").await.status(), 500, "no peer, no key");
    for _ in 0..3 {
        let response = get_path(&app, "/health").await;
        assert_eq!(response.status(), 200);
        assert!(!response.headers().contains_key("ratelimit"));
        assert_eq!(axum::body::to_bytes(response.into_body(), 100).await.unwrap(), "false");
    }
    let (gate, headers) = (limit.gate(), HeaderMap::new());
    assert!(gate.is_exempt(&headers, &Uri::from_static("/health"), None));
    assert!(!gate.is_exempt(&headers, &Uri::from_static("/"), None));
}

#[tokio::test(start_paused = true)]
async fn a_cost_may_depend_on_the_request() {
    // The closure needs no types.
    let limit = Limit::new("api", "10/h".parse().unwrap()).cost(|request| match request.uri().path() {
        "/" => 4,
        _ => 1,
    });
    let app = app(&limit);
    for (path, left) in [("/", 6), ("/health", 5), ("/", 1)] {
        let standing = get_path(&app, path).await.headers()["ratelimit"].to_str().unwrap().to_owned();
        assert!(standing.starts_with(&format!("\"api\";r={left};")), "{standing}");
    }
    assert_eq!(get_path(&app, "/").await.status(), 429);
    let gate = Limit::new("api", "10/h".parse().unwrap()).fixed_cost(4).gate();
    assert_eq!(gate.try_allow(b"k").await.unwrap().remaining, 6, "a gate knows it too");
}
