//! What is waited for, what is sent again, and that a permit always comes back.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response};
use ratekeeper_http::client::{Pace, PaceError, Rejected, ServerLimits};
use tokio::time::Instant;
use tower::ServiceExt;
use tower_layer::Layer;

use crate::support::{Dialect, Server, request};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn only_idempotent_requests_are_sent_again() {
    let sent = |pace: Pace, method: Method| async move {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let client = pace.layer().layer(tower::service_fn(move |_: Request<()>| {
            counted.fetch_add(1, Ordering::Relaxed);
            async { Ok::<_, Infallible>(Response::builder().status(503).body(()).unwrap()) }
        }));
        let request = Request::builder().method(method).uri("http://example.com/").body(()).unwrap();
        assert_eq!(client.oneshot(request).await.unwrap().status(), 503);
        count.load(Ordering::Relaxed)
    };
    assert_eq!(sent(Pace::default(), Method::GET).await, 3);
    assert_eq!(sent(Pace::default(), Method::POST).await, 1);
    assert_eq!(sent(Pace::default().retry_all_methods(), Method::POST).await, 3);
    assert_eq!(sent(Pace::default().retries(0), Method::GET).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_pause_longer_than_the_timeout_is_an_error_at_once() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hear = Arc::clone(&heard);
    let pace =
        Pace::default().retries(0).timeout(Duration::from_secs(10)).on_rejected(move |host, rejected| {
            hear.lock().unwrap().push((host.to_owned(), *rejected));
        });
    let client = pace.layer().layer(Server::new(Dialect::Ietf, 5, MINUTE, 5));
    assert_eq!(client.clone().oneshot(request()).await.unwrap().status(), 429);
    let start = Instant::now();
    let error = client.clone().oneshot(request()).await.unwrap_err();
    let expected = Rejected::Server { ready_in: MINUTE };
    assert!(matches!(error, PaceError::Rejected(rejected) if rejected == expected), "{error}");
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(*heard.lock().unwrap(), [("example.com".to_owned(), expected)]);
    let elsewhere = Request::get("http://other.example/").body(()).unwrap();
    assert_eq!(client.oneshot(elsewhere).await.unwrap().status(), 429, "another host is another matter");
}

#[tokio::test(start_paused = true)]
async fn a_pause_is_capped() {
    let client = Pace::default().retries(1).max_wait(Duration::from_secs(5)).layer().layer(
        tower::service_fn(|_: Request<()>| async {
            let response = Response::builder().status(429).header("retry-after", "86400");
            Ok::<_, Infallible>(response.body(()).unwrap())
        }),
    );
    let start = Instant::now();
    let response = client.oneshot(request()).await.unwrap();
    assert_eq!((start.elapsed()).as_secs(), 5);
    let told = response.extensions().get::<ServerLimits>().unwrap();
    assert_eq!(told.0.retry_after, Some(Duration::from_secs(86_400)), "told whole");
}

#[tokio::test]
async fn a_permit_comes_back_whatever_happens() {
    let pace = Pace::new("1 concurrent".parse().unwrap()).unwrap().timeout(Duration::ZERO);
    let client = pace.layer().layer(tower::service_fn(|request: Request<()>| async move {
        match request.uri().path() {
            "/fine" => Ok(Response::new(())),
            "/error" => Err("on purpose"),
            "/panic" => panic!("on purpose"),
            _ => std::future::pending().await,
        }
    }));
    let send = |path: &str| {
        let request = Request::get(format!("http://example.com{path}")).body(()).unwrap();
        tokio::spawn(client.clone().oneshot(request))
    };
    assert!(send("/fine").await.unwrap().is_ok());
    assert!(matches!(send("/error").await.unwrap(), Err(PaceError::Client("on purpose"))));
    assert!(send("/panic").await.unwrap_err().is_panic());
    let pending = send("/pending");
    tokio::task::yield_now().await;
    let refused = send("/fine").await.unwrap();
    assert!(matches!(refused, Err(PaceError::Rejected(Rejected::Local(_)))), "one is in flight");
    pending.abort();
    assert!(pending.await.unwrap_err().is_cancelled());
    assert!(send("/fine").await.unwrap().is_ok());
}
