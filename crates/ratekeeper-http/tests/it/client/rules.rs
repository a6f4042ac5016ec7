//! What is waited for, what is sent again, and that a permit always comes back.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response};
use ratekeeper_http::client::{Pace, PaceError, Rejected};
use ratekeeper_http::headers::ServerLimits;
use tokio::time::Instant;
use tower::ServiceExt;
use tower_layer::Layer;

use crate::client::support::{Dialect, Server, request};

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
    assert_eq!(*heard.lock().unwrap(), [("example.com:80".to_owned(), expected)]);
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
    assert_eq!(told.retry_after, Some(Duration::from_secs(86_400)), "told whole");
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

/// Who went ahead and failed, or was given up, keeps nobody waiting.
#[tokio::test(start_paused = true)]
async fn one_that_went_ahead_in_vain_holds_nobody_up() {
    let answer = |request: Request<()>| async move {
        match request.uri().path() {
            "/error" => {
                tokio::time::sleep(Duration::from_millis(10)).await;
                Err("on purpose")
            }
            "/never" => std::future::pending().await,
            _ => Ok(Response::new(())),
        }
    };
    let get = |path: &str| Request::get(format!("http://example.com{path}")).body(()).unwrap();
    let spend = async |ahead: &'static str, give_up: bool| {
        let client = Pace::default().layer().layer(tower::service_fn(answer));
        let first = tokio::spawn(client.clone().oneshot(get(ahead)));
        tokio::task::yield_now().await;
        let start = Instant::now();
        let others: Vec<_> = (0..9).map(|_| tokio::spawn(client.clone().oneshot(get("/")))).collect();
        tokio::task::yield_now().await;
        if give_up {
            first.abort();
        }
        for other in others {
            assert!(other.await.unwrap().is_ok());
        }
        start.elapsed()
    };
    assert!(spend("/error", false).await < Duration::from_millis(50), "it failed, and they went");
    assert_eq!(spend("/never", true).await, Duration::ZERO, "it was given up, and they went");
    let patience = spend("/never", false).await;
    assert!((Duration::from_secs(3)..Duration::from_secs(4)).contains(&patience), "{patience:?}");
}

#[tokio::test(start_paused = true)]
async fn the_longest_of_durations_are_fine() {
    let pace =
        Pace::default().retries(0).timeout(Duration::MAX).max_wait(Duration::MAX).jitter(Duration::MAX);
    let client = pace.layer().layer(tower::service_fn(|_: Request<()>| async {
        let response = Response::builder().status(429).header("retry-after", "99999999999999");
        Ok::<_, Infallible>(response.body(()).unwrap())
    }));
    assert_eq!(client.clone().oneshot(request()).await.unwrap().status(), 429);
    let next = tokio::time::timeout(MINUTE, client.oneshot(request()));
    assert!(next.await.is_err(), "it waits, and does not panic");
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_panics_changes_nothing() {
    let pace = Pace::default().retries(0).timeout(Duration::ZERO).on_rejected(|_, _| panic!("on purpose"));
    let client = pace.layer().layer(Server::new(Dialect::Ietf, 5, MINUTE, 5));
    assert_eq!(client.clone().oneshot(request()).await.unwrap().status(), 429);
    let error = client.oneshot(request()).await.unwrap_err();
    assert!(matches!(error, PaceError::Rejected(Rejected::Server { .. })), "{error}");
}

/// A pause outlives ten thousand other hosts.
#[tokio::test(start_paused = true)]
async fn a_crawler_forgets_no_pause() {
    let client = Pace::default().retries(0).timeout(Duration::ZERO).layer().layer(tower::service_fn(
        |request: Request<()>| async move {
            let busy = request.uri().host() == Some("busy.example");
            let response = Response::builder().status(if busy { 429 } else { 200 });
            let response = if busy { response.header("retry-after", "3600") } else { response };
            Ok::<_, Infallible>(response.body(()).unwrap())
        },
    ));
    let get = |host: &str| Request::get(format!("http://{host}/")).body(()).unwrap();
    assert_eq!(client.clone().oneshot(get("busy.example")).await.unwrap().status(), 429);
    for number in 0..10_001 {
        let response = client.clone().oneshot(get(&format!("host-{number}.example"))).await;
        assert_eq!(response.unwrap().status(), 200);
    }
    let error = client.oneshot(get("busy.example")).await.unwrap_err();
    assert!(matches!(error, PaceError::Rejected(Rejected::Server { .. })), "{error}");
}

/// Each spelling of a host was a host of its own, and a password was a part of the key that listeners and logs see.
#[tokio::test(start_paused = true)]
async fn a_host_is_known_by_its_name_and_port_however_they_are_written() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hear = Arc::clone(&heard);
    let pace = Pace::new("1/h".parse().unwrap()).unwrap().timeout(Duration::ZERO);
    let pace = pace.on_rejected(move |host, _| hear.lock().unwrap().push(host.to_owned()));
    let answer = |_: Request<()>| async { Ok::<_, Infallible>(Response::new(())) };
    let client = pace.layer().layer(tower::service_fn(answer));
    let hosts: [(&str, &[&str]); 8] = [
        (
            "example.com:80",
            &[
                "http://example.com/",
                "http://EXAMPLE.com/",
                "HTTP://example.com:80/",
                "http://example.com:/",
                "http://me:secret@example.com/",
                "http://you@Example.com:80/",
                "ws://example.com/",
                "http://example.com./",
                "http://me:secret@EXAMPLE.COM.:80/",
            ],
        ),
        ("example.com:443", &["https://example.com/", "https://example.com:443/", "wss://example.com/"]),
        ("example.com:8080", &["http://example.com:8080/", "https://me@example.com:8080/"]),
        ("[::1]:80", &["http://[::1]/", "http://me:secret@[::1]:80/", "http://[0:0:0:0:0:0:0:1]/"]),
        ("xn--bcher-kva.example:80", &["http://xn--bcher-kva.example/", "http://XN--BCHER-KVA.example/"]),
        ("127.0.0.1:80", &["http://127.0.0.1/", "http://127.0.0.1:80/"]),
        ("[::ab]:443", &["https://[::AB]/", "https://[::ab]:443/"]),
        // A scheme whose port is not known.
        ("example.com", &["other://example.com/", "other://me:secret@EXAMPLE.com/"]),
    ];
    for (host, uris) in hosts {
        for (number, uri) in uris.iter().enumerate() {
            let sent = client.clone().oneshot(Request::get(*uri).body(()).unwrap()).await;
            assert_eq!(sent.is_ok(), number == 0, "{uri}");
        }
        assert_eq!(std::mem::take(&mut *heard.lock().unwrap()), vec![host; uris.len() - 1]);
        assert!(pace.host_statistics(host).is_some(), "{host}");
    }
    assert_eq!(pace.statistics().hosts, hosts.len());
    assert!(
        "http://b\u{fc}cher.example/".parse::<http::Uri>().is_err(),
        "a URI is ASCII: others never get here"
    );
}
