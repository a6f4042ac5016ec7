//! Permits that several requests, or several hosts, share: who waits for a server keeps them from nobody.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, Response};
use ratekeeper::limiter::{AnyLimiter, Concurrency};
use ratekeeper::{Limiter, all};
use ratekeeper_http::client::Pace;
use tokio::sync::Notify;
use tower::ServiceExt;
use tower_layer::Layer;

use crate::client::support::get;

const HOUR: Duration = Duration::from_secs(3600);

/// Over one permit, in every way in which a pace can be put over one that all hosts share.
fn over(permits: &Concurrency) -> [(&'static str, Pace); 4] {
    let both = || all![&Limiter::new("1000/s".parse().unwrap()).unwrap(), permits].unwrap();
    let any: Arc<dyn AnyLimiter> = Arc::new(both());
    [
        ("Concurrency", Pace::over(permits.clone())),
        ("All", Pace::over(both())),
        ("dyn All", Pace::over(any)),
        ("dyn Concurrency", Pace::over(Arc::new(permits.clone()) as Arc<dyn AnyLimiter>)),
    ]
}

/// Two at once; the answer to the first pauses the host while the second waits for the permit. The second then held
/// the permit that it waited for.
#[tokio::test(start_paused = true)]
async fn a_pause_while_one_waits_for_the_permit_does_not_lock_it_out() {
    let permits = Concurrency::new(1).unwrap();
    let of_the_host = ("1 concurrent", Pace::new("1 concurrent".parse().unwrap()).unwrap());
    for (name, pace) in over(&permits).into_iter().chain([of_the_host]) {
        let (count, answer) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let answered = Arc::clone(&answer);
        let client = pace.clone().retries(0).layer().layer(tower::service_fn(move |_: Request<()>| {
            let is_refused = count.fetch_add(1, Ordering::Relaxed) == 1;
            let answered = Arc::clone(&answered);
            async move {
                answered.notified().await;
                let response = Response::builder().status(if is_refused { 429 } else { 200 });
                let response = if is_refused { response.header("retry-after", "1") } else { response };
                Ok::<_, Infallible>(response.body(()).unwrap())
            }
        }));
        answer.notify_one();
        assert_eq!(client.clone().oneshot(get("a.example")).await.unwrap().status(), 200, "{name}");
        let first = tokio::spawn(client.clone().oneshot(get("a.example")));
        let second = tokio::spawn(client.clone().oneshot(get("a.example")));
        tokio::task::yield_now().await;
        let statistics = pace.statistics();
        assert_eq!((statistics.in_flight, statistics.waiting), (1, 1), "{name}");
        answer.notify_one();
        assert_eq!(first.await.unwrap().unwrap().status(), 429, "{name}");
        answer.notify_one();
        let second = tokio::time::timeout(HOUR, second).await;
        let second = second.unwrap_or_else(|_| panic!("{name}: not sent within an hour"));
        assert_eq!(second.unwrap().unwrap().status(), 200, "{name}");
        assert_eq!((permits.in_flight(), pace.statistics().in_flight), (0, 0), "{name}");
    }
}

/// Two requests wait for a host that is paused for an hour; they held both permits, and every other host waited too.
#[tokio::test(start_paused = true)]
async fn a_paused_host_holds_no_other_host_up() {
    let permits = Concurrency::new(2).unwrap();
    for (name, pace) in over(&permits) {
        let client =
            pace.clone().retries(0).layer().layer(tower::service_fn(|request: Request<()>| async move {
                let is_busy = request.uri().host() == Some("busy.example");
                let response = Response::builder().status(if is_busy { 429 } else { 200 });
                let response = if is_busy { response.header("retry-after", "3600") } else { response };
                Ok::<_, Infallible>(response.body(()).unwrap())
            }));
        assert_eq!(client.clone().oneshot(get("busy.example")).await.unwrap().status(), 429, "{name}");
        let send = || tokio::spawn(client.clone().oneshot(get("busy.example")));
        let waiting = [send(), send()];
        tokio::task::yield_now().await;
        let statistics = pace.statistics();
        assert_eq!((statistics.in_flight, statistics.waiting), (0, 2), "{name}");
        assert_eq!(permits.in_flight(), 0, "{name}: as many as are on their way");
        let other = tokio::time::timeout(HOUR / 2, client.clone().oneshot(get("fine.example"))).await;
        let other = other.unwrap_or_else(|_| panic!("{name}: waited for another host"));
        assert_eq!(other.unwrap().status(), 200, "{name}");
        for waiting in waiting {
            assert_eq!(waiting.await.unwrap().unwrap().status(), 429, "{name}: sent after the pause");
        }
        let statistics = pace.statistics();
        assert_eq!((statistics.sent, statistics.in_flight, permits.in_flight()), (4, 0, 0), "{name}");
    }
}

/// Those of one host are for nobody else: they are held while the server is waited for, so that only as many wait for
/// it as it will be sent at once.
#[tokio::test(start_paused = true)]
async fn permits_of_one_host_are_held_while_it_is_paused() {
    let pace = Pace::new("1 concurrent".parse().unwrap()).unwrap().retries(0);
    let client = pace.layer().layer(tower::service_fn(|_: Request<()>| async {
        let response = Response::builder().status(429).header("retry-after", "3600");
        Ok::<_, Infallible>(response.body(()).unwrap())
    }));
    assert_eq!(client.clone().oneshot(get("a.example")).await.unwrap().status(), 429);
    let waiting = [(); 2].map(|()| tokio::spawn(client.clone().oneshot(get("a.example"))));
    tokio::task::yield_now().await;
    let local = pace.host_statistics("a.example:80").unwrap().local.unwrap();
    assert_eq!((local.available, local.queue_depth), (0, 1), "one waits for the server, one for the permit");
    assert_eq!((pace.statistics().in_flight, pace.statistics().waiting), (0, 2));
    for waiting in waiting {
        assert_eq!(waiting.await.unwrap().unwrap().status(), 429, "sent after the pause");
    }
}
