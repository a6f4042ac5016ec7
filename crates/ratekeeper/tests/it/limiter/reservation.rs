//! Estimates and what they turned out to be.

use ratekeeper::limiter::AcquireErrorKind;
use ratekeeper::{Cost, Nanos, Reason};
use tokio::time::Instant;

use crate::limiter::support::{ONE, advance, failure, limiter, ms, settle, since};

#[tokio::test(start_paused = true)]
async fn a_reservation_waits_its_turn_and_tells_when_that_is() {
    let limiter = limiter("10/s burst 10");
    limiter.acquire(Cost::new(10)).await.unwrap();
    let mut first = limiter.reserve(Cost::new(3)).unwrap();
    let second = limiter.reserve(Cost::new(2)).unwrap();
    assert_eq!(first.ready_in(), Some(Nanos::from_millis(300)));
    assert_eq!(second.ready_in(), Some(Nanos::from_millis(500)));
    assert_eq!(limiter.try_acquire(ONE).reason, Reason::Queued);
    let start = Instant::now();
    first.ready().await.unwrap();
    assert_eq!(since(start), 300);
    assert_eq!((first.ready_in(), second.ready_in()), (Some(Nanos::ZERO), Some(Nanos::from_millis(200))));
    drop(first);
    assert_eq!(second.ready_in(), Some(Nanos::ZERO), "what was cancelled goes to the next");
    second.settle(Cost::new(2));
    assert_eq!(limiter.peek(ONE).remaining, 1);
}

#[tokio::test(start_paused = true)]
async fn what_was_more_than_estimated_is_paid_before_anything_else() {
    let limiter = limiter("10/s burst 10");
    let call = limiter.reserve(Cost::new(8)).unwrap();
    call.settle(Cost::new(25));
    // 10 were there, 15 are owed: nobody gets anything for 1.5 seconds.
    let start = Instant::now();
    assert_eq!(limiter.try_acquire(ONE).retry_after, Some(Nanos::from_millis(1_600)));
    let waiter = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.acquire(ONE).await }
    });
    settle().await;
    waiter.await.unwrap().unwrap();
    assert_eq!(since(start), 1_600);
    assert_eq!(limiter.statistics().acquired, 2);
}

#[tokio::test(start_paused = true)]
async fn what_was_used_before_its_turn_is_owed() {
    let limiter = limiter("10/s burst 10");
    limiter.acquire(Cost::new(10)).await.unwrap();
    let impatient = limiter.reserve(Cost::new(5)).unwrap();
    impatient.settle(Cost::new(2));
    assert_eq!(limiter.try_acquire(ONE).retry_after, Some(Nanos::from_millis(300)));
    advance(ms(300)).await;
    assert!(limiter.try_acquire(ONE).allowed);
    assert!(!limiter.try_acquire(ONE).allowed);
}

#[tokio::test(start_paused = true)]
async fn a_closed_limiter_reserves_nothing() {
    let limiter = limiter("10/s burst 10");
    let kept = limiter.reserve(Cost::new(10)).unwrap();
    let mut waiting = limiter.reserve(ONE).unwrap();
    limiter.close();
    assert_eq!((kept.ready_in(), waiting.ready_in()), (Some(Nanos::ZERO), None));
    assert_eq!(failure(waiting.ready().await), AcquireErrorKind::Closed);
    assert_eq!(failure(limiter.reserve(ONE)), AcquireErrorKind::Closed);
    assert_eq!(limiter.statistics().queue_depth, 0);
}
