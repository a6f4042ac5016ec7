//! One limit: order, the guard, deadlines, cancellation, close.

use std::sync::{Arc, Mutex};
use std::task::Poll;

use ratekeeper::limiter::{AcquireErrorKind, Inherit, Limiter, Ticks};
use ratekeeper::{Cost, Nanos, Reason};
use tokio::time::Instant;

use crate::limiter::support::{ONE, advance, failure, failure_and_retry, limiter, ms, poll, settle, since};

const EVERY_ALGORITHM: [&str; 8] = [
    "10/s burst 1",
    "10/s burst 1 bucket",
    "10/s burst 1 leaky",
    "1 per 100ms fixed",
    "1 per 100ms fixed grid",
    "1 per 100ms sliding",
    "1 per 100ms log",
    "10/s burst 1 gcra",
];

#[tokio::test(start_paused = true)]
async fn every_algorithm_grants_in_order_and_in_time() {
    for quota in EVERY_ALGORITHM {
        let limiter = limiter(quota);
        let order = Arc::new(Mutex::new(Vec::new()));
        assert!(limiter.try_acquire(ONE).allowed);
        let start = Instant::now();
        let tasks: Vec<_> = (0..5)
            .map(|number| {
                let (limiter, order) = (limiter.clone(), Arc::clone(&order));
                tokio::spawn(async move {
                    limiter.acquire(ONE).await.unwrap();
                    order.lock().unwrap().push(number);
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4], "{quota}");
        // A log counts an entry until it is older than the window, and timers fire on whole milliseconds.
        let late = if quota.contains("log") || quota.contains("sliding") { 500..=610 } else { 400..=500 };
        assert!(late.contains(&since(start)), "{quota}: {} ms", since(start));
        let statistics = limiter.statistics();
        assert_eq!((statistics.acquired, statistics.rejected, statistics.queue_depth), (6, 0, 0), "{quota}");
    }
}

#[tokio::test(start_paused = true)]
async fn grants_come_exactly_when_they_are_due() {
    let limiter = limiter("10/s burst 1");
    let start = Instant::now();
    for due in [0, 100, 200, 300] {
        limiter.acquire(ONE).await.unwrap();
        assert_eq!(since(start), due);
    }
    limiter.acquire(ONE).within(ms(100)).await.unwrap();
    assert_eq!(since(start), 400, "a deadline at the very instant of the grant is met");
}

#[tokio::test(start_paused = true)]
async fn while_anyone_waits_nobody_overtakes() {
    for quota in ["10/s burst 5", "10/s burst 5 bucket", "5 per 500ms fixed"] {
        let limiter = limiter(quota);
        assert!(limiter.try_acquire(Cost::new(3)).allowed);
        let mut waiter = limiter.acquire(Cost::new(5));
        assert!(poll(&mut waiter).is_pending());
        assert_eq!(limiter.statistics().available, 2, "there is room for a smaller one");
        let refused = limiter.try_acquire(ONE);
        assert!(!refused.allowed);
        assert_eq!((refused.reason, refused.remaining), (Reason::Queued, 0));
        assert!(limiter.peek(ONE).allowed, "a look tells what is there");
        let mut second = limiter.acquire(ONE);
        assert!(poll(&mut second).is_pending(), "and so is the fast path of acquire");
        drop(waiter);
        assert!(poll(&mut second).is_ready(), "the guard goes with the waiter");
        assert!(limiter.try_acquire(ONE).allowed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_while_others_wait_counts_their_time_too() {
    let limiter = limiter("10/s burst 1");
    assert!(limiter.try_acquire(ONE).allowed);
    let mut waiters: Vec<_> = (0..3).map(|_| limiter.acquire(ONE)).collect();
    assert!(waiters.iter_mut().all(|waiter| poll(waiter).is_pending()));
    assert_eq!(limiter.try_acquire(ONE).retry_after, Some(Nanos::from_millis(400)));
    assert_eq!(limiter.try_acquire(ONE).retry_after, Some(Nanos::from_millis(400)));
    drop(waiters.remove(1));
    assert_eq!(limiter.try_acquire(ONE).retry_after, Some(Nanos::from_millis(300)));
    assert_eq!(limiter.try_acquire(Cost::new(2)).reason, Reason::NeverFits);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_cannot_be_met_fails_at_once_and_takes_nothing() {
    for quota in ["10/s burst 1", "10/s burst 1 bucket", "10/s burst 1 leaky", "1 per 100ms fixed"] {
        let limiter = limiter(quota);
        limiter.acquire(ONE).await.unwrap();
        let mut first = limiter.acquire(ONE);
        assert!(poll(&mut first).is_pending());
        let start = Instant::now();
        // Due after 200 ms: one is ahead.
        for millis in [0, 1, 199] {
            let error = limiter.acquire(ONE).within(ms(millis)).await.unwrap_err();
            assert_eq!(error.kind(), AcquireErrorKind::Deadline, "{quota}");
            assert_eq!(error.retry_after(), Some(Nanos::from_millis(200)), "{quota}");
        }
        assert_eq!(since(start), 0);
        assert_eq!(limiter.statistics().queue_depth, 1);
        let mut met = limiter.acquire(ONE).within(ms(200));
        assert!(poll(&mut met).is_pending());
        advance(ms(200)).await;
        assert!(matches!(poll(&mut first), Poll::Ready(Ok(_))), "{quota}");
        assert!(matches!(poll(&mut met), Poll::Ready(Ok(_))), "{quota}");
        assert_eq!(limiter.statistics().rejected, 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_passes_after_all_is_noticed_in_time() {
    let limiter = limiter("10/s burst 1");
    limiter.acquire(ONE).await.unwrap();
    let waiter = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.acquire(ONE).within(ms(150)).await }
    });
    settle().await;
    let start = Instant::now();
    limiter.set_quota("1/m burst 1".parse().unwrap(), Inherit::Proportional).unwrap();
    let retry = Some(60_000 - 150);
    assert_eq!(failure_and_retry(waiter.await.unwrap()), (AcquireErrorKind::Deadline, retry));
    assert_eq!(since(start), 150);
}

#[tokio::test(start_paused = true)]
async fn no_time_at_all_never_enters_the_queue() {
    let limiter = Limiter::builder("10/s burst 1".parse().unwrap()).queue(1).build().unwrap();
    assert!(limiter.acquire(ONE).within(ms(0)).await.is_ok(), "a free limiter needs no time");
    let refused = limiter.acquire(ONE).within(ms(0)).await;
    assert_eq!(failure_and_retry(refused), (AcquireErrorKind::Deadline, Some(100)));
    let mut waiter = limiter.acquire(ONE);
    assert!(poll(&mut waiter).is_pending());
    assert_eq!(failure_and_retry(limiter.acquire(ONE).await), (AcquireErrorKind::QueueFull, Some(100)));
    assert_eq!(failure(limiter.acquire(Cost::new(2)).await), AcquireErrorKind::NeverFits);
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_nobody_takes_up_is_handed_on() {
    for quota in EVERY_ALGORITHM {
        let limiter = limiter(quota);
        assert!(limiter.try_acquire(ONE).allowed);
        if quota.ends_with("grid") {
            // From the beginning of a window: shortly before its end, two would begin in the time that is waited.
            advance(limiter.try_acquire(ONE).retry_after.unwrap().into()).await;
            assert!(limiter.try_acquire(ONE).allowed);
        }
        let acquired = limiter.statistics().acquired;
        let (mut first, mut second) = (limiter.acquire(ONE), limiter.acquire(ONE));
        assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
        // Within the window of the grant, but for the windows whose next one has begun.
        advance(ms(102)).await;
        assert_eq!(limiter.statistics().queue_depth, 1, "{quota}: the first was granted");
        drop(first);
        assert!(poll(&mut second).is_ready(), "{quota}");
        let statistics = limiter.statistics();
        assert_eq!((statistics.acquired, statistics.cancelled), (acquired + 1, 1), "{quota}");
        assert!(!limiter.try_acquire(ONE).allowed, "{quota}: nothing was minted");
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_of_an_earlier_window_is_not_given_back_to_this_one() {
    let limiter = Limiter::ticking(Ticks::window(2, ms(100))).unwrap();
    assert!(limiter.try_acquire(Cost::new(2)).allowed);
    let mut stale = limiter.acquire(Cost::new(2));
    assert!(poll(&mut stale).is_pending());
    advance(ms(250)).await;
    assert!(limiter.try_acquire(Cost::new(2)).allowed);
    drop(stale);
    assert!(!limiter.try_acquire(ONE).allowed);
}

#[tokio::test(start_paused = true)]
async fn close_fails_everybody_now() {
    let limiter = limiter("1/m burst 1");
    limiter.acquire(ONE).await.unwrap();
    let start = Instant::now();
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move { limiter.acquire(ONE).await })
        })
        .collect();
    settle().await;
    limiter.close();
    limiter.close();
    for waiter in waiters {
        assert_eq!(failure(waiter.await.unwrap()), AcquireErrorKind::Closed);
    }
    assert_eq!(since(start), 0);
    assert_eq!(failure(limiter.acquire(ONE).await), AcquireErrorKind::Closed);
    assert_eq!(limiter.try_acquire(ONE).reason, Reason::Closed);
    let statistics = limiter.statistics();
    assert_eq!((statistics.acquired, statistics.rejected, statistics.queue_depth), (1, 5, 0));
}

#[tokio::test(start_paused = true)]
async fn a_refund_lets_the_next_one_in_at_once() {
    let limiter = limiter("1/m burst 2");
    limiter.acquire(Cost::new(2)).await.unwrap();
    let mut waiter = limiter.acquire(ONE);
    assert!(poll(&mut waiter).is_pending());
    limiter.refund(ONE);
    assert!(poll(&mut waiter).is_ready());
    assert!(!limiter.try_acquire(ONE).allowed);
    limiter.reset();
    assert!(limiter.try_acquire(Cost::new(2)).allowed);
}

#[tokio::test(start_paused = true)]
async fn a_new_quota_keeps_scales_or_forgets() {
    let changed = |inherit| {
        let limiter = limiter("100/h burst 10");
        assert!(limiter.try_acquire(Cost::new(5)).allowed);
        limiter.set_quota("100/h burst 20".parse().unwrap(), inherit).unwrap();
        limiter.peek(ONE).remaining
    };
    assert_eq!(changed(Inherit::Keep), 15);
    assert_eq!(changed(Inherit::Proportional), 10);
    assert_eq!(changed(Inherit::Reset), 20);

    let limiter = limiter("100/h burst 10");
    assert!(limiter.try_acquire(Cost::new(4)).allowed);
    limiter.set_quota("10/h fixed".parse().unwrap(), Inherit::Keep).unwrap();
    assert_eq!(limiter.peek(ONE).remaining, 6, "what was used counts, whatever counts it");
    let mut waiter = limiter.acquire(Cost::new(8));
    assert!(poll(&mut waiter).is_pending());
    limiter.set_quota("7/h".parse().unwrap(), Inherit::Keep).unwrap();
    assert_eq!(failure(waiter.await), AcquireErrorKind::NeverFits);
    assert!(limiter.set_quota("7 concurrent".parse().unwrap(), Inherit::Keep).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_future_that_nobody_polls_holds_up_nobody() {
    let limiter = limiter("10/s burst 1");
    limiter.acquire(ONE).await.unwrap();
    let start = Instant::now();
    let mut forgotten = limiter.acquire(ONE);
    assert!(poll(&mut forgotten).is_pending());
    limiter.acquire(ONE).await.unwrap();
    assert_eq!(since(start), 200);
    assert!(poll(&mut forgotten).is_ready());
}

#[tokio::test(start_paused = true)]
async fn ticks_wait_for_the_grid() {
    let limiter = Limiter::ticking(Ticks::bucket(4, 2, ms(100)).initial(1)).unwrap();
    let start = Instant::now();
    limiter.acquire(Cost::new(3)).await.unwrap();
    assert_eq!(since(start), 100);
    advance(ms(30)).await;
    limiter.acquire(Cost::new(4)).await.unwrap();
    assert_eq!(since(start), 300, "not 100 ms after the request");
}

#[test]
fn when_a_runtime_ends_its_waiters_leave_and_another_takes_over() {
    let limiter = limiter("1000/s burst 1");
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let first = runtime();
    let mut asked = 0;
    // The one that has to wait starts the timer, which ends with this runtime.
    let inside = first.enter();
    let waiter = loop {
        let mut acquire = limiter.acquire(ONE);
        asked += 1;
        if poll(&mut acquire).is_pending() {
            break acquire;
        }
    };
    drop(inside);
    drop(first);
    runtime().block_on(async {
        waiter.await.unwrap();
        limiter.acquire(ONE).await.unwrap();
    });
    assert_eq!(limiter.statistics().acquired, asked + 1);
}
