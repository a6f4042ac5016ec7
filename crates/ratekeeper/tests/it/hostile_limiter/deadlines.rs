//! Waiting for several limiters with a deadline. It used to hang, and to take the places of other waiters with it.

use std::task::Poll;
use std::time::{Duration, Instant};

use ratekeeper::limiter::{AcquireAll, AcquireErrorKind, Concurrency, OwnedPermit};
use ratekeeper::{Cost, Limiter, Nanos, all};

use test_support::wait::until;

use crate::hostile_limiter::support::{
    at, clock, current_thread, in_time, limiter, ms, passes, paused, poll,
};

const ONE: Cost = Cost::ONE;

fn held() -> (Concurrency, Limiter) {
    (Concurrency::new(1).unwrap(), limiter("1000/s"))
}

/// Keeps the thread busy until so much time has passed since `start`.
fn spin_until(start: Instant, time: Duration) {
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[test]
fn a_deadline_for_all_was_never_noticed_on_a_thread() {
    in_time("within(20 ms).wait()", || {
        let (slots, rate) = held();
        let _held = slots.try_acquire().unwrap();
        let start = Instant::now();
        let outcome = all![&slots, &rate].unwrap().acquire(ONE).within(ms(20)).wait();
        assert_eq!(outcome.unwrap_err().kind(), AcquireErrorKind::Deadline);
        // Late on a busy machine, and early on none: the last millisecond is for clocks that disagree.
        assert!(start.elapsed() >= ms(19), "{:?}", start.elapsed());
    });
}

#[test]
fn a_deadline_for_all_was_never_noticed_in_a_task() {
    in_time("within(5 ms).await", || {
        current_thread().block_on(async {
            let (slots, rate) = held();
            let _held = slots.try_acquire().unwrap();
            let both = all![&slots, &rate].unwrap();
            // The runtime is busy until after the deadline, and so its timer is late: the waiter notices by itself.
            let start = Instant::now();
            let busy = async {
                for turn in 1..=5 {
                    tokio::task::yield_now().await;
                    spin_until(start, turn * ms(6));
                }
            };
            let (outcome, ()) = tokio::join!(both.acquire(ONE).within(ms(5)), busy);
            assert!(outcome.is_err());
        });
    });
}

#[test]
fn a_deadline_for_all_was_never_noticed_in_a_select() {
    in_time("select!", || {
        current_thread().block_on(async {
            let (slots, rate) = held();
            let _held = slots.try_acquire().unwrap();
            let both = all![&slots, &rate].unwrap();
            let mut waiting = both.acquire(ONE).within(ms(10));
            let mut ticks = tokio::time::interval(ms(1));
            loop {
                tokio::select! {
                    biased;
                    _ = ticks.tick() => {}
                    outcome = &mut waiting => return assert!(outcome.is_err()),
                }
                // The other branch is busy for longer than a tick.
                spin_until(Instant::now(), ms(3));
            }
        });
    });
}

#[test]
fn a_deadline_for_all_was_never_noticed_in_paused_time() {
    in_time("paused", || {
        paused().block_on(async {
            let (slots, rate) = held();
            let _held = slots.try_acquire().unwrap();
            let both = all![&slots, &rate].unwrap();
            let start = tokio::time::Instant::now();
            let mut waiting = both.acquire(ONE).within(ms(200));
            // Something else is due at the same instant, and wakes it first.
            let mut due = std::pin::pin!(passes(ms(200)));
            let mut is_over = false;
            let outcome = loop {
                tokio::select! {
                    biased;
                    outcome = &mut waiting => break outcome,
                    () = &mut due, if !is_over => is_over = true,
                }
            };
            assert!(outcome.is_err());
            assert_eq!((start.elapsed(), slots.statistics().queue_depth), (ms(200), 0));
        });
    });
}

/// One permit that is taken, and a waiter for it and for a rate, whose deadline passes between two polls.
fn overdue(check: impl FnOnce(&Concurrency, OwnedPermit, AcquireAll<'_>)) {
    let clock = clock();
    let slots = Concurrency::builder("1 concurrent".parse().unwrap()).clock(clock.clone()).build().unwrap();
    let rate = at(&clock, "1000/s");
    let held = slots.try_acquire_owned().unwrap();
    let both = all![&slots, &rate].unwrap();
    let mut stale = both.acquire(ONE).within(Duration::from_secs(3_600));
    assert!(poll(&mut stale).is_pending());
    clock.advance(Nanos::from_secs(7_200));
    // The second poll ends the wait.
    let outcome = poll(&mut stale);
    check(&slots, held, stale);
    assert!(outcome.is_ready());
}

#[test]
fn giving_up_after_the_deadline_removed_somebody_elses_place() {
    overdue(|slots, held, stale| {
        // Somebody else comes to the slot that it had.
        let mut next = slots.acquire();
        assert!(poll(&mut next).is_pending());
        drop(stale);
        assert_eq!(slots.statistics().queue_depth, 1, "the other one still waits");
        drop(held);
        let Poll::Ready(Ok(permit)) = poll(&mut next) else { panic!("it is next") };
        assert_eq!(slots.in_flight(), 1);
        drop(permit);
    });
}

#[test]
fn giving_up_after_the_deadline_took_back_somebody_elses_grant() {
    overdue(|slots, held, stale| {
        let mut next = slots.acquire();
        assert!(poll(&mut next).is_pending());
        drop(held);
        assert_eq!(slots.in_flight(), 1, "granted, and not taken up");
        drop(stale);
        assert_eq!(slots.in_flight(), 1);
        let Poll::Ready(Ok(permit)) = poll(&mut next) else { panic!("it was granted") };
        drop(permit);
        assert_eq!((slots.in_flight(), slots.statistics().acquired), (0, 2));
    });
}

#[test]
fn closing_a_combination_sends_away_who_waits_for_it_and_nobody_else() {
    in_time("close", || {
        let (slots, rate) = held();
        let held = slots.try_acquire_owned().unwrap();
        let both = all![&slots, &rate].unwrap();
        let waiting = std::thread::spawn({
            let both = both.clone();
            move || both.acquire(1).wait().map(drop)
        });
        until("it waits", || slots.statistics().queue_depth == 1);
        both.close();
        assert_eq!(waiting.join().unwrap().unwrap_err().kind(), AcquireErrorKind::Closed);
        assert!(both.try_acquire(1).is_err() && both.is_closed());
        drop(held);
        assert!(slots.try_acquire().is_ok() && rate.try_acquire(1).allowed, "its parts are open");
        let statistics = both.statistics();
        assert_eq!((statistics.acquired, statistics.rejected, statistics.queue_depth), (0, 2, 0));
    });
}

#[test]
fn who_waits_for_all_may_be_granted_at_its_deadline() {
    in_time("paused", || {
        paused().block_on(async {
            for polled_late in [ms(0), ms(30)] {
                let (rate, slots) = (limiter("10/s burst 1"), Concurrency::new(1).unwrap());
                assert!(rate.try_acquire(1).allowed);
                let both = all![&rate, &slots].unwrap();
                let mut waiting = both.acquire(1).within(ms(100));
                let mut behind = rate.acquire(1);
                assert!(poll(&mut waiting).is_pending() && poll(&mut behind).is_pending());
                passes(ms(100) + polled_late).await;
                assert!(waiting.await.is_ok(), "polled {polled_late:?} after it was called");
                assert!(poll(&mut behind).is_pending());
                let statistics = (rate.statistics(), both.statistics());
                assert_eq!((statistics.0.rejected, statistics.1.rejected), (0, 0));
            }
        });
    });
}

#[test]
fn waiting_for_all_exactly_as_long_as_was_told_failed() {
    in_time("exactly as long", || {
        let clock = clock();
        let rate = at(&clock, "50/s burst 1");
        let slots =
            Concurrency::builder("1 concurrent".parse().unwrap()).clock(clock.clone()).build().unwrap();
        let both = all![&rate, &slots].unwrap();
        for round in 0..5 {
            assert!(rate.try_acquire(1).allowed);
            let told = both.try_acquire(1).unwrap_err().retry_after.unwrap();
            assert_eq!(told, Nanos::from_millis(20));
            let waiting = std::thread::spawn({
                let both = both.clone();
                move || both.acquire(1).within(told.into()).wait().map(drop)
            });
            until("it waits", || rate.statistics().queue_depth == 1);
            clock.advance(told);
            let outcome = waiting.join().unwrap();
            assert!(outcome.is_ok(), "round {round}: {outcome:?}");
            clock.advance(told);
        }
    });
}

/// One that was called and does not come is sent away all the same, a moment after its deadline.
#[test]
fn one_that_does_not_come_when_called_holds_up_nobody_for_longer_than_its_deadline() {
    in_time("paused", || {
        paused().block_on(async {
            let (rate, slots) = (limiter("10/s burst 1"), Concurrency::new(1).unwrap());
            assert!(rate.try_acquire(1).allowed);
            let both = all![&rate, &slots].unwrap();
            let mut waiting = both.acquire(1).within(ms(100));
            assert!(poll(&mut waiting).is_pending());
            let start = tokio::time::Instant::now();
            rate.acquire(1).await.unwrap();
            assert!(start.elapsed() <= ms(300), "{:?}", start.elapsed());
            assert!(waiting.await.is_err());
        });
    });
}
