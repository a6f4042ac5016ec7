//! Windows that servers tell of: a later answer does not put the end of one off, and one is sent when it is over.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use ratekeeper_http::client::Pace;
use tokio::time::Instant;
use tower::{Service, ServiceExt};
use tower_layer::Layer;

use crate::client::support::request;

const SECOND: Duration = Duration::from_secs(1);

/// When requests arrived.
type Arrivals = Arc<Mutex<Vec<Instant>>>;

/// A server that always says the same.
fn constant(
    status: u16,
    says: &'static str,
    takes: Duration,
    seen: Arrivals,
) -> impl Service<
    Request<()>,
    Response = Response<()>,
    Error = Infallible,
    Future = impl Future<Output = Result<Response<()>, Infallible>> + Send,
> + Clone
+ Send {
    tower::service_fn(move |_: Request<()>| {
        seen.lock().unwrap().push(Instant::now());
        async move {
            tokio::time::sleep(takes).await;
            Ok(Response::builder().status(status).header("ratelimit", says).body(()).unwrap())
        }
    })
}

fn seconds(arrivals: &Arrivals, since: Instant) -> Vec<u64> {
    arrivals.lock().unwrap().iter().map(|at| (*at - since).as_secs()).collect()
}

/// Each answer put the end of the window off by another minute: with one request every ten seconds, three in a window
/// became three in 90 seconds, and with more of them left, ever fewer.
#[tokio::test(start_paused = true)]
async fn answers_within_a_window_do_not_put_its_end_off() {
    let arrivals = Arrivals::default();
    let server = constant(200, r#""a";r=3;t=60"#, Duration::ZERO, Arc::clone(&arrivals));
    let client = Pace::default().jitter(Duration::ZERO).layer().layer(server);
    let start = Instant::now();
    for _ in 0..9 {
        client.clone().oneshot(request()).await.unwrap();
        tokio::time::sleep(10 * SECOND).await;
    }
    // The first tells of three more in the minute, and so does the first after each minute.
    assert_eq!(seconds(&arrivals, start), [0, 10, 20, 30, 60, 70, 80, 90, 120]);
}

/// Nothing is left, and it stays so: one is sent after each window, to find out.
#[tokio::test(start_paused = true)]
async fn a_server_that_never_has_anything_left_is_sent_one_in_each_window() {
    for status in [200, 429] {
        let arrivals = Arrivals::default();
        let server = constant(status, r#""a";r=0;t=60"#, Duration::ZERO, Arc::clone(&arrivals));
        let client = Pace::default().jitter(Duration::ZERO).retries(0).layer().layer(server);
        let start = Instant::now();
        let tasks: Vec<_> = (0..5).map(|_| tokio::spawn(client.clone().oneshot(request()))).collect();
        for task in tasks {
            assert_eq!(task.await.unwrap().unwrap().status().as_u16(), status);
        }
        assert_eq!(seconds(&arrivals, start), [0, 60, 120, 180, 240], "{status}");
    }
}

/// Of those that are on their way when the last one is used up, each answer may tell of a later end.
#[tokio::test(start_paused = true)]
async fn answers_that_tell_of_nothing_left_do_put_the_end_off() {
    let arrivals = Arrivals::default();
    let server = constant(200, r#""a";r=0;t=60"#, 20 * SECOND, Arc::clone(&arrivals));
    // All of them have no time to wait for the first.
    let pace = Pace::default().jitter(Duration::ZERO);
    let hurried = pace.clone().timeout(Duration::ZERO).layer().layer(server.clone());
    let patient = pace.layer().layer(server);
    let start = Instant::now();
    let first = tokio::spawn(hurried.clone().oneshot(request()));
    tokio::time::sleep(10 * SECOND).await;
    let second = tokio::spawn(hurried.oneshot(request()));
    first.await.unwrap().unwrap();
    patient.oneshot(request()).await.unwrap();
    second.await.unwrap().unwrap();
    assert_eq!(seconds(&arrivals, start), [0, 10, 90], "a minute after the later answer");
}
