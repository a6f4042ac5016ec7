//! Waiting for several limiters with a deadline: it never came back, and took others' places with it.

use std::time::Instant;

use ratekeeper::limiter::{AcquireErrorKind, Concurrency};
use ratekeeper::{Cost, Limiter, all};

use crate::support::{current_thread, in_time, limiter, ms, paused, poll};

const ONE: Cost = Cost::ONE;

fn held() -> (Concurrency, Limiter) {
    (Concurrency::new(1).unwrap(), limiter("1000/s"))
}

#[test]
fn a_deadline_for_all_was_never_noticed_on_a_thread() {
    let took = in_time("within(200 ms).wait()", ms(5_000), || {
        let (slots, rate) = held();
        let _held = slots.try_acquire().unwrap();
        let start = Instant::now();
        let outcome = all![&slots, &rate].unwrap().acquire(ONE).within(ms(200)).wait();
        assert_eq!(outcome.unwrap_err().kind(), AcquireErrorKind::Deadline);
        start.elapsed()
    });
    assert!(took >= ms(200));
}

#[test]
fn a_deadline_for_all_was_never_noticed_in_a_task() {
    in_time("within(50 ms).await", ms(5_000), || {
        current_thread().block_on(async {
            let (slots, rate) = held();
            let _held = slots.try_acquire().unwrap();
            let both = all![&slots, &rate].unwrap();
            // The runtime is busy: whoever keeps the time is late, and the waiter finds out by itself.
            let busy = tokio::spawn(async {
                loop {
                    let until = Instant::now() + ms(60);
                    while Instant::now() < until {
                        std::hint::spin_loop();
                    }
                    tokio::task::yield_now().await;
                }
            });
            assert!(both.acquire(ONE).within(ms(50)).await.is_err());
            busy.abort();
        });
    });
}

#[test]
fn a_deadline_for_all_was_never_noticed_in_a_select() {
    in_time("select!", ms(5_000), || {
        current_thread().block_on(async {
            let (slots, rate) = held();
            let _held = slots.try_acquire().unwrap();
            let both = all![&slots, &rate].unwrap();
            let mut waiting = both.acquire(ONE).within(ms(50));
            let mut ticks = tokio::time::interval(ms(7));
            loop {
                tokio::select! {
                    biased;
                    _ = ticks.tick() => {}
                    outcome = &mut waiting => return assert!(outcome.is_err()),
                }
            }
        });
    });
}

#[test]
fn a_deadline_for_all_was_never_noticed_in_paused_time() {
    in_time("paused", ms(5_000), || {
        paused().block_on(async {
            let (slots, rate) = held();
            let _held = slots.try_acquire().unwrap();
            let both = all![&slots, &rate].unwrap();
            let start = tokio::time::Instant::now();
            // Looked at by others just when it is due.
            let looking = tokio::spawn({
                let slots = slots.clone();
                async move {
                    tokio::time::sleep(ms(200)).await;
                    slots.try_acquire().is_none()
                }
            });
            assert!(both.acquire(ONE).within(ms(200)).await.is_err());
            assert_eq!(start.elapsed(), ms(200));
            assert!(looking.await.unwrap());
            assert_eq!(slots.statistics().queue_depth, 0);
        });
    });
}

#[test]
fn giving_up_after_the_deadline_removed_somebody_elses_place() {
    in_time("a stale place", ms(10_000), || {
        paused().block_on(async {
            let (slots, rate) = held();
            let held = slots.try_acquire_owned().unwrap();
            let both = all![&slots, &rate].unwrap();
            let mut stale = both.acquire(ONE).within(ms(10));
            assert!(poll(&mut stale).is_pending());
            tokio::time::advance(ms(20)).await;
            // It is sent away while it looks at both.
            let outcome = poll(&mut stale);
            // Somebody else comes to the slot that it had.
            let mut next = slots.acquire();
            assert!(poll(&mut next).is_pending());
            drop(stale);
            assert_eq!(slots.statistics().queue_depth, 1, "the other one still waits");
            assert!(outcome.is_ready());
            drop(held);
            let permit = next.await.unwrap();
            assert_eq!(slots.in_flight(), 1);
            drop(permit);
        });
    });
}

#[test]
fn giving_up_after_the_deadline_took_back_somebody_elses_grant() {
    in_time("a stale place and a grant", ms(10_000), || {
        paused().block_on(async {
            let (slots, rate) = held();
            let held = slots.try_acquire_owned().unwrap();
            let both = all![&slots, &rate].unwrap();
            let mut stale = both.acquire(ONE).within(ms(10));
            assert!(poll(&mut stale).is_pending());
            tokio::time::advance(ms(20)).await;
            let _ = poll(&mut stale);
            let mut next = slots.acquire();
            assert!(poll(&mut next).is_pending());
            drop(held);
            assert_eq!(slots.in_flight(), 1, "granted, and not taken up");
            drop(stale);
            assert_eq!(slots.in_flight(), 1);
            drop(next.await.unwrap());
            assert_eq!((slots.in_flight(), slots.statistics().acquired), (0, 2));
        });
    });
}

#[test]
fn closing_a_combination_sends_away_who_waits_for_it_and_nobody_else() {
    in_time("close", ms(10_000), || {
        let (slots, rate) = held();
        let held = slots.try_acquire_owned().unwrap();
        let both = all![&slots, &rate].unwrap();
        let waiting = std::thread::spawn({
            let both = both.clone();
            move || both.acquire(1).wait().map(drop)
        });
        while slots.statistics().queue_depth == 0 {
            std::thread::yield_now();
        }
        both.close();
        assert_eq!(waiting.join().unwrap().unwrap_err().kind(), AcquireErrorKind::Closed);
        assert!(both.try_acquire(1).is_err() && both.is_closed());
        drop(held);
        assert!(slots.try_acquire().is_some() && rate.try_acquire(1).allowed, "its parts are open");
        let statistics = both.statistics();
        assert_eq!((statistics.acquired, statistics.rejected, statistics.queue_depth), (0, 2, 0));
    });
}
