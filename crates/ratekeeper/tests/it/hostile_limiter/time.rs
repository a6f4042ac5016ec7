//! Clocks of runtimes that are not driven, that are gone, and that have paused their time.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use ratekeeper::TokioClock;
use ratekeeper::limiter::{AcquireErrorKind, Concurrency};
use ratekeeper::{Cost, Limiter, all};

use test_support::wait::until;

use crate::hostile_limiter::support::{current_thread, in_time, limiter, ms, multi_thread, paused, poll};

const ONE: Cost = Cost::ONE;

#[test]
fn a_runtime_that_was_not_driven_kept_another_waiting() {
    for clock in ["default", "tokio"] {
        in_time(&format!("the other runtime, {clock} clock"), move || {
            let builder = Limiter::builder("10/s burst 1".parse().unwrap());
            let limiter = match clock {
                "tokio" => builder.clock(TokioClock).build().unwrap(),
                _ => builder.build().unwrap(),
            };
            assert!(limiter.try_acquire(ONE).allowed);
            let idle = current_thread();
            let mut first = limiter.acquire(ONE);
            // It arms the timer of a runtime that is not driven from then on. (On a very busy machine it may be granted at once.)
            let _ = idle.block_on(async { poll(&mut first) });
            let other = limiter.clone();
            current_thread().block_on(async move { other.acquire(ONE).await.unwrap() });
            multi_thread().block_on(async { limiter.acquire(ONE).await.unwrap() });
            drop(first);
            drop(idle);
        });
    }
}

#[test]
fn a_runtime_that_is_gone_keeps_nobody_waiting() {
    in_time("a shut down runtime", || {
        let (limiter, slots) = (limiter("100/s burst 1"), Concurrency::new(1).unwrap());
        let both = all![&limiter, &slots].unwrap();
        assert!(limiter.try_acquire(ONE).allowed);
        let gone = multi_thread();
        for _ in 0..10 {
            let (limiter, both) = (limiter.clone(), both.clone());
            gone.spawn(async move { limiter.acquire(ONE).await.map(drop) });
            gone.spawn(async move { both.acquire(ONE).await.map(drop) });
        }
        gone.shutdown_background();
        current_thread().block_on(async {
            limiter.acquire(ONE).await.unwrap();
            drop(both.acquire(ONE).await.unwrap());
        });
        until("no waiter is left", || slots.in_flight() == 0 && limiter.statistics().queue_depth == 0);
    });
}

#[test]
fn waiting_on_the_thread_that_moves_paused_time_hung() {
    in_time("wait() in paused time", || {
        paused().block_on(async {
            let (limiter, slots) = (limiter("10/s burst 1"), Concurrency::new(1).unwrap());
            assert!(limiter.try_acquire(ONE).allowed);
            let error = limiter.acquire(ONE).wait().unwrap_err();
            assert_eq!(error.kind(), AcquireErrorKind::ClockStopped);
            assert!(error.to_string().contains("paused"), "{error}");
            let _held = slots.try_acquire().unwrap();
            let both = all![&limiter, &slots].unwrap();
            let error = both.acquire(ONE).within(ms(100)).wait().unwrap_err();
            assert_eq!(error.kind(), AcquireErrorKind::ClockStopped);
            let mut reservation = limiter.reserve(ONE).unwrap();
            let error = reservation.ready().wait().unwrap_err();
            assert_eq!(error.kind(), AcquireErrorKind::ClockStopped);
            drop(reservation);
            assert_eq!(limiter.statistics().queue_depth, 0);
            // In a task nothing is wrong.
            limiter.acquire(ONE).await.unwrap();
        });
    });
}

#[test]
fn a_thread_outside_may_wait_for_paused_time() {
    in_time("a thread beside a paused runtime", || {
        paused().block_on(async {
            let limiter = limiter("6/h burst 1");
            assert!(limiter.try_acquire(ONE).allowed);
            let start = tokio::time::Instant::now();
            let (done, is_done) = tokio::sync::oneshot::channel();
            let waiting = limiter.clone();
            let thread = thread::spawn(move || {
                let outcome = waiting.acquire(ONE).wait().map(drop);
                let _ = done.send(());
                outcome
            });
            is_done.await.unwrap();
            thread.join().unwrap().unwrap();
            assert_eq!(
                start.elapsed().as_secs(),
                600,
                "ten minutes of the paused clock, and hardly any real time"
            );
        });
    });
}

/// A thread that reads the paused clock just as it is moved does not take it for a stopped clock.
#[test]
fn paused_time_that_is_moved_by_hand_ends_every_wait() {
    in_time("advance", || {
        paused().block_on(async {
            let limiter = limiter("1000/s burst 1");
            assert!(limiter.try_acquire(ONE).allowed);
            let waiting = limiter.clone();
            let (started, is_started) = mpsc::channel();
            // Outside the runtime: a thread of the runtime gives up a clock that stands still for a second.
            let thread = thread::spawn(move || {
                started.send(()).unwrap();
                (0..200).try_for_each(|_| waiting.acquire(ONE).wait().map(drop))
            });
            is_started.recv().unwrap();
            while !thread.is_finished() {
                tokio::time::advance(Duration::from_micros(10)).await;
            }
            thread.join().unwrap().unwrap();
        });
    });
}

#[test]
fn a_limiter_made_before_the_pause_is_waited_for_in_real_time() {
    in_time("real time in a paused runtime", || {
        let limiter = limiter("20/s burst 1");
        let start = std::time::Instant::now();
        assert!(limiter.try_acquire(ONE).allowed);
        paused().block_on(async { limiter.acquire(ONE).await.unwrap() });
        // 50 ms after the first one at the earliest: the rest is for clocks that disagree.
        assert!(start.elapsed() >= ms(45), "{:?}", start.elapsed());
    });
}
