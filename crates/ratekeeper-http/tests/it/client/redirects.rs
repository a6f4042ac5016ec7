//! Redirects: what a response says is the word of the host that answered, not of the one that redirected to it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::response::Redirect;
use axum::routing::get;
use http::{HeaderMap, Request, Response, StatusCode};
use ratekeeper_http::client::{AnsweredBy, Pace, PaceError, Rejected};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use tokio::time::Instant;
use tower::ServiceExt;
use tower_http::follow_redirect::FollowRedirectLayer;
use tower_layer::Layer;

use crate::client::support::OnWire;

const HOUR: Duration = Duration::from_secs(3600);

async fn serve(app: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    address
}

/// Refuses the first few with this `Retry-After`; counts all.
async fn busy(refusals: usize, retry_after: &'static str) -> (SocketAddr, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let answer = move || {
        let is_refused = counted.fetch_add(1, Ordering::SeqCst) < refusals;
        let mut headers = HeaderMap::new();
        if is_refused {
            headers.insert("retry-after", retry_after.parse().unwrap());
        }
        let status = if is_refused { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::OK };
        async move { (status, headers) }
    };
    (serve(Router::new().route("/", get(answer))).await, count)
}

/// Redirects `/` there, and serves `/fine` itself.
async fn redirecting(to: SocketAddr) -> (SocketAddr, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let (one, other) = (Arc::clone(&count), Arc::clone(&count));
    let redirect = move || {
        one.fetch_add(1, Ordering::SeqCst);
        async move { Redirect::temporary(&format!("http://{to}/")) }
    };
    let fine = move || {
        other.fetch_add(1, Ordering::SeqCst);
        async {}
    };
    (serve(Router::new().route("/", get(redirect)).route("/fine", get(fine))).await, count)
}

fn client(pace: &Pace) -> ClientWithMiddleware {
    ClientBuilder::new(reqwest::Client::new()).with(pace.clone()).with(OnWire).build()
}

/// The host that redirected was locked for an hour, and the one that had asked for it was not.
#[tokio::test(start_paused = true)]
async fn a_refusal_pauses_the_host_that_refused_and_not_the_one_that_redirected() {
    let (busy, refused) = busy(usize::MAX, "3600").await;
    let (redirecting, asked) = redirecting(busy).await;
    let pace = Pace::default().retries(0).timeout(Duration::from_secs(10));
    let client = client(&pace);
    let response = client.get(format!("http://{redirecting}/")).send().await.unwrap();
    assert_eq!((response.status().as_u16(), response.url().port()), (429, Some(busy.port())));
    for _ in 0..5 {
        let fine = client.get(format!("http://{redirecting}/fine")).send().await.unwrap();
        assert_eq!(fine.status(), 200, "it has refused nothing");
    }
    let error = client.get(format!("http://{busy}/")).send().await.unwrap_err();
    assert!(error.to_string().contains("the server takes no more requests"), "{error}");
    assert_eq!((asked.load(Ordering::SeqCst), refused.load(Ordering::SeqCst)), (6, 1));
    let paused = |of: SocketAddr| pace.host_statistics(&of.to_string()).unwrap().paused_for;
    assert_eq!(paused(redirecting), None);
    assert!(paused(busy).is_some_and(|left| left > HOUR - Duration::from_secs(60)));
}

/// Nothing is ever sent to that host by its own name, so the first pause was never over: the second one, an hour later, was
/// taken for more of it, and cut to nothing.
#[tokio::test(start_paused = true)]
async fn a_host_that_is_only_redirected_to_is_heeded_again() {
    let (busy, _) = busy(usize::MAX, "300").await;
    let (redirecting, _) = redirecting(busy).await;
    let pace = Pace::default().retries(0).max_wait(Duration::from_secs(600));
    let client = client(&pace);
    for round in 0..3 {
        client.get(format!("http://{redirecting}/")).send().await.unwrap();
        let paused = pace.host_statistics(&busy.to_string()).unwrap().paused_for;
        assert!(paused.is_some_and(|left| left > Duration::from_secs(200)), "{paused:?} in round {round}");
        tokio::time::advance(HOUR).await;
    }
}

