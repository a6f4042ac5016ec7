//! Every interleaving that loom can reach of: asking a breaker, failing, answering, giving up.
//!
//! `cargo xtask test` runs it, or: `RUSTFLAGS="--cfg loom" cargo test --release -p ratekeeper --test loom_breaker`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use loom::thread;
use ratekeeper::port::{Clock, Observer};
use ratekeeper::store::{Breaker, BreakerChange, BreakerSettings, BreakerState};
use ratekeeper::{Nanos, StoreError, StoreErrorKind, Timestamp};

#[derive(Debug)]
struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(1_000)
    }
}

/// Writes down the changes that it is told of.
#[derive(Debug, Default)]
struct Diary {
    told: Mutex<Vec<BreakerChange>>,
    /// One of loom's, where it may switch to another thread.
    calls: loom::sync::atomic::AtomicUsize,
}

impl Observer for Diary {
    fn breaker_changed(&self, change: &BreakerChange) {
        // Somebody else may get between the change and what is written down.
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.told.lock().unwrap().push(change.clone());
    }
}

impl Diary {
    /// How many changes there were: each followed the one before.
    fn len(&self) -> usize {
        let told = self.told.lock().unwrap();
        let mut state = BreakerState::Closed;
        for change in &*told {
            assert_eq!(change.from, state, "{told:?}");
            state = change.to;
        }
        told.len()
    }
}

fn timeout() -> StoreError {
    StoreError::new(StoreErrorKind::Timeout, "no answer")
}

/// The rest is over, and two ask. One probes and fails, the other gives up if it is let through: never both at a
/// time, and whoever gives up leaves the probe to the other.
#[test]
fn one_probe_at_a_time() {
    loom::model(|| {
        let diary = Arc::new(Diary::default());
        let settings = BreakerSettings::default().failures_in_a_row(1).rest(Nanos::from_secs(1));
        let clock = Stepping::default();
        let breaker = Arc::new(Breaker::new(settings).clock(clock.clone()).observer(diary.clone()));
        breaker.admit().unwrap().failed(&timeout());
        clock.step();
        let out = Arc::new(AtomicUsize::new(0));
        let ask = |breaker: Arc<Breaker>, out: Arc<AtomicUsize>, gives_up: bool| {
            move || {
                let Ok(permit) = breaker.admit() else { return false };
                assert_eq!(out.fetch_add(1, Ordering::SeqCst), 0, "two probes at a time");
                out.fetch_sub(1, Ordering::SeqCst);
                match gives_up {
                    true => drop(permit),
                    false => permit.failed(&timeout()),
                }
                true
            }
        };
        let other = thread::spawn(ask(breaker.clone(), out.clone(), true));
        let probed = ask(breaker.clone(), out.clone(), false)();
        let other_probed = other.join().unwrap();
        assert!(probed || other_probed, "a probe that was given up leaks nothing");
        let state = breaker.state();
        assert_eq!(state, if probed { BreakerState::Open } else { BreakerState::HalfOpen });
        let changes = usize::try_from(breaker.changes()).unwrap();
        assert_eq!(diary.len(), changes, "each change is told once");
    });
}

/// Moves on by two seconds when told.
#[derive(Clone, Debug, Default)]
struct Stepping(Arc<AtomicUsize>);

impl Stepping {
    fn step(&self) {
        self.0.fetch_add(2, Ordering::SeqCst);
    }
}

impl Clock for Stepping {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(1_000 + i64::try_from(self.0.load(Ordering::SeqCst)).unwrap())
    }
}

/// Two failures at once open the breaker once.
#[test]
fn it_opens_once() {
    loom::model(|| {
        let diary = Arc::new(Diary::default());
        let settings = BreakerSettings::default().failures_in_a_row(2).rest(Nanos::from_secs(1));
        let breaker = Arc::new(Breaker::new(settings).clock(Stopped).observer(diary.clone()));
        let other = {
            let breaker = breaker.clone();
            thread::spawn(move || {
                if let Ok(permit) = breaker.admit() {
                    permit.failed(&timeout());
                }
            })
        };
        for _ in 0..2 {
            if let Ok(permit) = breaker.admit() {
                permit.failed(&timeout());
            }
        }
        other.join().unwrap();
        assert_eq!(breaker.state(), BreakerState::Open);
        assert_eq!(diary.len(), 1);
        assert!(breaker.admit().is_err());
    });
}

/// One opens the breaker, another probes as soon as it can: whoever tells of it, the order is that of the changes.
#[test]
fn changes_are_told_in_order() {
    loom::model(|| {
        let diary = Arc::new(Diary::default());
        // No rest at all: a nanosecond is over when the clock is read again.
        let settings = BreakerSettings::default().failures_in_a_row(1).rest(Nanos::from_nanos(1));
        let clock = Ticking::default();
        let breaker = Arc::new(Breaker::new(settings).clock(clock).observer(diary.clone()));
        let other = {
            let breaker = breaker.clone();
            thread::spawn(move || {
                if let Ok(permit) = breaker.admit() {
                    permit.answered();
                }
            })
        };
        if let Ok(permit) = breaker.admit() {
            permit.failed(&timeout());
        }
        other.join().unwrap();
        assert_eq!(diary.len(), usize::try_from(breaker.changes()).unwrap());
    });
}

/// Moves on by a nanosecond whenever it is read.
#[derive(Clone, Debug, Default)]
struct Ticking(Arc<AtomicUsize>);

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(i64::try_from(self.0.fetch_add(1, Ordering::SeqCst)).unwrap())
    }
}
