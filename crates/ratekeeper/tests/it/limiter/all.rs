//! All or none.

use std::task::Poll;

use ratekeeper::limiter::{AcquireErrorKind, Concurrency, Keyed, LimiterKind, Part};
use ratekeeper::{Cost, Nanos, Reason, all};
use tokio::time::Instant;

use crate::limiter::support::{ONE, advance, failure, limiter, ms, poll, settle, since};

#[tokio::test(start_paused = true)]
async fn a_refusal_takes_nothing_and_names_all_who_refuse() {
    let (fast, slow, slots) = (limiter("10/s burst 2"), limiter("1/m burst 1"), Concurrency::new(1).unwrap());
    let together = all![&fast, &slow, &slots].unwrap();
    let granted = together.try_acquire(ONE).unwrap();
    assert_eq!((granted.decision().remaining, granted.decision().rule), (0, 1));
    let refusal = together.try_acquire(ONE).unwrap_err();
    assert_eq!((refusal.allowed, refusal.rule, refusal.reason), (false, 2, Reason::AtCapacity));
    assert_eq!(refusal.retry_after, None, "when a permit comes back cannot be foreseen");
    let answers = together.peek(ONE);
    let refused = answers.iter().enumerate().filter(|(_, answer)| !answer.allowed);
    let refused: Vec<_> = refused.map(|(part, answer)| (part, answer.reason)).collect();
    assert_eq!(refused, [(1, Reason::QuotaExceeded), (2, Reason::AtCapacity)]);
    drop(granted);
    let refusal = together.try_acquire(ONE).unwrap_err();
    assert_eq!((refusal.rule, refusal.retry_after), (1, Some(Nanos::from_secs(60))));
    assert_eq!((fast.peek(ONE).remaining, slots.in_flight()), (1, 0));
    assert_eq!(
        all![&fast, &slow, &fast].unwrap_err().to_string(),
        "part 2 is the same limiter as part 0: give it once, with the cost of both"
    );
}

#[tokio::test(start_paused = true)]
async fn who_waits_takes_all_at_once_when_all_are_there() {
    let (a, b) = (limiter("10/s burst 1"), limiter("5/s burst 1"));
    let together = all![&a, &b].unwrap();
    drop(together.acquire(ONE).await.unwrap());
    let start = Instant::now();
    drop(together.acquire(ONE).await.unwrap());
    assert_eq!(since(start), 200);
    assert_eq!((a.statistics().acquired, b.statistics().acquired), (2, 2));
    assert!(!a.try_acquire(ONE).allowed, "taken when both were there, not before");
}

