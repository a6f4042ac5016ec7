//! Real threads: blocking waits, and that no waiter starves. Order and counts, never durations.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use ratekeeper::limiter::{AcquireErrorKind, Concurrency, Limiter};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Cost, Nanos, Reason, Timestamp};

use test_support::wait::until;

use crate::limiter::support::{ONE, failure, limiter, ms};

#[test]
fn threads_wait_in_the_same_queue_without_any_runtime() {
    let limiter = limiter("1000/s burst 1");
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let limiter = limiter.clone();
            thread::spawn(move || (0..10).for_each(|_| assert!(limiter.acquire(ONE).wait().is_ok())))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let statistics = limiter.statistics();
    assert_eq!((statistics.acquired, statistics.rejected, statistics.queue_depth), (40, 0, 0));
}

#[test]
fn tasks_and_threads_wait_together() {
    let limiter = limiter("2000/s burst 1");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let limiter = limiter.clone();
            runtime.spawn(async move { limiter.acquire(ONE).await.map(drop) })
        })
        .collect();
    let thread = thread::spawn({
        let limiter = limiter.clone();
        move || (0..20).for_each(|_| assert!(limiter.acquire(ONE).wait().is_ok()))
    });
    thread.join().unwrap();
    runtime.block_on(async {
        for task in tasks {
            task.await.unwrap().unwrap();
        }
    });
    assert_eq!(limiter.statistics().acquired, 40);
}

#[test]
fn a_future_is_awaited_on_any_executor() {
    // Nobody keeps the time but the process's own timer thread: this thread only parks.
    let limiter = limiter("1000/s burst 1");
    for _ in 0..3 {
        park_on(limiter.acquire(ONE)).unwrap();
    }
    assert_eq!(limiter.statistics().acquired, 3);
}

fn park_on<F: Future>(future: F) -> F::Output {
    struct Unpark(thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut future = std::pin::pin!(future);
    loop {
        if let std::task::Poll::Ready(output) =
            future.as_mut().poll(&mut std::task::Context::from_waker(&waker))
        {
            return output;
        }
        thread::park();
    }
}

#[test]
fn a_thread_is_woken_by_a_permit_a_deadline_and_a_close() {
    let limit = Concurrency::new(1).unwrap();
    let held = limit.try_acquire_owned().unwrap();
    assert_eq!(failure(limit.acquire().within(ms(1)).wait()), AcquireErrorKind::Deadline);
    let waiter = thread::spawn({
        let limit = limit.clone();
        move || drop(limit.acquire().wait().unwrap())
    });
    until("it waits", || limit.statistics().queue_depth == 1);
    drop(held);
    waiter.join().unwrap();

    let _held = limit.try_acquire_owned().unwrap();
    let waiter = thread::spawn({
        let limit = limit.clone();
        move || limit.acquire().wait().map(drop)
    });
    until("it waits", || limit.statistics().queue_depth == 1);
    limit.close();
    assert_eq!(failure(waiter.join().unwrap()), AcquireErrorKind::Closed);
}

#[test]
fn two_threads_that_hammer_cannot_starve_a_waiter() {
    // Time stands still unless it is moved, so what each gets is counted, not timed.
    let clock = FakeClock::at(Timestamp::from_secs(1_000));
    for quota in ["10/s burst 5", "10/s burst 5 bucket", "5 per 500ms fixed"] {
        let limiter = Limiter::builder(quota.parse().unwrap()).clock(clock.clone()).build().unwrap();
        assert!(limiter.try_acquire(Cost::new(5)).allowed);
        let reservation = limiter.reserve(Cost::new(5)).unwrap();
        let (stop, allowed, asked) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        let begin = Barrier::new(3);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    begin.wait();
                    while !stop.load(Ordering::Relaxed) {
                        let decision = limiter.try_acquire(ONE);
                        allowed.fetch_add(decision.allowed.into(), Ordering::Relaxed);
                        asked.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            begin.wait();
            // Four tokens come in, one after another, and are asked for thousands of times.
            for _ in 0..4 {
                clock.advance(Nanos::from_millis(100));
                let so_far = asked.load(Ordering::Relaxed);
                until("they ask", || asked.load(Ordering::Relaxed) > so_far + 2_000);
                assert_eq!(allowed.load(Ordering::Relaxed), 0, "{quota}: all of them are the waiter's");
            }
            clock.advance(Nanos::from_millis(100));
            until("it is ready", || reservation.ready_in() == Some(Nanos::ZERO));
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(limiter.statistics().acquired, 2 + allowed.load(Ordering::Relaxed), "{quota}");
        assert_eq!(allowed.load(Ordering::Relaxed), 0, "{quota}");
        drop(reservation);
    }
}

#[test]
fn the_word_and_the_desk_never_charge_twice() {
    let clock = FakeClock::at(Timestamp::from_secs(1_000));
    let limiter = Limiter::builder("1/h burst 10000".parse().unwrap()).clock(clock.clone()).build().unwrap();
    let allowed = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while limiter.try_acquire(ONE).allowed {
                    allowed.fetch_add(1, Ordering::Relaxed);
                    // Takes the state behind the lock and back.
                    assert!(limiter.statistics().available < 10_000);
                }
            });
        }
    });
    assert_eq!(allowed.load(Ordering::Relaxed), 10_000);
    let statistics = limiter.statistics();
    assert_eq!((statistics.acquired, statistics.rejected, statistics.available), (10_000, 2, 0));
    assert_eq!(limiter.try_acquire(ONE).reason, Reason::QuotaExceeded);
}

/// More threads than a limiter has counts for, some of which end while others begin: what they saw is what was counted.
#[test]
fn what_any_number_of_threads_is_told_is_counted_exactly() {
    const THREADS: usize = 150;
    let limiters = [limiter("1000/day"), limiter("1000/day bucket")];
    let keyed = ratekeeper::limiter::Keyed::new("1000/day".parse().unwrap()).unwrap();
    let told: Vec<(AtomicU64, AtomicU64)> = (0..3).map(|_| Default::default()).collect();
    let tell = |which: usize, allowed: bool| {
        let (acquired, rejected) = &told[which];
        if allowed { acquired } else { rejected }.fetch_add(1, Ordering::Relaxed);
    };
    let ask = || {
        for (which, limiter) in limiters.iter().enumerate() {
            tell(which, limiter.try_acquire(ONE).allowed);
        }
        tell(2, keyed.try_acquire("eve", ONE).allowed);
    };
    for _ in 0..3 {
        // All of these live at once.
        let barrier = Barrier::new(THREADS);
        thread::scope(|scope| {
            for number in 0..THREADS {
                let (barrier, ask) = (&barrier, &ask);
                scope.spawn(move || {
                    barrier.wait();
                    // Some end early, and leave their counts to others.
                    (0..=number).for_each(|_| ask());
                });
            }
        });
        // And these one after another, or nearly.
        thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(ask))));
    }
    let statistics = limiters.iter().map(Limiter::statistics).chain(keyed.statistics("eve"));
    for (which, statistics) in statistics.enumerate() {
        let (acquired, rejected) =
            (told[which].0.load(Ordering::Relaxed), told[which].1.load(Ordering::Relaxed));
        assert_eq!((statistics.acquired, statistics.rejected), (acquired, rejected), "{which}");
        assert!(acquired >= 1_000 && rejected > 1_000, "{acquired} {rejected}");
    }
}
