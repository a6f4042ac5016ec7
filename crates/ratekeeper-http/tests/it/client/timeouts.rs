//! Who waits for how long, and that whoever does not is told the truth.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use ratekeeper_http::client::{Pace, PaceError, Rejected};
use tokio::time::Instant;
use tower::ServiceExt;
use tower_layer::Layer;

use crate::client::support::{Dialect, Server, request};

const MINUTE: Duration = Duration::from_secs(60);

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Ten at once to a server that takes 200 ms to answer; what became of each, and after how long.
async fn ten(pace: &Pace) -> Vec<(Result<u16, PaceError<Infallible>>, Duration)> {
    let client = pace.layer().layer(tower::service_fn(|_: Request<()>| async {
        tokio::time::sleep(millis(200)).await;
        Ok::<_, Infallible>(Response::new(()))
    }));
    let start = Instant::now();
    let send = || {
        let client = client.clone();
        async move {
            let answer = client.oneshot(request()).await;
            (answer.map(|response| response.status().as_u16()), start.elapsed())
        }
    };
    let tasks: Vec<_> = (0..10).map(|_| tokio::spawn(send())).collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap());
    }
    answers
}

/// One of ten was sent, and nine were told that "the server asks to wait", which it did not.
#[tokio::test(start_paused = true)]
async fn nobody_fails_for_what_no_server_has_said() {
    for timeout in [Duration::ZERO, millis(1), millis(100), millis(250), MINUTE] {
        for (answer, after) in ten(&Pace::default().timeout(timeout)).await {
            assert_eq!(answer.unwrap(), 200, "{timeout:?}");
            // The first one's answer is waited for, for half of the time.
            assert!(after <= millis(205) + millis(200).min(timeout / 2), "{timeout:?}: {after:?}");
        }
    }
}

/// The courtesy leaves time for the limit of one's own; who fails by that is told of that.
#[tokio::test(start_paused = true)]
async fn who_fails_is_told_by_whose_limit() {
    let pace = Pace::new("50/s burst 1".parse().unwrap()).unwrap().timeout(millis(100));
    let answers = ten(&pace).await;
    let sent = answers.iter().filter(|(answer, _)| answer.is_ok()).count();
    assert!((3..=5).contains(&sent), "{sent}");
    for (answer, _) in answers {
        if let Err(error) = answer {
            let PaceError::Rejected(rejected @ Rejected::Local(_)) = error else { panic!("{error}") };
            assert!(!rejected.to_string().contains("server"), "{rejected}");
            assert!(rejected.retry_after().is_some_and(|wait| wait <= millis(220)), "{rejected:?}");
        }
    }
}

/// The server's own word is heeded, whatever the timeout.
#[tokio::test(start_paused = true)]
async fn what_the_server_has_said_holds_for_those_in_a_hurry_too() {
    let server = Server::new(Dialect::Ietf, 2, MINUTE, 0);
    let client = Pace::default().retries(0).timeout(Duration::ZERO).layer().layer(server.clone());
    for _ in 0..2 {
        assert_eq!(client.clone().oneshot(request()).await.unwrap().status(), 200);
    }
    let error = client.oneshot(request()).await.unwrap_err();
    let PaceError::Rejected(rejected) = error else { panic!("{error}") };
    assert_eq!(rejected, Rejected::Server { ready_in: MINUTE });
    assert_eq!(rejected.retry_after(), Some(MINUTE));
    assert_eq!(
        rejected.to_string(),
        "not sent: the server takes no more requests for 60s; raise the timeout to wait for it"
    );
    assert_eq!(server.counts(), (2, 0));
}

/// The refusal was thrown away, and the caller got an error instead.
#[tokio::test(start_paused = true)]
async fn a_refusal_that_cannot_be_tried_again_in_time_is_the_answer() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hear = Arc::clone(&heard);
    let pace = Pace::default()
        .timeout(Duration::from_secs(10))
        .on_rejected(move |_, rejected| hear.lock().unwrap().push(*rejected));
    let server = Server::new(Dialect::Ietf, 5, MINUTE, 5);
    let client = pace.layer().layer(server.clone());
    let start = Instant::now();
    let response = client.clone().oneshot(request()).await.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["retry-after"].to_str().unwrap()),
        (429, &"60")
    );
    assert_eq!(start.elapsed(), Duration::ZERO, "at once");
    assert_eq!(server.counts(), (0, 1));
    assert!(heard.lock().unwrap().is_empty(), "it was sent");
    assert!(client.oneshot(request()).await.is_err(), "the next one is not");
    assert_eq!(heard.lock().unwrap().len(), 1);
}

/// The same if it could be tried again once, and not twice.
#[tokio::test(start_paused = true)]
async fn the_last_refusal_is_the_answer() {
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let client = Pace::default().retries(5).timeout(Duration::from_secs(10)).layer().layer(
        tower::service_fn(move |_: Request<()>| {
            let wait = if count.fetch_add(1, Ordering::Relaxed) == 0 { "5" } else { "50" };
            let response = Response::builder().status(429).header("retry-after", wait).body(()).unwrap();
            async { Ok::<_, Infallible>(response) }
        }),
    );
    let response = client.oneshot(request()).await.unwrap();
    assert_eq!(response.headers()["retry-after"], "50");
    assert_eq!(sent.load(Ordering::Relaxed), 2);
}

/// A request that could be sent in time was refused, because it might have come back later than asked. However much
/// later that may be, it is no later than there is time.
#[tokio::test(start_paused = true)]
async fn jitter_refuses_nothing_that_can_be_met() {
    let second = Duration::from_secs(1);
    // The first one's refusal is tried again, or is the answer, and another one comes.
    for retries in [0, 1] {
        for timeout in [second, millis(1_001), 2 * second, MINUTE] {
            let sent = Arc::new(AtomicUsize::new(0));
            let pace = Pace::default().retries(retries).timeout(timeout).jitter(60 * MINUTE);
            let client = pace.layer().layer(tower::service_fn(move |_: Request<()>| {
                let is_first = sent.fetch_add(1, Ordering::Relaxed) == 0;
                let response = Response::builder().status(if is_first { 429 } else { 200 });
                let response = if is_first { response.header("retry-after", "1") } else { response };
                async { Ok::<_, Infallible>(response.body(()).unwrap()) }
            }));
            let start = Instant::now();
            if retries == 0 {
                assert_eq!(client.clone().oneshot(request()).await.unwrap().status(), 429);
            }
            let answer = client.oneshot(request()).await;
            assert_eq!(answer.unwrap().status(), 200, "{retries} retries, {timeout:?}");
            // Timers go by the millisecond.
            assert!((second..=timeout + millis(1)).contains(&start.elapsed()), "{:?}", start.elapsed());
        }
    }
}

/// Who comes back later than asked still has time for the limit of its own.
#[tokio::test(start_paused = true)]
async fn jitter_leaves_time_for_the_limit() {
    let sent = Arc::new(AtomicUsize::new(0));
    let pace = Pace::new("1 per 2s burst 1".parse().unwrap()).unwrap();
    let pace = pace.timeout(Duration::from_secs(3)).jitter(60 * MINUTE);
    let client = pace.layer().layer(tower::service_fn(move |_: Request<()>| {
        let is_first = sent.fetch_add(1, Ordering::Relaxed) == 0;
        let response = Response::builder().status(if is_first { 429 } else { 200 });
        let response = if is_first { response.header("retry-after", "1") } else { response };
        async { Ok::<_, Infallible>(response.body(()).unwrap()) }
    }));
    assert_eq!(client.oneshot(request()).await.unwrap().status(), 200);
}
