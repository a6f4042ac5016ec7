//! Every interleaving that loom can reach of: deciding by the word, entering the queue, granting, giving up, closing.
//!
//! `cargo xtask test` runs it, or: `RUSTFLAGS="--cfg loom" cargo test --release -p ratekeeper --test loom_limiter`.
//!
//! Time stands still here: whatever happens, happens because a thread did it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};

use loom::thread;
use ratekeeper::limiter::{Acquire, AcquireError, AcquireErrorKind, Concurrency};
use ratekeeper::port::Clock;
use ratekeeper::{Cost, Limiter, Timestamp, all};

#[derive(Debug)]
struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(1_000)
    }
}

/// A limiter of which nothing refills while the model runs.
fn limiter(quota: &str) -> Limiter {
    Limiter::builder(quota.parse().unwrap()).clock(Stopped).build().unwrap()
}

fn permits(count: u64) -> Concurrency {
    let quota = ratekeeper::Quota::concurrent(count).build().unwrap();
    Concurrency::builder(quota).clock(Stopped).build().unwrap()
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits as a task does: only a waker wakes it.
fn block_on<F: Future + Unpin>(mut future: F) -> F::Output {
    let waker = Arc::new(Unpark(thread::current())).into();
    loop {
        if let Poll::Ready(output) = Pin::new(&mut future).poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

/// Polls once with a waker that wakes nobody, as a `select!` that moves on does.
fn poll_once(acquire: &mut Acquire<'_>) -> Poll<Result<ratekeeper::Decision, AcquireError>> {
    Pin::new(acquire).poll(&mut Context::from_waker(std::task::Waker::noop()))
}

#[test]
fn the_word_and_the_queue_charge_exactly_what_is_there() {
    loom::model(|| {
        let limiter = limiter("1/h burst 2");
        let other = limiter.clone();
        let thread = thread::spawn(move || {
            let first = other.try_acquire(Cost::ONE).allowed;
            // Takes the state out of the word, and puts it back.
            other.statistics();
            u64::from(first) + u64::from(other.try_acquire(Cost::ONE).allowed)
        });
        let mine = u64::from(limiter.try_acquire(Cost::ONE).allowed);
        assert_eq!(mine + thread.join().unwrap(), 2);
        let statistics = limiter.statistics();
        assert_eq!((statistics.acquired, statistics.rejected, statistics.available), (2, 1, 0));
    });
}

/// Each has counts of its own, or those of one that has ended: whoever ends first, and whoever begins.
#[test]
fn what_threads_count_is_counted_once() {
    loom::model(|| {
        let limiter = limiter("1/h burst 1");
        assert!(limiter.try_acquire(Cost::ONE).allowed);
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let limiter = limiter.clone();
                thread::spawn(move || assert!(!limiter.try_acquire(Cost::ONE).allowed))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let statistics = limiter.statistics();
        assert_eq!((statistics.acquired, statistics.rejected), (1, 2));
    });
}

/// Nobody has counted before: two may want to be the first.
#[test]
fn one_thread_is_the_first_to_count() {
    loom::model(|| {
        let limiter = limiter("1/h burst 2");
        let thread = {
            let limiter = limiter.clone();
            thread::spawn(move || assert!(limiter.try_acquire(Cost::ONE).allowed))
        };
        assert!(limiter.try_acquire(Cost::ONE).allowed);
        assert!(limiter.statistics().acquired >= 1, "what this thread has counted");
        thread.join().unwrap();
        assert_eq!(limiter.statistics().acquired, 2);
    });
}

#[test]
fn nobody_overtakes_one_who_waits() {
    loom::model(|| {
        // Three are there; the waiter wants all three once one has been taken or not.
        let limiter = limiter("1/h burst 3");
        let other = limiter.clone();
        let thread = thread::spawn(move || {
            let first = other.try_acquire(Cost::ONE);
            let second = other.try_acquire(Cost::ONE);
            (first.allowed, second.allowed)
        });
        let mut waiter = limiter.acquire(Cost::new(3));
        let entered = poll_once(&mut waiter);
        // From here on somebody waits, or everything is gone: nothing may pass by the word.
        let after = limiter.try_acquire(Cost::ONE);
        let (first, second) = thread.join().unwrap();
        assert!(!after.allowed, "{after:?}");
        match entered {
            Poll::Ready(Ok(_)) => assert!(!first && !second),
            Poll::Ready(Err(error)) => panic!("{error}"),
            Poll::Pending => assert!(first, "only because one was taken must it wait"),
        }
        drop(waiter);
        let taken = u64::from(first) + u64::from(second);
        let expected = if matches!(entered, Poll::Ready(Ok(_))) { 0 } else { 3 - taken };
        assert_eq!(limiter.statistics().available, expected);
    });
}

#[test]
fn a_refund_is_never_missed() {
    loom::model(|| {
        let limiter = limiter("1/h burst 1");
        assert!(limiter.try_acquire(Cost::ONE).allowed);
        let other = limiter.clone();
        let thread = thread::spawn(move || other.refund(Cost::ONE));
        // Would sleep for ever, if the refund came between the look and the entry.
        block_on(limiter.acquire(Cost::ONE)).unwrap();
        thread.join().unwrap();
        assert_eq!(limiter.statistics().available, 0);
    });
}

#[test]
fn a_thread_is_woken_by_what_comes_back() {
    loom::model(|| {
        let limit = permits(1);
        let held = limit.try_acquire_owned().unwrap();
        let thread = thread::spawn(move || drop(held));
        drop(limit.acquire().wait().unwrap());
        thread.join().unwrap();
        assert_eq!((limit.in_flight(), limit.statistics().acquired), (0, 2));
    });
}

#[test]
fn a_grant_that_races_with_a_drop_is_handed_on() {
    loom::model(|| {
        let limit = permits(1);
        let held = limit.try_acquire_owned().unwrap();
        let giving_back = thread::spawn(move || drop(held));
        let giving_up = {
            let limit = limit.clone();
            thread::spawn(move || {
                let mut waiter = limit.acquire();
                let _ = Pin::new(&mut waiter).poll(&mut Context::from_waker(std::task::Waker::noop()));
            })
        };
        // Whoever gives up, before or after it was granted, this one gets it.
        drop(block_on(limit.acquire()).unwrap());
        giving_back.join().unwrap();
        giving_up.join().unwrap();
        let statistics = limit.statistics();
        assert_eq!((limit.in_flight(), statistics.queue_depth), (0, 0));
        assert_eq!(statistics.acquired + statistics.cancelled, 3, "each has one outcome");
    });
}

#[test]
fn close_reaches_everybody() {
    loom::model(|| {
        let limit = permits(1);
        let held = limit.try_acquire_owned().unwrap();
        let closing = {
            let limit = limit.clone();
            thread::spawn(move || limit.close())
        };
        let waiting = {
            let limit = limit.clone();
            thread::spawn(move || block_on(limit.acquire()).map(drop))
        };
        assert_eq!(waiting.join().unwrap().unwrap_err().kind(), AcquireErrorKind::Closed);
        closing.join().unwrap();
        drop(held);
        let statistics = limit.statistics();
        assert_eq!((limit.in_flight(), statistics.rejected, statistics.queue_depth), (0, 1, 0));
    });
}

#[test]
fn close_and_a_grant_leave_one_outcome() {
    loom::model(|| {
        let limit = permits(1);
        let held = limit.try_acquire_owned().unwrap();
        let closing = {
            let limit = limit.clone();
            thread::spawn(move || limit.close())
        };
        let giving_back = thread::spawn(move || drop(held));
        let outcome = block_on(limit.acquire()).map(drop);
        closing.join().unwrap();
        giving_back.join().unwrap();
        assert!(outcome.err().is_none_or(|error| error.kind() == AcquireErrorKind::Closed));
        let statistics = limit.statistics();
        assert_eq!(statistics.acquired + statistics.rejected, 2);
        assert_eq!((limit.in_flight(), statistics.queue_depth), (0, 0));
    });
}

#[test]
fn two_composites_in_opposite_order_both_get_through() {
    loom::model(|| {
        let (a, b) = (permits(1), permits(1));
        let other = {
            let together = all![&b, &a].unwrap();
            thread::spawn(move || drop(block_on(together.acquire(Cost::ONE)).unwrap()))
        };
        let together = all![&a, &b].unwrap();
        drop(block_on(together.acquire(Cost::ONE)).unwrap());
        other.join().unwrap();
        assert_eq!((a.in_flight(), b.in_flight()), (0, 0));
        assert_eq!((a.statistics().queue_depth, b.statistics().queue_depth), (0, 0));
    });
}

#[test]
fn closing_a_combination_reaches_who_waits_for_it() {
    loom::model(|| {
        let (a, b) = (permits(1), permits(1));
        let held = a.try_acquire_owned().unwrap();
        let together = all![&a, &b].unwrap();
        let closing = {
            let together = together.clone();
            thread::spawn(move || together.close())
        };
        let outcome = block_on(together.acquire(Cost::ONE)).map(drop);
        closing.join().unwrap();
        assert_eq!(outcome.unwrap_err().kind(), AcquireErrorKind::Closed);
        drop(held);
        assert_eq!((a.in_flight(), a.statistics().queue_depth, together.statistics().rejected), (0, 0, 1));
    });
}
