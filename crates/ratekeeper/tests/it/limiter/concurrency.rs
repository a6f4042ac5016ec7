//! Permits.

use std::task::Poll;

use ratekeeper::limiter::{AcquireErrorKind, Concurrency, PermitOutcome};
use tokio::time::Instant;

use crate::limiter::support::{advance, failure, failure_and_retry, ms, poll, settle, since};

#[tokio::test(start_paused = true)]
async fn permits_come_back_however_they_are_lost() {
    let limit = Concurrency::new(1).unwrap();
    let task = tokio::spawn({
        let limit = limit.clone();
        async move {
            let _permit = limit.acquire_owned().await.unwrap();
            std::future::pending::<()>().await;
        }
    });
    settle().await;
    assert_eq!(limit.in_flight(), 1);
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    assert_eq!(limit.in_flight(), 0, "by cancellation");

    let panicking = tokio::spawn({
        let limit = limit.clone();
        async move {
            let _permit = limit.acquire().await.unwrap();
            std::panic::resume_unwind(Box::new(()));
        }
    });
    assert!(panicking.await.unwrap_err().is_panic());
    assert_eq!(limit.in_flight(), 0, "by panic");

    limit.acquire().await.unwrap().finish(PermitOutcome::Success);
    assert_eq!(limit.in_flight(), 0, "by being done");
    assert_eq!(limit.statistics().acquired, 3);
}

#[tokio::test(start_paused = true)]
async fn permits_go_to_the_oldest_and_nobody_overtakes() {
    let limit = Concurrency::builder("1 concurrent".parse().unwrap()).queue(2).build().unwrap();
    let held = limit.try_acquire().unwrap();
    let (mut first, mut second) = (limit.acquire(), limit.acquire());
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    assert_eq!(failure_and_retry(limit.acquire().await), (AcquireErrorKind::QueueFull, None));
    drop(held);
    assert!(limit.try_acquire().is_err(), "it was handed to the first");
    assert!(poll(&mut second).is_pending());
    drop(first); // granted, but not taken up
    let Poll::Ready(Ok(permit)) = poll(&mut second) else { panic!("it is handed on") };
    limit.close();
    assert_eq!(limit.in_flight(), 1, "a held permit outlives the close");
    drop(permit);
    assert_eq!(failure(limit.acquire().await), AcquireErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn deadlines_are_kept_although_nothing_can_be_foreseen() {
    let limit = Concurrency::new(1).unwrap();
    let held = limit.acquire_owned().await.unwrap();
    assert_eq!(failure_and_retry(limit.acquire().within(ms(0)).await), (AcquireErrorKind::Deadline, None));
    let start = Instant::now();
    let waiter = |millis| {
        let limit = limit.clone();
        tokio::spawn(async move { limit.acquire_owned().within(ms(millis)).await.map(drop) })
    };
    let (late, early) = (waiter(300), waiter(100));
    assert_eq!(failure(early.await.unwrap()), AcquireErrorKind::Deadline);
    assert_eq!(since(start), 100, "the earliest deadline, wherever it stands in the queue");
    advance(ms(50)).await;
    drop(held);
    late.await.unwrap().unwrap();
    assert_eq!(since(start), 150);
}

#[tokio::test(start_paused = true)]
async fn a_lower_limit_lets_nobody_in_until_it_is_kept() {
    let limit = Concurrency::new(3).unwrap();
    let mut held: Vec<_> = (0..3).map(|_| limit.try_acquire_owned().unwrap()).collect();
    limit.set_limit(1).unwrap();
    let mut waiter = limit.acquire();
    held.truncate(1);
    assert!(poll(&mut waiter).is_pending());
    limit.set_limit(2).unwrap();
    assert!(poll(&mut waiter).is_ready());
    assert!(limit.set_limit(0).is_err());
}