#[tokio::test(start_paused = true)]
async fn a_spent_key_holds_up_nobody_at_the_common_limit() {
    let (global, users) = (limiter("100/s burst 1"), Keyed::<String>::new("1/m".parse().unwrap()).unwrap());
    let (ann, bob) = (users.limiter("ann").unwrap(), users.limiter("bob").unwrap());
    drop(all![&global, &ann].unwrap().acquire(ONE).await.unwrap());
    let again = all![&global, &ann].unwrap();
    let mut waits_a_minute = again.acquire(ONE);
    assert!(poll(&mut waits_a_minute).is_pending());
    let start = Instant::now();
    drop(all![&global, &bob].unwrap().acquire(ONE).await.unwrap());
    assert_eq!(since(start), 10);
    assert_eq!((global.statistics().queue_depth, ann.statistics().queue_depth), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn giving_up_gives_up_every_place_and_takes_nothing() {
    let (a, slots) = (limiter("10/s burst 1"), Concurrency::new(1).unwrap());
    let together = all![&a, &slots].unwrap();
    let held = slots.try_acquire().unwrap();
    let mut waiter = together.acquire(ONE);
    assert!(poll(&mut waiter).is_pending());
    assert_eq!(slots.statistics().queue_depth, 1);
    assert!(a.peek(ONE).allowed, "nothing is taken while waiting for the other");
    drop(held); // its turn has come, but it does not take it
    drop(waiter);
    assert_eq!((slots.statistics().queue_depth, slots.in_flight(), slots.statistics().cancelled), (0, 0, 1));
    assert!(a.try_acquire(ONE).allowed && slots.try_acquire().is_ok());
}

#[tokio::test(start_paused = true)]
async fn deadlines_and_close_end_the_waiting() {
    let (a, slots) = (limiter("10/s burst 1"), Concurrency::new(1).unwrap());
    let together = all![&a, &slots].unwrap();
    let granted = together.acquire(ONE).await.unwrap();
    let start = Instant::now();
    let error = together.acquire(ONE).within(ms(99)).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.retry_after()),
        (AcquireErrorKind::Deadline, Some(Nanos::from_millis(100)))
    );
    assert_eq!((error.limiter(), error.part()), (LimiterKind::Rate, Some(0)));
    assert_eq!(since(start), 0);
    let error = together.acquire(ONE).within(ms(150)).await.unwrap_err();
    assert_eq!((error.kind(), error.limiter()), (AcquireErrorKind::Deadline, LimiterKind::Concurrency));
    assert_eq!(since(start), 150, "the rate was there after 100 ms, the permit never was");
    assert_eq!(failure(together.acquire(Cost::new(2)).await), AcquireErrorKind::NeverFits);
    let waiter = tokio::spawn({
        let together = together.clone();
        async move { together.acquire(ONE).await.map(drop) }
    });
    settle().await;
    slots.close();
    assert_eq!(failure(waiter.await.unwrap()), AcquireErrorKind::Closed);
    drop(granted);
    assert_eq!((a.statistics().queue_depth, slots.statistics().queue_depth), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn opposite_orders_cannot_wait_for_each_other() {
    let (a, b) = (Concurrency::new(1).unwrap(), Concurrency::new(1).unwrap());
    let (ab, ba) = (all![&a, &b].unwrap(), all![&b, &a].unwrap());
    let tasks: Vec<_> = (0..200)
        .map(|number| {
            let together = if number % 2 == 0 { ab.clone() } else { ba.clone() };
            tokio::spawn(async move {
                let granted = together.acquire(ONE).await.unwrap();
                advance(ms(number % 3)).await;
                drop(granted);
            })
        })
        .collect();
    // Others come and go at each of them alone.
    let alone: Vec<_> = (0..200)
        .map(|number| {
            let limit = if number % 2 == 0 { a.clone() } else { b.clone() };
            tokio::spawn(async move {
                let _permit = limit.acquire().await.unwrap();
                advance(ms(number % 4)).await;
            })
        })
        .collect();
    for task in tasks.into_iter().chain(alone) {
        task.await.unwrap();
    }
    for limit in [&a, &b] {
        let statistics = limit.statistics();
        assert_eq!((statistics.acquired, statistics.queue_depth, limit.in_flight()), (300, 0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_sent_back_stays() {
    // Each is free when the other is not: whoever always moves on would be sent around for ever.
    let (a, b) = (Concurrency::new(1).unwrap(), Concurrency::new(1).unwrap());
    let together = all![&a, &b].unwrap();
    let held_b = b.try_acquire_owned().unwrap();
    let mut waiter = together.acquire(ONE);
    assert!(poll(&mut waiter).is_pending(), "at b");
    let held_a = a.try_acquire_owned().unwrap();
    drop(held_b);
    assert!(poll(&mut waiter).is_pending(), "moved on to a, and b is free for others");
    let held_b = b.try_acquire_owned().unwrap();
    drop(held_a);
    assert!(poll(&mut waiter).is_pending(), "sent back to b: now it stays at a as well");
    assert!(a.try_acquire().is_err());
    drop(held_b);
    let Poll::Ready(Ok(granted)) = poll(&mut waiter) else { panic!("both are its own") };
    assert_eq!((a.in_flight(), b.in_flight()), (1, 1));
    drop(granted);
    assert_eq!((a.in_flight(), b.in_flight()), (0, 0));
}

#[test]
fn threads_wait_for_all_without_a_runtime() {
    let (a, b) = (limiter("1000/s burst 1"), limiter("500/s burst 1"));
    let together = all![&a, Part::from(&b).cost(ONE)].unwrap();
    for _ in 0..3 {
        drop(together.acquire(ONE).wait().unwrap());
    }
    assert_eq!((a.statistics().acquired, b.statistics().acquired), (3, 3));
}
