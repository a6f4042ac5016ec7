//! A polite client never gets a second 429.

use std::convert::Infallible;
use std::time::Duration;

use http::{Request, Response};
use ratekeeper_http::client::Pace;
use ratekeeper_http::headers::ServerLimits;
use tokio::time::Instant;
use tower::{Service, ServiceExt};
use tower_layer::Layer;

use crate::client::support::{Dialect, Server, request};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn never_a_second_429() {
    for dialect in [Dialect::GitHub, Dialect::OpenAi, Dialect::Ietf] {
        // Others have used all of it: the first request is refused, and nothing after it is.
        let server = Server::new(dialect, 5, MINUTE, 5);
        let start = Instant::now();
        let client = Pace::default().retries(1).layer().layer(server.clone());
        let first = client.clone().oneshot(request()).await.unwrap();
        assert_eq!(first.status(), 200, "{dialect:?}: sent again when there was room");
        assert!(start.elapsed() >= MINUTE, "{dialect:?}");
        assert!(first.extensions().get::<ServerLimits>().is_some());
        let tasks: Vec<_> = (0..24).map(|_| tokio::spawn(client.clone().oneshot(request()))).collect();
        for task in tasks {
            assert_eq!(task.await.unwrap().unwrap().status(), 200, "{dialect:?}");
        }
        assert_eq!(server.counts(), (25, 1), "{dialect:?}");
        assert!(start.elapsed() < 7 * MINUTE, "{dialect:?}: polite, not idle");
    }
}

#[tokio::test(start_paused = true)]
async fn learning_only_slows_down() {
    // The server allows far more than the local limit.
    let server = Server::new(Dialect::Ietf, 1_000_000, MINUTE, 0);
    let client = Pace::new("1/s burst 1".parse().unwrap()).unwrap().layer().layer(server);
    let start = Instant::now();
    for _ in 0..5 {
        client.clone().oneshot(request()).await.unwrap();
    }
    assert_eq!((start.elapsed() + Duration::from_millis(5)).as_secs(), 4);
}

#[tokio::test(start_paused = true)]
async fn who_does_not_respect_is_refused() {
    let server = Server::new(Dialect::Ietf, 1, MINUTE, 0);
    let client = Pace::default().respect_server_headers(false).layer().layer(server.clone());
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(client.clone().oneshot(request()).await.unwrap().status().as_u16());
    }
    assert_eq!(statuses, [200, 429, 429]);
}

/// A server some way off: it decides when a request arrives, and its answer takes as long again.
fn some_way_off(
    server: Server,
) -> impl Service<
    Request<()>,
    Response = Response<String>,
    Error = Infallible,
    Future = impl Future<Output = Result<Response<String>, Infallible>> + Send,
> + Clone
+ Send {
    const WAY: Duration = Duration::from_millis(20);
    tower::service_fn(move |_: Request<()>| {
        let server = server.clone();
        async move {
            tokio::time::sleep(WAY).await;
            let response = server.answer();
            tokio::time::sleep(WAY).await;
            Ok(response)
        }
    })
}

/// A burst to a host that nothing is known of: one goes ahead, and the others hear what it heard.
#[tokio::test(start_paused = true)]
async fn a_burst_at_first_contact_is_refused_once() {
    for dialect in [Dialect::GitHub, Dialect::OpenAi, Dialect::Ietf] {
        let server = Server::new(dialect, 5, MINUTE, 5);
        let client = Pace::default().retries(1).layer().layer(some_way_off(server.clone()));
        let tasks: Vec<_> = (0..20).map(|_| tokio::spawn(client.clone().oneshot(request()))).collect();
        for task in tasks {
            assert_eq!(task.await.unwrap().unwrap().status(), 200, "{dialect:?}");
        }
        assert_eq!(server.counts(), (20, 1), "{dialect:?}");
    }
}
