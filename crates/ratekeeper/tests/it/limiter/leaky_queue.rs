//! A constant rate out.

use ratekeeper::limiter::{AcquireErrorKind, LeakyQueue};
use ratekeeper::{Nanos, Reason};
use tokio::time::Instant;

use crate::limiter::support::{advance, failure, failure_and_retry, ms, poll, since};

#[tokio::test(start_paused = true)]
async fn they_leave_in_order_one_every_interval() {
    let queue = LeakyQueue::new("10/s".parse().unwrap(), 3).unwrap();
    let start = Instant::now();
    let waiters: Vec<_> = (0..4)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move {
                queue.acquire().await.unwrap();
                since(start)
            })
        })
        .collect();
    for (number, waiter) in waiters.into_iter().enumerate() {
        assert_eq!(waiter.await.unwrap(), number as u128 * 100, "burst does not count");
    }
}

#[tokio::test(start_paused = true)]
async fn at_most_the_capacity_has_not_left() {
    let queue = LeakyQueue::new("10/s".parse().unwrap(), 2).unwrap();
    queue.acquire().await.unwrap();
    let mut waiters = [queue.acquire(), queue.acquire()];
    assert!(waiters.iter_mut().all(|waiter| poll(waiter).is_pending()));
    assert_eq!(failure_and_retry(queue.acquire().await), (AcquireErrorKind::QueueFull, Some(100)));
    assert_eq!(queue.try_acquire().reason, Reason::Queued, "they wait");
    let [first, mut second] = waiters;
    drop(first);
    advance(ms(100)).await;
    assert!(poll(&mut second).is_ready(), "who was behind moves up");
}

#[tokio::test(start_paused = true)]
async fn who_does_not_wait_occupies_a_place_until_it_would_have_leaked() {
    let queue = LeakyQueue::new("10/s".parse().unwrap(), 2).unwrap();
    for _ in 0..3 {
        assert!(queue.try_acquire().allowed);
    }
    let refused = queue.try_acquire();
    assert_eq!((refused.allowed, refused.retry_after), (false, Some(Nanos::from_millis(100))));
    assert_eq!(failure_and_retry(queue.acquire().await), (AcquireErrorKind::QueueFull, Some(100)));
    advance(ms(100)).await;
    let start = Instant::now();
    queue.acquire().await.unwrap();
    assert_eq!(since(start), 200, "behind the two that have not leaked yet");
    queue.close();
    assert_eq!(failure(queue.acquire().await), AcquireErrorKind::Closed);
}
