//! Estimates are held while a request is served, and settled with what it took.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use axum::routing::{any, get};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Bytes;
use ratekeeper::keeper::OnMissingPlan;
use ratekeeper::{Decision, Keeper, MemoryStore, Nanos, Plan, Registry, Rules};
use ratekeeper_http::headers::HeaderDialect;
use ratekeeper_http::{Estimate, HoldPolicy, KeeperPlans, Limit, PolicyHeaders, Spent};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tower::{Layer, ServiceExt, service_fn};

const KEY: &str = "__global__";
const TOKENS: HeaderName = HeaderName::from_static("x-tokens");

fn keeper(rules: &str) -> Keeper {
    Keeper::new(MemoryStore::default(), Registry::new([Plan::parse("llm", rules).unwrap()]))
}

/// `60 requests, 1000 tokens, 2 in flight`.
fn llm() -> Keeper {
    keeper("60/m bucket; 1000 tokens/m bucket; 2 concurrent")
}

fn limit(keeper: &Keeper, policy: HoldPolicy) -> Limit<KeeperPlans> {
    Limit::over(keeper.clone(), "llm".parse().unwrap()).hold(policy)
}

fn request(tokens: u64) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    request.extensions_mut().insert(Estimate::tokens(tokens));
    request
}

/// What each rule has left.
async fn left(keeper: &Keeper) -> Vec<u64> {
    let nothing = [("requests", 0), ("tokens", 0), ("concurrent", 0)];
    let ruling = keeper.peek(KEY, "llm", &nothing).await.unwrap();
    ruling.each().map(|(_, _, decision)| decision.remaining).collect()
}

async fn read(response: Response<Body>) -> Bytes {
    response.into_body().collect().await.unwrap().to_bytes()
}

/// A body that goes on until its sender is dropped.
struct Streaming(Receiver<Bytes>);

impl http_body::Body for Streaming {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
    }
}

type Streams = Arc<Mutex<Vec<(Sender<Bytes>, Spent)>>>;

/// An app whose bodies stream until the test ends them, and whose handles of what was spent the test has.
fn streaming(limit: &Limit<KeeperPlans>) -> (Router, Streams) {
    let streams = Streams::default();
    let kept = Arc::clone(&streams);
    let handler = move || {
        let (sender, receiver) = channel(1);
        let spent = Spent::default();
        kept.lock().unwrap().push((sender, spent.clone()));
        async move { (spent, Body::new(Streaming(receiver))) }
    };
    (Router::new().route("/", get(handler)).layer(limit.layer()), streams)
}

#[tokio::test(start_paused = true)]
async fn settled_with_what_the_handler_says_when_the_body_has_ended() {
    let keeper = llm();
    let app = Router::new()
        .route("/", get(|| async { (Spent::tokens(80), "an answer") }))
        .layer(limit(&keeper, HoldPolicy::default()));
    let response = app.oneshot(request(500)).await.unwrap();
    assert_eq!(
        response.headers()["ratelimit-policy"],
        r#""per-m";q=60;w=60, "tokens-per-m";q=1000;w=60;qu="tokens", "concurrent";q=2;qu="concurrent-requests""#
    );
    assert_eq!(
        response.headers()["ratelimit"],
        r#""per-m";r=59;t=1, "tokens-per-m";r=500;t=1, "concurrent";r=1"#
    );
    assert_eq!(left(&keeper).await, [59, 500, 1], "held until the body is read");
    assert_eq!(&*read(response).await, b"an answer");
    assert_eq!(left(&keeper).await, [59, 920, 2]);
}

