//! Limiters that others use too; statistics; closing.

use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::{Request, Response};
use ratekeeper::limiter::{AnyLimiter, Concurrency, Keyed, LeakyQueue, LimiterKind};
use ratekeeper::{Cost, Limiter, all};
use ratekeeper_http::client::{Pace, PaceError, Rejected};
use tokio::time::Instant;
use tower::{Service, ServiceExt};
use tower_layer::Layer;

use crate::client::support::{Dialect, Server, get, request};

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
    let PaceError::Rejected(rejected) = refused else { panic!("{refused}") };
    assert_eq!(rejected.limiter(), Some(LimiterKind::Rate), "all hosts share it: {rejected}");
    assert_eq!(rejected.retry_after(), Some(Duration::from_secs(1)));
    assert_eq!(limiter.statistics().acquired, 3);
}

#[tokio::test(start_paused = true)]
async fn a_limit_for_each_host_that_others_use_too() {
    let keyed: Keyed<String> = Keyed::new("1/s burst 1".parse().unwrap()).unwrap();
    let client = client(&Pace::over(keyed.clone()).timeout(Duration::ZERO));
    assert!(keyed.try_acquire("a.example:80", Cost::ONE).allowed);
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
async fn several_limiters_at_once() {
    let (rate, permits) = (Limiter::new("3/h".parse().unwrap()).unwrap(), Concurrency::new(1).unwrap());
    let both = all![&rate, &permits].unwrap();
    let client = client(&Pace::over(both).timeout(Duration::ZERO));
    let silent = tokio::spawn(client.clone().oneshot(get("silent.example")));
    tokio::task::yield_now().await;
    assert_eq!(permits.in_flight(), 1, "held until it is answered");
    let refused = client.clone().oneshot(get("a.example")).await.unwrap_err();
    let PaceError::Rejected(rejected) = refused else { panic!("{refused}") };
    assert_eq!(rejected.limiter(), Some(LimiterKind::Concurrency), "{rejected}");
    silent.abort();
    assert!(silent.await.unwrap_err().is_cancelled());
    assert!(client.oneshot(get("a.example")).await.is_ok());
    assert_eq!((permits.in_flight(), rate.statistics().acquired), (0, 2), "the refused one was not charged");
    let any: Arc<dyn AnyLimiter> = Arc::new(rate);
    assert!(self::client(&Pace::over(any)).oneshot(get("a.example")).await.is_ok());
}

/// A grant that nobody looked at for a while, and that cannot be used after all because the server has asked for a
/// pause, has come in again since: given back in full, it was there twice.
#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_too_late_buys_nothing() {
    let limiter = Limiter::new("1/s burst 1".parse().unwrap()).unwrap();
    let answer = Arc::new(tokio::sync::Notify::new());
    let answered = Arc::clone(&answer);
    let client =
        Pace::over(limiter.clone()).retries(0).layer().layer(tower::service_fn(move |_: Request<()>| {
            let answered = Arc::clone(&answered);
            async move {
                answered.notified().await;
                let response = Response::builder().status(429).header("retry-after", "3600");
                Ok::<_, Infallible>(response.body(()).unwrap())
            }
        }));
    let millis = Duration::from_millis;
    let first = tokio::spawn(client.clone().oneshot(get("a.example")));
    tokio::task::yield_now().await;
    // Another one waits, polled by hand: for the first one's answer, and after three seconds for the limit.
    let mut late = Box::pin(client.oneshot(get("a.example")));
    let mut poll = async || poll_fn(|context| Poll::Ready(late.as_mut().poll(context).is_pending())).await;
    assert!(poll().await);
    tokio::time::advance(millis(2_900)).await;
    assert!(limiter.try_acquire(1).allowed);
    tokio::time::advance(millis(101)).await;
    assert!(poll().await);
    assert_eq!(limiter.statistics().queue_depth, 1);
    // The server asks for a pause; then the grant comes, and nobody takes it up.
    answer.notify_one();
    assert_eq!(first.await.unwrap().unwrap().status(), 429);
    tokio::time::sleep(millis(1_000)).await;
    assert_eq!(limiter.statistics().queue_depth, 0);
    tokio::time::sleep(millis(5_000)).await;
    assert!(limiter.try_acquire(1).allowed, "it has come in again");
    assert!(poll().await, "it waits for the server now");
    assert!(!limiter.try_acquire(1).allowed);
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
    assert_eq!(pace.host_statistics("example.com:80"), None);
    assert_eq!(pace.statistics().hosts, 0, "a look makes no entry");
    assert_eq!(client.clone().oneshot(request()).await.unwrap().status(), 200);
    let known = pace.host_statistics("example.com:80").unwrap();
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
