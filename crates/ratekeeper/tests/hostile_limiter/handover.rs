//! Who keeps the time after the one who kept it has left: a waiter that nobody polls keeps nobody waiting.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use ratekeeper::limiter::Concurrency;
use ratekeeper::port::Clock;
use ratekeeper::{Limiter, MonotonicClock, Timestamp, all};

use crate::support::{current_thread, in_time, limiter, ms, paused, poll};

/// A thread that waits for the next one of a drained limiter, and by now most likely keeps its time.
fn thread_that_keeps_time(limiter: &Limiter) -> thread::JoinHandle<()> {
    assert!(limiter.try_acquire(1).allowed);
    let waiting = limiter.clone();
    let thread = thread::spawn(move || assert!(waiting.acquire(1).wait().is_ok()));
    while limiter.statistics().queue_depth == 0 {
        thread::yield_now();
    }
    // What follows must hold whether it does or not.
    let until = Instant::now() + ms(20);
    while Instant::now() < until {
        thread::yield_now();
    }
    thread
}

#[derive(Clone, Copy)]
enum Third {
    Thread,
    Task,
    All,
}

fn acquires(limiter: &Limiter, how: Third) {
    match how {
        Third::Thread => assert!(limiter.acquire(1).wait().is_ok()),
        Third::Task => assert!(current_thread().block_on(limiter.acquire(1)).is_ok()),
        Third::All => {
            let both = all![limiter, &Concurrency::new(1).unwrap()].unwrap();
            drop(both.acquire(1).wait().unwrap());
        }
    }
}

#[test]
fn a_future_that_is_not_polled_behind_a_thread_held_up_everybody_behind_it() {
    for how in [Third::Thread, Third::Task, Third::All] {
        in_time("the third", ms(10_000), move || {
            let limiter = limiter("10/s burst 1");
            let first = thread_that_keeps_time(&limiter);
            let mut second = limiter.acquire(1);
            assert!(poll(&mut second).is_pending());
            acquires(&limiter, how);
            first.join().unwrap();
            drop(second);
        });
    }
}

#[test]
fn a_runtime_that_is_not_driven_behind_a_thread_held_up_everybody_behind_it() {
    in_time("the third", ms(10_000), || {
        let limiter = limiter("10/s burst 1");
        let first = thread_that_keeps_time(&limiter);
        let runtime = current_thread();
        let waiting = limiter.clone();
        runtime.spawn(async move { assert!(waiting.acquire(1).await.is_ok()) });
        runtime.block_on(tokio::task::yield_now());
        assert_eq!(limiter.statistics().queue_depth, 2);
        acquires(&limiter, Third::Thread);
        first.join().unwrap();
    });
}

/// Nothing is due while one that waits for several has been called and not come: then nobody keeps the time.
#[test]
fn whoever_came_behind_one_that_was_called_was_forgotten() {
    for how in [Third::Thread, Third::Task, Third::All] {
        in_time("behind a group", ms(10_000), move || {
            let limiter = limiter("10/s burst 1");
            assert!(limiter.try_acquire(1).allowed);
            let both = all![&limiter, &Concurrency::new(1).unwrap()].unwrap();
            let called = Arc::new(Counted::default());
            let waker = Waker::from(Arc::clone(&called));
            let mut context = Context::from_waker(&waker);
            let mut group = std::pin::pin!(both.acquire(1));
            assert!(group.as_mut().poll(&mut context).is_pending());
            while called.times() == 0 {
                thread::yield_now();
            }
            let (done, is_done) = mpsc::channel();
            let behind = limiter.clone();
            let thread = thread::spawn(move || {
                acquires(&behind, how);
                done.send(()).unwrap();
            });
            while limiter.statistics().queue_depth < 2 {
                thread::yield_now();
            }
            assert!(group.as_mut().poll(&mut context).is_ready());
            is_done.recv().unwrap();
            thread.join().unwrap();
        });
    }
}

#[derive(Default)]
struct Counted(AtomicU64);