#[tokio::test(start_paused = true)]
async fn what_is_spent_beyond_the_estimate_is_owed() {
    let keeper = llm();
    let app = Router::new()
        .route("/", get(|| async { (Spent::tokens(1_500), "much") }))
        .layer(limit(&keeper, HoldPolicy::default()).dialect(HeaderDialect::PerUnit));
    let first = app.clone().oneshot(request(400)).await.unwrap();
    assert_eq!(first.status(), 200);
    let fields: Vec<_> = ["limit", "remaining", "reset"]
        .iter()
        .flat_map(|part| ["requests", "tokens"].map(|unit| format!("x-ratelimit-{part}-{unit}")))
        .map(|name| first.headers()[name].to_str().unwrap().to_owned())
        .collect();
    assert_eq!(fields, ["60", "1000", "59", "600", "1s", "24s"]);
    assert!(!first.headers().contains_key("ratelimit"));
    read(first).await;
    assert_eq!(left(&keeper).await, [59, 0, 2]);
    let refused = app.oneshot(request(100)).await.unwrap();
    assert_eq!(refused.status(), 429);
    // 500 are owed, and 100 asked for, at 1000 a minute.
    assert_eq!(refused.headers()["retry-after"], "36");
    assert_eq!(refused.headers()["retry-after-ms"], "36000");
    assert_eq!(refused.headers()["x-ratelimit-remaining-tokens"], "0");
    assert_eq!(refused.headers()["x-ratelimit-reset-tokens"], "1m30s");
    assert_eq!(refused.headers()["x-ratelimit-remaining-requests"], "59");
    let problem: serde_json::Value = serde_json::from_slice(&read(refused).await).unwrap();
    assert_eq!(problem["violated-policies"], serde_json::json!(["tokens-per-m"]));
}

/// Clients that are told a millisecond come back at once, and in vain.
#[tokio::test(start_paused = true)]
async fn what_can_never_pass_is_told_the_same_wait_in_both_fields() {
    let limit = limit(&llm(), HoldPolicy::default()).dialect(HeaderDialect::PerUnit);
    let app = Router::new().route("/", get(|| async { "hello" })).layer(limit);
    let refused = app.oneshot(request(5_000)).await.unwrap();
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(refused.headers()["retry-after-ms"], "1000");
}

#[tokio::test(start_paused = true)]
async fn nothing_said_is_as_estimated_and_nothing_spent_is_cancelled() {
    let keeper = llm();
    let app = Router::new()
        .route("/silent", get(|| async { "silent" }))
        .route("/failed", get(|| async { (StatusCode::BAD_GATEWAY, Spent::nothing(), "no answer") }))
        .route("/other", get(|| async { (Spent::of("bytes", 5), "counted by no rule") }))
        .route("/requests", get(|| async { (Spent::of("requests", 3).and("tokens", 0), "three in one") }))
        .layer(limit(&keeper, HoldPolicy::default()));
    let call = async |path: &str| {
        let mut request = request(100);
        *request.uri_mut() = path.parse().unwrap();
        read(app.clone().oneshot(request).await.unwrap()).await;
        left(&keeper).await
    };
    assert_eq!(call("/silent").await, [59, 900, 2]);
    assert_eq!(call("/failed").await, [59, 900, 2]);
    assert_eq!(call("/other").await, [58, 800, 2]);
    assert_eq!(call("/requests").await, [55, 800, 2]);
    assert_eq!(call("/unknown").await, [54, 700, 2], "a 404 is a response");
}

