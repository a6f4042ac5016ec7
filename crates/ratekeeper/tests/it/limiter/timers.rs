//! Bugs of those who keep the time, found by reading; each test is named after what went wrong.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use ratekeeper::Timestamp;
use ratekeeper::limiter::{Acquire, Keyed, Limiter};
use ratekeeper::port::Clock;

use test_support::wait::{PATIENCE, until};

use crate::limiter::support::{ONE, advance, limiter, ms, poll};

/// A clock that tells, by the count of its handle, whether a limiter is still in memory.
#[derive(Debug)]
struct Traced(#[expect(dead_code, reason = "only its count is read")] Arc<()>);

impl Clock for Traced {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(1_000)
    }
}

#[test]
fn an_alarm_nobody_needs_any_more_kept_a_limiter_in_memory() {
    let trace = Arc::new(());
    let clock = Traced(Arc::clone(&trace));
    let limiter = Limiter::builder("1/h burst 1".parse().unwrap()).clock(clock).build().unwrap();
    assert!(limiter.try_acquire(ONE).allowed);
    let mut waiter = limiter.acquire(ONE);
    assert!(poll(&mut waiter).is_pending());
    // The timer thread sleeps for an hour by now, or is about to.
    let_the_thread_turn();
    drop(waiter);
    drop(limiter);
    until("the limiter is dropped", || Arc::strong_count(&trace) == 1);
}

/// Waits until the timer thread has had a turn.
fn let_the_thread_turn() {
    let limiter = limiter("1000/s burst 1");
    assert!(limiter.try_acquire(ONE).allowed);
    assert!(wait_by_waker(limiter));
}

/// Waits for one grant as a task outside of any runtime does: by its waker alone.
fn wait_by_waker(limiter: Limiter) -> bool {
    struct Tell(std::sync::mpsc::Sender<()>);
    impl Wake for Tell {
        fn wake(self: Arc<Self>) {
            let _ = self.0.send(());
        }
    }
    let (tell, told) = std::sync::mpsc::channel();
    let waker = Waker::from(Arc::new(Tell(tell)));
    let mut acquire = limiter.acquire(ONE);
    loop {
        if let Poll::Ready(granted) = Pin::new(&mut acquire).poll(&mut Context::from_waker(&waker)) {
            return granted.is_ok();
        }
        if told.recv_timeout(PATIENCE).is_err() {
            return false;
        }
    }
}

#[test]
fn a_waker_that_panicked_stopped_the_time_for_all() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            std::panic::resume_unwind(Box::new(()));
        }
    }
    let limiter = limiter("20/s burst 1");
    assert!(limiter.try_acquire(ONE).allowed);
    let mut panics = limiter.acquire(ONE);
    let waker = Waker::from(Arc::new(Panics));
    // On a very busy machine it may be granted at once, and then there is nothing to wake.
    let _ = Pin::new(&mut panics).poll(&mut Context::from_waker(&waker));
    assert!(wait_by_waker(limiter.clone()), "behind it");
    let_the_thread_turn();
}

#[test]
fn a_runtime_without_a_timer_panicked_for_ever() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let limiter = limiter("1000/s burst 1");
    runtime.block_on(async {
        for _ in 0..3 {
            limiter.acquire(ONE).await.unwrap();
        }
    });
    assert_eq!(limiter.statistics().acquired, 3);
}

/// A waker that polls another request when it is woken, and one that counts.
struct Successor {
    keyed: Keyed<u32>,
    next: Mutex<Option<Acquire<'static>>>,
    woken: Arc<Counts>,
}

#[derive(Default)]
struct Counts(AtomicUsize);

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Wake for Successor {
    fn wake(self: Arc<Self>) {
        let mut next = self.keyed.acquire(&1, ONE);
        let waker = Waker::from(Arc::clone(&self.woken));
        assert!(Pin::new(&mut next).poll(&mut Context::from_waker(&waker)).is_pending());
        *self.next.lock().unwrap() = Some(next);
    }
}

#[tokio::test(start_paused = true)]
async fn a_keeper_that_was_done_dismissed_its_successor() {
    let keyed = Keyed::new("1/s burst 1".parse().unwrap()).unwrap();
    assert!(keyed.try_acquire(&1, ONE).allowed);
    let woken = Arc::new(Counts::default());
    let successor =
        Arc::new(Successor { keyed: keyed.clone(), next: Mutex::default(), woken: Arc::clone(&woken) });
    let mut first = keyed.acquire(&1, ONE);
    let waker = Waker::from(successor);
    assert!(Pin::new(&mut first).poll(&mut Context::from_waker(&waker)).is_pending());
    advance(ms(1_000)).await;
    assert_eq!(woken.0.load(Ordering::Relaxed), 0, "woken to start another timer, though there was one");
    advance(ms(1_000)).await;
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
}