impl Counted {
    fn times(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Real time that can be held on the timer thread, and that must not be dropped there.
#[derive(Clone, Debug, Default)]
struct Gate(Arc<(Mutex<Hold>, Condvar)>);

#[derive(Debug, Default)]
struct Hold {
    is_shut: bool,
    is_reached: bool,
}

#[derive(Debug)]
struct Grenade(Gate, Arc<AtomicBool>);

fn on_timer_thread() -> bool {
    thread::current().name() == Some("ratekeeper-timer")
}

impl Gate {
    fn change(&self, change: impl FnOnce(&mut Hold)) {
        change(&mut self.0.0.lock().unwrap());
        self.0.1.notify_all();
    }

    fn wait(&self, goes_on: impl Fn(&Hold) -> bool) {
        drop(self.0.1.wait_while(self.0.0.lock().unwrap(), |hold| !goes_on(hold)).unwrap());
    }
}

impl Clock for Grenade {
    fn now(&self) -> Timestamp {
        if on_timer_thread() && self.0.0.0.lock().unwrap().is_shut {
            self.0.change(|hold| hold.is_reached = true);
            self.0.wait(|hold| !hold.is_shut);
        }
        MonotonicClock.now()
    }
}

impl Drop for Grenade {
    fn drop(&mut self) {
        if on_timer_thread() {
            self.1.store(true, Ordering::SeqCst);
            panic!("a clock was dropped on the timer thread");
        }
    }
}

#[test]
fn a_clock_that_panics_when_it_is_dropped_ended_the_timer_of_everybody() {
    in_time("after the panic", ms(20_000), || {
        let (gate, has_panicked) = (Gate::default(), Arc::new(AtomicBool::new(false)));
        let clock = Grenade(gate.clone(), Arc::clone(&has_panicked));
        let doomed = Limiter::builder("1/h".parse().unwrap()).clock(clock).build().unwrap();
        assert!(doomed.try_acquire(1).allowed);
        let mut waiting = doomed.acquire(1);
        assert!(poll(&mut waiting).is_pending());
        // Its timer is dismissed, and is held up until it is the last to know the limiter.
        gate.change(|hold| hold.is_shut = true);
        drop(waiting);
        gate.wait(|hold| hold.is_reached);
        drop(doomed);
        gate.change(|hold| hold.is_shut = false);
        while !has_panicked.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        let other = limiter("100/s burst 1");
        current_thread().block_on(async {
            for _ in 0..3 {
                other.acquire(1).await.unwrap();
            }
        });
    });
}

#[test]
fn waiting_for_the_time_of_a_runtime_that_is_gone_spun() {
    let runtime = paused();
    let limiter = runtime.block_on(async { limiter("10/s burst 1") });
    drop(runtime);
    assert!(limiter.try_acquire(1).allowed);
    let woken = Arc::new(Counted::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut waiting = std::pin::pin!(limiter.acquire(1));
    for _ in 0..1_000 {
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    assert!(woken.times() < 10, "woken {} times by 1000 polls", woken.times());
}

/// Reads a clock that stands still, and counts how often.
#[derive(Clone, Debug)]
struct Stopped(Arc<AtomicU64>);

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        if on_timer_thread() {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
        Timestamp::from_secs(1_000_000)
    }
}

#[test]
fn a_clock_that_stands_still_kept_the_timer_busy() {
    let looks = Arc::new(AtomicU64::new(0));
    let clock = Stopped(Arc::clone(&looks));
    let limiter = Limiter::builder("1000000000/s burst 1".parse().unwrap()).clock(clock).build().unwrap();
    assert!(limiter.try_acquire(1).allowed);
    let mut waiting = limiter.acquire(1);
    assert!(poll(&mut waiting).is_pending());
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(100) {
        thread::yield_now();
    }
    let looks = looks.load(Ordering::SeqCst);
    assert!(looks < 1_000, "looked at {looks} times in 100 ms");
}
