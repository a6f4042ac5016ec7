//! Limiters that others use too; statistics; closing.

use std::convert::Infallible;
use std::time::Duration;

use http::{Request, Response};
use ratekeeper::limiter::{Concurrency, Keyed, LeakyQueue};
use ratekeeper::{Cost, Limiter};
use ratekeeper_http::client::{Pace, PaceError, Rejected};
use tokio::time::Instant;
use tower::{Service, ServiceExt};
use tower_layer::Layer;

use crate::support::{Dialect, Server, request};

fn get(host: &str) -> Request<()> {
    Request::get(format!("http://{host}/")).body(()).unwrap()
}

/// A server that answers at once, or never.
fn client(
    pace: &Pace,
) -> impl Service<Request<()>, Response = Response<()>, Error = PaceError<Infallible>, Future: Send> + Clone + use<>
{
    pace.layer().layer(tower::service_fn(|request: Request<()>| async move {
        if request.uri().host() == Some("silent.example") {
            std::future::pending::<()>().await;
        }
        Ok::<_, Infallible>(Response::new(()))
    }))
}

#[tokio::test(start_paused = true)]
async fn a_limiter_that_others_use_too() {
    let limiter = Limiter::new("1/s burst 3".parse().unwrap()).unwrap();
    let client = client(&Pace::over(limiter.clone()).timeout(Duration::ZERO));
    assert!(limiter.try_acquire(Cost::ONE).allowed, "by somebody else");
    for host in ["a.example", "b.example"] {
        assert!(client.clone().oneshot(get(host)).await.is_ok());
    }
    let refused = client.oneshot(get("c.example")).await.unwrap_err();
    assert!(matches!(refused, PaceError::Rejected(Rejected::Local(_))), "all hosts share it: {refused}");
    assert_eq!(limiter.statistics().acquired, 3);
}

#[tokio::test(start_paused = true)]
async fn a_limit_for_each_host_that_others_use_too() {
    let keyed: Keyed<String> = Keyed::new("1/s burst 1".parse().unwrap()).unwrap();
    let client = client(&Pace::over(keyed.clone()).timeout(Duration::ZERO));
    assert!(keyed.try_acquire("a.example", Cost::ONE).allowed);
    assert!(client.clone().oneshot(get("a.example")).await.is_err());
    assert!(client.oneshot(get("b.example")).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn permits_that_others_use_too() {
    let permits = Concurrency::new(1).unwrap();
    let client = client(&Pace::over(permits.clone()).timeout(Duration::ZERO));
    let held = permits.try_acquire().unwrap();
    assert!(client.clone().oneshot(get("a.example")).await.is_err());
    drop(held);
    assert!(client.oneshot(get("a.example")).await.is_ok());
    assert_eq!(permits.in_flight(), 0, "it came back");
}

#[tokio::test(start_paused = true)]
async fn a_constant_rate() {
    let queue = LeakyQueue::new("1/s".parse().unwrap(), 10).unwrap();
    let client = client(&Pace::over(queue));
    let start = Instant::now();
    for _ in 0..4 {
        client.clone().oneshot(get("a.example")).await.unwrap();
    }
    assert_eq!((start.elapsed() + Duration::from_millis(5)).as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_and_what_was_not() {
    let server = Server::new(Dialect::Ietf, 2, Duration::from_secs(60), 1);
    let pace = Pace::new("100/s".parse().unwrap()).unwrap().timeout(Duration::from_secs(70));
    let client = pace.layer().layer(server);
    assert_eq!(pace.host_statistics("example.com"), None);
    assert_eq!(pace.statistics().hosts, 0, "a look makes no entry");
    assert_eq!(client.clone().oneshot(request()).await.unwrap().status(), 200);
    let known = pace.host_statistics("example.com").unwrap();
    assert_eq!(known.local.unwrap().acquired, 1);
    assert_eq!((known.in_flight, known.paused_for), (0, None));
    assert_eq!(known.budget, Some((0, Duration::from_secs(60))));
    // One has to wait for a minute; one gives up.
    let waiting = tokio::spawn(client.clone().oneshot(request()));
    let given_up = tokio::spawn(client.oneshot(request()));
    tokio::task::yield_now().await;
    assert_eq!(pace.statistics().waiting, 2);
    given_up.abort();
    assert!(given_up.await.unwrap_err().is_cancelled());
    assert_eq!(waiting.await.unwrap().unwrap().status(), 200);
    let hurried = pace.clone().timeout(Duration::ZERO).layer().layer(Server::new(
        Dialect::Ietf,
        1,
        Duration::from_secs(60),
        1,
    ));
    assert_eq!(hurried.clone().oneshot(get("other.example")).await.unwrap().status(), 429);
    assert!(hurried.oneshot(get("other.example")).await.is_err());
    let statistics = pace.statistics();
    assert_eq!((statistics.sent, statistics.retried, statistics.rejected), (3, 0, 1), "{statistics:?}");
    assert_eq!((statistics.in_flight, statistics.waiting, statistics.hosts), (0, 0, 2), "{statistics:?}");
}

#[tokio::test(start_paused = true)]
async fn closing_fails_those_who_wait_and_those_who_come() {
    let limiter = Limiter::new("1/h burst 1".parse().unwrap()).unwrap();
    let pace = Pace::over(limiter.clone());
    let client = client(&pace);
    let sent = tokio::spawn(client.clone().oneshot(get("silent.example")));
    tokio::task::yield_now().await;
    let waiting = tokio::spawn(client.clone().oneshot(get("a.example")));
    tokio::task::yield_now().await;
    assert_eq!((pace.statistics().waiting, pace.statistics().in_flight), (1, 1));
    pace.close();
    pace.close();
    assert!(pace.is_closed());
    for error in [waiting.await.unwrap().unwrap_err(), client.oneshot(get("a.example")).await.unwrap_err()] {
        assert!(matches!(error, PaceError::Rejected(Rejected::Closed)), "{error}");
    }
    let statistics = pace.statistics();
    assert_eq!((statistics.sent, statistics.rejected, statistics.waiting), (1, 2, 0));
    assert_eq!(statistics.in_flight, 1, "what was sent goes on");
    sent.abort();
    assert!(sent.await.unwrap_err().is_cancelled());
    assert!(!limiter.is_closed(), "it is somebody else's");
}