/// Sent again when the host that refused takes it, though that is not the host that it is sent to.
#[tokio::test(start_paused = true)]
async fn what_was_redirected_and_refused_is_sent_again_when_the_last_host_takes_it() {
    let (busy, refused) = busy(1, "30").await;
    let (redirecting, asked) = redirecting(busy).await;
    let pace = Pace::default().retries(1);
    let start = Instant::now();
    let response = client(&pace).get(format!("http://{redirecting}/")).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert!(start.elapsed() >= Duration::from_secs(30), "{:?}", start.elapsed());
    assert_eq!((asked.load(Ordering::SeqCst), refused.load(Ordering::SeqCst)), (2, 2));
    let statistics = pace.statistics();
    assert_eq!((statistics.sent, statistics.retried, statistics.in_flight), (2, 1, 0));
    assert_eq!(pace.host_statistics(&busy.to_string()).unwrap().in_flight, 0);
}

/// `a.example` redirects to `b.example`, which refuses; both serve `/fine`.
async fn answer(request: Request<String>) -> Result<Response<&'static str>, Infallible> {
    let response = match (request.uri().host().unwrap(), request.uri().path()) {
        (_, "/fine") => Response::builder(),
        ("a.example", _) => Response::builder().status(307).header("location", "http://B.example:80/"),
        _ => Response::builder().status(429).header("retry-after", "3600"),
    };
    Ok(response.body("").unwrap())
}

fn to(uri: &str) -> Request<String> {
    Request::get(uri).body(String::new()).unwrap()
}

/// tower-http tells whom it was answered by; around a pace, each hop is a request of its own.
#[tokio::test(start_paused = true)]
async fn tower_clients_that_follow_redirects_tell_who_answered() {
    let pace = Pace::default().retries(0).timeout(Duration::ZERO);
    let followed = FollowRedirectLayer::new().layer(tower::service_fn(answer));
    let outside = pace.layer().layer(followed);
    assert_eq!(outside.clone().oneshot(to("http://a.example/")).await.unwrap().status(), 429);
    assert_eq!(outside.clone().oneshot(to("http://a.example/fine")).await.unwrap().status(), 200);
    let error = outside.oneshot(to("http://b.example/fine")).await.unwrap_err();
    assert!(
        matches!(error, PaceError::Rejected(Rejected::Server { ready_in }) if ready_in == HOUR),
        "{error}"
    );

    let pace = Pace::default().retries(0).timeout(Duration::ZERO);
    let inside = FollowRedirectLayer::new().layer(pace.layer().layer(tower::service_fn(answer)));
    assert_eq!(inside.clone().oneshot(to("http://a.example/")).await.unwrap().status(), 429);
    assert_eq!(pace.statistics().sent, 2, "each hop");
    assert_eq!(inside.clone().oneshot(to("http://a.example/fine")).await.unwrap().status(), 200);
    let error = inside.oneshot(to("http://a.example/")).await.unwrap_err();
    assert!(matches!(error, PaceError::Rejected(Rejected::Server { .. })), "{error}: it never gets there");
}

/// Those who hear of a busy host only from redirects prolong its pause with each, but not for ever: who waits for it is
/// sent after the longest pause that there is.
#[tokio::test(start_paused = true)]
async fn a_pause_that_others_prolong_is_no_longer_than_the_longest() {
    let answer = |request: Request<String>| async move {
        let mut response = Response::builder().header("ratelimit", r#""a";r=0;t=60"#).body(()).unwrap();
        if request.uri().host() == Some("a.example") {
            response.extensions_mut().insert(AnsweredBy("http://b.example/".parse().unwrap()));
        }
        Ok::<_, Infallible>(response)
    };
    let pace = Pace::default().max_wait(Duration::from_secs(300));
    let client = pace.layer().layer(tower::service_fn(answer));
    client.clone().oneshot(to("http://a.example/")).await.unwrap();
    let start = Instant::now();
    let waiting = tokio::spawn(client.clone().oneshot(to("http://b.example/")));
    while !waiting.is_finished() && start.elapsed() < HOUR {
        tokio::time::sleep(Duration::from_secs(10)).await;
        client.clone().oneshot(to("http://a.example/")).await.unwrap();
    }
    assert!(waiting.is_finished(), "one is let through");
    let waited = start.elapsed();
    assert!((Duration::from_secs(300)..Duration::from_secs(320)).contains(&waited), "{waited:?}");
}
