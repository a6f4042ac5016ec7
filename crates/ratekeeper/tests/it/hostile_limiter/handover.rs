//! Which waiter keeps the time after the one that kept it has left: a waiter that is not polled holds up no other.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Instant;

use ratekeeper::limiter::Concurrency;
use ratekeeper::port::Clock;
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Limiter, MonotonicClock, Nanos, Timestamp, all};

use test_support::wait::until;

use crate::hostile_limiter::support::{at, clock, current_thread, in_time, limiter, ms, paused, poll};

/// Starts a thread that waits for a drained limiter and keeps its time: it most likely sleeps when this returns, and the tests
/// hold in either case.
fn thread_that_keeps_time(limiter: &Limiter) -> thread::JoinHandle<()> {
    assert!(limiter.try_acquire(1).allowed);
    let waiting = limiter.clone();
    let thread = thread::spawn(move || assert!(waiting.acquire(1).wait().is_ok()));
    until("the thread waits", || limiter.statistics().queue_depth > 0);
    (0..100).for_each(|_| thread::yield_now());
    thread
}

/// Does the work while the clock goes on.
fn while_time_passes<T>(clock: &FakeClock, work: impl FnOnce() -> T) -> T {
    /// Ends the thread that moves the clock, also if the work panics.
    struct Done<'a>(&'a AtomicBool);
    impl Drop for Done<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::SeqCst) {
                clock.advance(Nanos::from_millis(10));
                thread::park_timeout(ms(1));
            }
        });
        let _done = Done(&is_done);
        work()
    })
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
        in_time("the third", move || {
            let clock = clock();
            let limiter = at(&clock, "10/s burst 1");
            let first = thread_that_keeps_time(&limiter);
            let mut second = limiter.acquire(1);
            assert!(poll(&mut second).is_pending());
            while_time_passes(&clock, || acquires(&limiter, how));
            first.join().unwrap();
            drop(second);
        });
    }
}

#[test]
fn a_runtime_that_is_not_driven_behind_a_thread_held_up_everybody_behind_it() {
    in_time("the third", || {
        let clock = clock();
        let limiter = at(&clock, "10/s burst 1");
        let first = thread_that_keeps_time(&limiter);
        let runtime = current_thread();
        let waiting = limiter.clone();
        runtime.spawn(async move { assert!(waiting.acquire(1).await.is_ok()) });
        runtime.block_on(tokio::task::yield_now());
        assert_eq!(limiter.statistics().queue_depth, 2);
        while_time_passes(&clock, || acquires(&limiter, Third::Thread));
        first.join().unwrap();
    });
}

/// Nothing is due while one that waits for several has been called and not come: then nobody keeps the time.
#[test]
fn whoever_came_behind_one_that_was_called_was_forgotten() {
    for how in [Third::Thread, Third::Task, Third::All] {
        in_time("behind a group", move || {
            let clock = clock();
            let limiter = at(&clock, "10/s burst 1");
            assert!(limiter.try_acquire(1).allowed);
            let both = all![&limiter, &Concurrency::new(1).unwrap()].unwrap();
            let called = Arc::new(Counted::default());
            let waker = Waker::from(Arc::clone(&called));
            let mut context = Context::from_waker(&waker);
            let mut group = std::pin::pin!(both.acquire(1));
            assert!(group.as_mut().poll(&mut context).is_pending());
            clock.advance(Nanos::from_millis(100));
            until("the group is woken", || called.times() > 0);
            let (done, is_done) = mpsc::channel();
            let behind = limiter.clone();
            let thread = thread::spawn(move || {
                acquires(&behind, how);
                done.send(()).unwrap();
            });
            until("another one waits behind it", || limiter.statistics().queue_depth == 2);
            assert!(group.as_mut().poll(&mut context).is_ready());
            while_time_passes(&clock, || is_done.recv().unwrap());
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
    in_time("after the panic", || {
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
        until("the clock is dropped", || has_panicked.load(Ordering::SeqCst));
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
    // The timer looks again a millisecond later at the earliest, so a busy machine only makes this take longer.
    let (start, before) = (Instant::now(), looks.load(Ordering::SeqCst));
    until("the timer has looked often", || looks.load(Ordering::SeqCst) >= before + 100);
    assert!(start.elapsed() >= ms(10), "100 looks in {:?}", start.elapsed());
}
