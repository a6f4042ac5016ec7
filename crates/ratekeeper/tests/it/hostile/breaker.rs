//! Observers of a breaker are told of its changes in the order in which they happened, whoever made them.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use ratekeeper::port::Observer;
use ratekeeper::store::{Breaker, BreakerChange, BreakerSettings, BreakerState};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Nanos, StoreError, StoreErrorKind, Timestamp};
use test_support::cases::share;
use test_support::wait::PATIENCE;

fn failure() -> StoreError {
    StoreError::new(StoreErrorKind::Timeout, "no answer")
}

/// Opens at once, and is tried again after this long.
fn settings(rest: Nanos) -> BreakerSettings {
    BreakerSettings::default().failures_in_a_row(1).rest(rest)
}

/// Records every change.
#[derive(Debug, Default)]
struct Diary(Mutex<Vec<BreakerChange>>);

impl Observer for Diary {
    fn breaker_changed(&self, change: &BreakerChange) {
        self.0.lock().unwrap().push(change.clone());
    }
}

/// Reports that it was called when the breaker opened, and blocks until the test lets it go on.
#[derive(Debug)]
struct Slow {
    called: Mutex<Sender<()>>,
    go_on: Mutex<Receiver<()>>,
}

impl Observer for Slow {
    fn breaker_changed(&self, change: &BreakerChange) {
        if change.to != BreakerState::Open {
            return;
        }
        self.called.lock().unwrap().send(()).unwrap();
        let _ = self.go_on.lock().unwrap().recv_timeout(PATIENCE);
    }
}

/// The thread that opened the breaker is held up by an observer before it has told the next one. Another thread finds
/// the rest over and probes. The second observer used to be told `open → half_open` before `closed → open`.
#[test]
fn a_slow_observer_lets_no_change_overtake_another() {
    let clock = FakeClock::at(Timestamp::from_secs(1_000));
    let (called, was_called) = channel();
    let (go_on, wait) = channel();
    let slow = Arc::new(Slow { called: Mutex::new(called), go_on: Mutex::new(wait) });
    let diary = Arc::new(Diary::default());
    let breaker = Breaker::new(settings(Nanos::from_secs(1))).clock(clock.clone());
    let breaker = breaker.observer(slow).observer(diary.clone());
    thread::scope(|scope| {
        let first = scope.spawn(|| breaker.admit().unwrap().failed(&failure()));
        was_called.recv_timeout(PATIENCE).unwrap();
        clock.advance(Nanos::from_secs(2));
        // Nobody else is held up: what this one changes, the first tells when it can.
        scope.spawn(|| breaker.admit().unwrap().answered()).join().unwrap();
        go_on.send(()).unwrap();
        first.join().unwrap();
    });
    let told: Vec<_> = diary.0.lock().unwrap().iter().map(|change| change.to).collect();
    assert_eq!(told, [BreakerState::Open, BreakerState::HalfOpen, BreakerState::Closed]);
}

/// A breaker that changes as fast as threads can make it.
#[test]
fn every_change_follows_the_one_before() {
    for threads in [2, 4, 16] {
        let diary = Arc::new(Diary::default());
        let breaker = Breaker::new(settings(Nanos::from_nanos(1))).observer(diary.clone());
        thread::scope(|scope| {
            for thread in 0..threads {
                let breaker = &breaker;
                scope.spawn(move || {
                    for turn in 0..share(40_000) {
                        let Ok(permit) = breaker.admit() else { continue };
                        match (turn + thread) % 3 {
                            0 => permit.answered(),
                            1 => permit.failed(&failure()),
                            _ => drop(permit),
                        }
                    }
                });
            }
        });
        let told = diary.0.lock().unwrap();
        assert_eq!(told.len() as u64, breaker.changes(), "each is told once");
        let mut state = BreakerState::Closed;
        for (index, change) in told.iter().enumerate() {
            assert_eq!(change.from, state, "{threads} threads: change {index} of {}", told.len());
            state = change.to;
        }
        assert_eq!(state, breaker.state());
    }
}