/// It was passed on to the store, which refused to settle at all: the place was taken until its lease ran out.
#[tokio::test(start_paused = true)]
async fn requests_that_no_rule_counts_are_ignored_like_any_unit() {
    let keeper = keeper("1000 tokens/m bucket; 2 concurrent");
    let handler = || async { (Spent::of("requests", 3).and("tokens", 10), "three in one") };
    let app = Router::new().route("/", get(handler)).layer(limit(&keeper, HoldPolicy::default()));
    read(app.oneshot(request(100)).await.unwrap()).await;
    let ruling = keeper.peek(KEY, "llm", &[("tokens", 0), ("concurrent", 0)]).await.unwrap();
    let left: Vec<u64> = ruling.each().map(|(_, _, decision)| decision.remaining).collect();
    assert_eq!(left, [990, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_field_of_the_response_or_of_its_trailers_says_what_was_spent() {
    for (keeps, policy) in [
        (false, HoldPolicy::default().spent_in(TOKENS, "tokens")),
        (true, HoldPolicy::default().spent_in(TOKENS, "tokens").keep_spent_headers()),
    ] {
        let keeper = llm();
        let app = Router::new()
            .route("/head", get(|| async { ([(TOKENS, "30")], "an answer") }))
            .route("/both", get(|| async { (Spent::tokens(20), [(TOKENS, "30")], "an answer") }))
            .route("/odd", get(|| async { ([(TOKENS, "-30")], "an answer") }))
            .route(
                "/trailers",
                get(|| async {
                    let mut trailers = HeaderMap::new();
                    trailers.insert(TOKENS, HeaderValue::from_static("40"));
                    let frames = [Frame::data(Bytes::from_static(b"data")), Frame::trailers(trailers)];
                    Body::new(StreamBody::new(futures_util::stream::iter(frames.map(Ok::<_, Infallible>))))
                }),
            )
            .layer(limit(&keeper, policy));
        let call = async |path: &str| {
            let mut request = request(100);
            *request.uri_mut() = path.parse().unwrap();
            let response = app.clone().oneshot(request).await.unwrap();
            let in_head = response.headers().contains_key(TOKENS);
            let collected = response.into_body().collect().await.unwrap();
            let in_trailers = collected.trailers().is_some_and(|trailers| trailers.contains_key(TOKENS));
            (in_head || in_trailers, left(&keeper).await[1])
        };
        assert_eq!(call("/head").await, (keeps, 970));
        assert_eq!(call("/both").await, (keeps, 950));
        assert_eq!(call("/odd").await, (keeps, 850));
        assert_eq!(call("/trailers").await, (keeps, 810));
    }
}

/// The last byte of a body whose length is known is not its end: trailers may follow, and say what was spent.
#[tokio::test(start_paused = true)]
async fn trailers_after_a_body_of_known_length_are_waited_for() {
    let keeper = llm();
    let handler = |data: &'static str| async move {
        let mut trailers = HeaderMap::new();
        trailers.insert(TOKENS, HeaderValue::from_static("40"));
        let body = Full::new(Bytes::from_static(data.as_bytes()));
        Body::new(body.with_trailers(std::future::ready(Some(Ok(trailers)))))
    };
    let app = Router::new()
        .route("/", get(move || handler("data")))
        .route("/empty", get(move || handler("")))
        .layer(limit(&keeper, HoldPolicy::default().spent_in(TOKENS, "tokens")));
    for (path, after) in [("/", [59, 960, 2]), ("/empty", [58, 920, 2])] {
        let mut request = request(100);
        *request.uri_mut() = path.parse().unwrap();
        let response = app.clone().oneshot(request).await.unwrap();
        let collected = response.into_body().collect().await.unwrap();
        assert!(collected.trailers().is_none_or(|trailers| !trailers.contains_key(TOKENS)), "{path}");
        assert_eq!(left(&keeper).await, after, "{path}");
    }
    // Whoever hangs up after the last byte is settled as estimated.
    let mut body = app.oneshot(request(100)).await.unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    assert_eq!(left(&keeper).await[2], 1);
    drop(body);
    assert_eq!(left(&keeper).await, [57, 820, 2]);
}

#[test]
fn the_rules_of_one_plan_are_called_the_same_whether_it_is_held_or_acquired() {
    let plan = Arc::new(Plan::parse("llm", "60/m; 2 concurrent").unwrap());
    let decision = Decision::allow(60, 59, Nanos::ZERO);
    let policies = |rules: Rules<'_>| {
        let mut headers = HeaderMap::new();
        PolicyHeaders::of_rules(rules).write(&mut headers, HeaderDialect::Ietf, &decision);
        headers["ratelimit-policy"].clone()
    };
    assert_eq!(policies(Rules::Plans(&[Arc::clone(&plan)])), policies(Rules::Plan(&plan)));
    let other = Arc::new(Plan::parse("other", "1/s").unwrap());
    assert!(policies(Rules::Plans(&[plan, other])).to_str().unwrap().starts_with("\"llm.per-m\""));
}

#[tokio::test(start_paused = true)]
async fn a_stream_says_what_it_has_spent_while_it_is_sent() {
    let keeper = llm();
    let (app, streams) = streaming(&limit(&keeper, HoldPolicy::default()));
    let first = app.clone().oneshot(request(500)).await.unwrap();
    let second = app.clone().oneshot(request(400)).await.unwrap();
    let refused = app.clone().oneshot(request(1)).await.unwrap();
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    let problem: serde_json::Value = serde_json::from_slice(&read(refused).await).unwrap();
    assert_eq!(problem["violated-policies"], serde_json::json!(["concurrent"]));
    let (sender, spent) = streams.lock().unwrap().remove(0);
    sender.send(Bytes::from_static(b"chunk")).await.unwrap();
    spent.add("tokens", 20);
    spent.add("tokens", 10);
    drop(sender);
    assert_eq!(&*read(first).await, b"chunk");
    assert_eq!(left(&keeper).await, [58, 570, 1]);
    // The client hangs up: what was said so far counts.
    let (sender, spent) = streams.lock().unwrap().remove(0);
    spent.set("tokens", 5);
    drop(second);
    assert!(sender.is_closed());
    assert_eq!(left(&keeper).await, [58, 965, 2]);
    // And if nothing was said, the estimate.
    drop(app.oneshot(request(65)).await.unwrap());
    assert_eq!(left(&keeper).await, [57, 900, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_fails_is_settled_with_what_was_said() {
    let keeper = llm();
    let app = Router::new()
        .route(
            "/",
            get(|| async {
                let frames =
                    [Ok(Frame::data(Bytes::from_static(b"data"))), Err(std::io::Error::other("lost"))];
                (Spent::tokens(7), Body::new(StreamBody::new(futures_util::stream::iter(frames))))
            }),
        )
        .layer(limit(&keeper, HoldPolicy::default()));
    let response = app.oneshot(request(500)).await.unwrap();
    response.into_body().collect().await.unwrap_err();
    assert_eq!(left(&keeper).await, [59, 993, 2]);
}

#[tokio::test(start_paused = true)]
async fn without_a_response_it_is_cancelled_or_charged_as_chosen() {
    for (policy, after) in [
        (HoldPolicy::default(), [[60, 1000, 2], [60, 1000, 2], [60, 1000, 2]]),
        (HoldPolicy::default().charge_unanswered(), [[59, 900, 2], [58, 800, 2], [57, 700, 2]]),
    ] {
        let keeper = llm();
        let limit = limit(&keeper, policy);
        let failing = limit.layer().layer(service_fn(|_: Request<Body>| async {
            Err::<Response<Body>, _>(std::io::Error::other("the service failed"))
        }));
        failing.oneshot(request(100)).await.unwrap_err();
        assert_eq!(left(&keeper).await, after[0]);
        let panicking = limit.layer().layer(service_fn(async |request: Request<Body>| {
            assert!(request.headers().contains_key("never"), "the handler panics");
            Ok::<_, Infallible>(Response::new(Body::empty()))
        }));
        let panicked = tokio::spawn(panicking.oneshot(request(100))).await;
        assert!(panicked.unwrap_err().is_panic());
        assert_eq!(left(&keeper).await, after[1]);
        let slow = Router::new().route("/", get(std::future::pending::<()>)).layer(limit.layer());
        let abandoned = tokio::spawn(slow.oneshot(request(100)));
        tokio::task::yield_now().await;
        assert_eq!(left(&keeper).await[2], 1);
        abandoned.abort();
        assert!(abandoned.await.unwrap_err().is_cancelled());
        assert_eq!(left(&keeper).await, after[2]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_has_no_body_has_ended_with_its_head() {
    let keeper = llm();
    let app = Router::new()
        .route("/", any(|| async { (Spent::tokens(10), "a body that is not sent to HEAD") }))
        .route("/empty", any(|| async { (Spent::tokens(10), Body::empty()) }))
        .route("/204", any(|| async { (StatusCode::NO_CONTENT, Spent::tokens(10), ()) }))
        .layer(limit(&keeper, HoldPolicy::default()));
    let mut kept = Vec::new();
    for (index, (method, path)) in [("HEAD", "/"), ("GET", "/empty"), ("GET", "/204")].iter().enumerate() {
        let mut request = request(100);
        *request.method_mut() = method.parse().unwrap();
        *request.uri_mut() = path.parse().unwrap();
        kept.push(app.clone().oneshot(request).await.unwrap());
        let calls = index as u64 + 1;
        assert_eq!(left(&keeper).await, [60 - calls, 1000 - 10 * calls, 2], "{method} {path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_outlasts_its_lease_keeps_its_place() {
    let keeper = llm();
    let policy = HoldPolicy::default().lease(Duration::from_secs(10)).unwrap();
    let (app, streams) = streaming(&limit(&keeper, policy));
    let first = app.oneshot(request(500)).await.unwrap();
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(left(&keeper).await[2], 1);
    }
    let (sender, spent) = streams.lock().unwrap().remove(0);
    spent.set("tokens", 700);
    drop(sender);
    read(first).await;
    assert_eq!(left(&keeper).await, [60, 800, 2], "200 more than estimated, of what is whole again");
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_gone_does_no_harm_to_its_response() {
    let keeper = llm();
    let (app, streams) = streaming(&limit(&keeper, HoldPolicy::default()));
    let first = app.oneshot(request(500)).await.unwrap();
    keeper.reset(KEY, "llm").await.unwrap();
    assert_eq!(left(&keeper).await, [60, 1000, 2]);
    tokio::time::sleep(Duration::from_secs(100)).await;
    let (sender, spent) = streams.lock().unwrap().remove(0);
    spent.set("tokens", 700);
    sender.send(Bytes::from_static(b"all of it")).await.unwrap();
    drop(sender);
    assert_eq!(&*read(first).await, b"all of it");
    assert_eq!(left(&keeper).await, [60, 1000, 2]);
}

#[tokio::test(start_paused = true)]
async fn who_waits_in_the_queue_gets_the_place_that_is_freed() {
    let keeper = keeper("60/m bucket; 1000 tokens/m bucket; 1 concurrent");
    let limit = limit(&keeper, HoldPolicy::default()).queue(1, Duration::from_secs(30));
    let (app, streams) = streaming(&limit);
    let first = app.clone().oneshot(request(10)).await.unwrap();
    let second = tokio::spawn(app.clone().oneshot(request(10)));
    tokio::task::yield_now().await;
    assert_eq!(app.oneshot(request(10)).await.unwrap().status(), 429, "there is one place in the queue");
    drop(first);
    assert_eq!(second.await.unwrap().unwrap().status(), 200);
    streams.lock().unwrap().clear();
}

#[tokio::test(start_paused = true)]
async fn an_estimate_is_said_by_a_function_an_extension_or_the_plan() {
    let plan = Plan::parse("llm", "1000 tokens/m bucket").unwrap();
    let app = |limit: Limit| {
        let limit = limit.dialect(HeaderDialect::PerUnit);
        Router::new().route("/", get(|| async { "hello" })).layer(limit)
    };
    let call = async |app: &Router, request: Request<Body>| {
        let response = app.clone().oneshot(request).await.unwrap();
        let left = response.headers().get("x-ratelimit-remaining-tokens").cloned();
        (response.status().as_u16(), left.map(|left| left.to_str().unwrap().to_owned()))
    };
    let left = |tokens: &str| Some(tokens.to_owned());
    let bare = || Request::new(Body::empty());
    let told = app(Limit::of(plan.clone()));
    assert_eq!(call(&told, request(100)).await, (200, left("900")));
    assert_eq!(call(&told, bare()).await, (500, None), "nobody says how many");
    assert_eq!(call(&told, request(u64::MAX)).await, (429, left("900")), "more than can ever be is no error");
    let assuming = app(Limit::of(plan.clone().assume("tokens", 300).unwrap()));
    assert_eq!(call(&assuming, bare()).await, (200, left("700")));
    assert_eq!(call(&assuming, request(50)).await, (200, left("650")));
    let function =
        app(Limit::of(plan.clone()).cost_of("tokens", |request| request.uri().path().len() as u64));
    assert_eq!(call(&function, request(50)).await, (200, left("999")), "it wins over the extension");
    let odd = app(Limit::of(plan).cost_of("bytes", |_| 5));
    assert_eq!(call(&odd, request(50)).await, (500, None), "no rule counts bytes");
}

/// Over a keeper it was read only if something was held, or a function said the cost of a unit.
#[tokio::test(start_paused = true)]
async fn an_estimate_is_read_over_a_keeper_too() {
    let keeper = keeper("60/m bucket; 1000 tokens/m bucket").on_missing_plan(OnMissingPlan::Skip);
    let limit = Limit::over(keeper, "llm".parse().unwrap()).dialect(HeaderDialect::PerUnit);
    let app = |limit| Router::new().route("/", get(|| async { "hello" })).layer::<Limit<KeeperPlans>>(limit);
    let response = app(limit.clone()).oneshot(request(100)).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["x-ratelimit-remaining-tokens"], "900");
    assert_eq!(response.headers()["x-ratelimit-remaining-requests"], "59");
    // What is held to no plan at all has nobody who counts tokens: that is no error.
    let gone = limit.plan("gone".parse().unwrap());
    for limit in [gone.clone(), gone.hold(HoldPolicy::default())] {
        assert_eq!(app(limit).oneshot(request(100)).await.unwrap().status(), 200);
    }
}

#[tokio::test(start_paused = true)]
async fn rules_in_shadow_are_in_no_field() {
    let plan = Plan::with_shadow("api", ["10/m bucket"], ["hard=1/m bucket", "few=5 tokens/m"]).unwrap();
    let limit = Limit::of(plan).dialect(HeaderDialect::IetfAndPerUnit);
    let app = Router::new().route("/", get(|| async { "hello" })).layer(limit);
    for left in [9, 8, 7] {
        let response = app.clone().oneshot(request(50)).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["ratelimit-policy"], r#""per-m";q=10;w=60"#);
        assert_eq!(response.headers()["ratelimit"], format!(r#""per-m";r={left};t=6"#));
        assert_eq!(response.headers()["x-ratelimit-remaining-requests"], left.to_string());
        assert!(!response.headers().contains_key("x-ratelimit-limit-tokens"));
    }
    let all = Limit::of(Plan::parse("try", "1/m").unwrap().shadow()).dialect(HeaderDialect::Both);
    let app = Router::new().route("/", get(|| async { "hello" })).layer(all);
    for _ in 0..3 {
        let response = app.clone().oneshot(request(50)).await.unwrap();
        assert_eq!(response.status(), 200);
        assert!(response.headers().keys().all(|name| !name.as_str().contains("ratelimit")));
    }
}

#[tokio::test(start_paused = true)]
async fn rules_in_shadow_change_no_field() {
    let shadow = ["hard=1/m bucket"];
    for limits in [&["60/m bucket"][..], &["60/m bucket", "100/h bucket"]] {
        let apps = [&shadow[..], &[]].map(|shadow| {
            let plan = Plan::with_shadow("api", limits.iter().copied(), shadow.iter().copied()).unwrap();
            let limit = Limit::of(plan).dialect(HeaderDialect::IetfAndPerUnit);
            Router::new().route("/", get(|| async { "hello" })).layer(limit)
        });
        for _ in 0..5 {
            let [mut with, mut without] = [HeaderMap::new(), HeaderMap::new()];
            for (app, headers) in apps.iter().zip([&mut with, &mut without]) {
                *headers = app.clone().oneshot(request(1)).await.unwrap().headers().clone();
            }
            assert_eq!(with, without);
            tokio::time::sleep(Duration::from_millis(700)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn text_with_a_unit_is_a_plan_and_held_if_it_counts_what_is_in_flight() {
    let limit = Limit::parse("llm", "60/m; 1000 tokens/m; 1 concurrent").unwrap();
    let app = Router::new().route("/", get(|| async { "hello" })).layer(limit);
    let first = app.clone().oneshot(request(10)).await.unwrap();
    assert_eq!(app.clone().oneshot(request(10)).await.unwrap().status(), 429);
    read(first).await;
    assert_eq!(app.oneshot(request(10)).await.unwrap().status(), 200);
    assert!(Limit::parse("llm", "1000 GB/m").is_err());
}

#[tokio::test(start_paused = true)]
async fn a_gate_holds_until_it_is_released_or_settled() {
    let plan = Plan::parse("llm", "1000 tokens/m bucket; 2 concurrent").unwrap();
    let gate = Limit::of(plan.assume("tokens", 100).unwrap()).gate();
    assert!(gate.try_allow(b"k").await.unwrap().allowed);
    assert!(gate.try_allow(b"k").await.unwrap().allowed);
    assert!(!gate.try_allow(b"k").await.unwrap().allowed);
    assert_eq!(gate.totals().in_flight, 2);
    assert!(gate.settle(b"k", &Spent::tokens(1)) && gate.release(b"k"));
    assert!(!gate.release(b"k") && !gate.settle(b"k", &Spent::tokens(1)));
    assert_eq!(gate.totals().in_flight, 0);
    let left = async || gate.statistics(b"k").await.unwrap().rate.unwrap();
    assert!(left().await.allowed);
    assert!(gate.try_allow(b"k").await.unwrap().allowed, "899 tokens are left, and 100 more taken");
    assert!(gate.settle(b"k", &Spent::tokens(900)));
    assert!(!left().await.allowed, "one is owed");
}
