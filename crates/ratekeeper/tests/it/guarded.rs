//! A store behind a timeout and a breaker: what callers get, what is counted, who decides meanwhile.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ratekeeper::port::{Observer, Request, Store};
use ratekeeper::store::{Breaker, BreakerChange, BreakerSettings, BreakerState, Guarded};
use ratekeeper::{Cost, FailureMode, Keeper, Key, Plan, Quota, Registry, Rules, StoreError, StoreErrorKind};
use test_support::fake_store::FakeStore;

/// Writes down the changes of a breaker, and panics.
#[derive(Debug, Default)]
struct Diary(Mutex<Vec<String>>);

impl Observer for Diary {
    fn breaker_changed(&self, change: &BreakerChange) {
        let entry = format!("{} → {}", change.from.as_str(), change.to.as_str());
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(entry);
        std::panic::resume_unwind(Box::new("an observer must not matter"));
    }
}

impl Diary {
    fn read(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }
}

fn settings() -> BreakerSettings {
    BreakerSettings::default().failures_in_a_row(3)
}

fn quota() -> Quota {
    "2/h".parse().unwrap()
}

fn request(quota: &Quota) -> Request<'_> {
    Request::new(Key::new("user").unwrap(), Rules::Quota(quota), Cost::ONE)
}

#[tokio::test(start_paused = true)]
async fn a_frozen_store_holds_nobody_longer_than_the_timeout_and_then_not_at_all() {
    let (behind, quota, diary) = (FakeStore::new().later(), quota(), Arc::new(Diary::default()));
    let store = Guarded::new(behind.clone(), Breaker::new(settings()).observer(diary.clone()));
    assert!(store.acquire(request(&quota)).await.unwrap().allowed);

    behind.freeze();
    for _ in 0..3 {
        let before = tokio::time::Instant::now();
        let error = store.acquire(request(&quota)).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Timeout, "{error}");
        // Time is paused: it moves exactly as far as somebody waits, up to the timer's millisecond.
        let waited = before.elapsed();
        assert!((100..=101).contains(&waited.as_millis()), "{waited:?}");
    }
    let asked = behind.all_calls();
    for _ in 0..1_000 {
        let before = tokio::time::Instant::now();
        let error = store.acquire(request(&quota)).await.unwrap_err();
        assert_eq!((error.kind(), before.elapsed()), (StoreErrorKind::BreakerOpen, Duration::ZERO));
    }
    assert_eq!(behind.all_calls(), asked, "an open breaker asks nothing");
    assert_eq!(diary.read(), ["closed → open"], "told once, not a thousand times");

    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(store.peek(request(&quota)).await.unwrap_err().kind(), StoreErrorKind::Timeout, "the probe");
    assert_eq!(store.breaker().state(), BreakerState::Open);
    tokio::time::advance(Duration::from_secs(1)).await;
    behind.recover();
    assert!(store.acquire(request(&quota)).await.unwrap().allowed, "the probe was answered");
    assert!(!store.acquire(request(&quota)).await.unwrap().allowed);
    let changes =
        ["closed → open", "open → half_open", "half_open → open", "open → half_open", "half_open → closed"];
    assert_eq!(diary.read(), changes);
    assert_eq!(store.breaker().changes(), 5);
}

#[tokio::test(start_paused = true)]
async fn callers_who_give_up_count_for_nothing_and_leak_no_probe() {
    let (behind, quota) = (FakeStore::new().later(), quota());
    let store = Guarded::new(behind.clone(), Breaker::new(settings()));
    behind.freeze();
    for _ in 0..100 {
        let given_up = tokio::time::timeout(Duration::from_millis(50), store.acquire(request(&quota))).await;
        assert!(given_up.is_err());
        drop(store.acquire(request(&quota)));
    }
    assert_eq!(store.breaker().state(), BreakerState::Closed, "they say nothing about the store");
    for _ in 0..3 {
        store.acquire(request(&quota)).await.unwrap_err();
    }
    assert_eq!(store.breaker().state(), BreakerState::Open);
    tokio::time::advance(Duration::from_secs(1)).await;
    // Each is the probe, and leaves it to the next.
    for _ in 0..5 {
        let given_up = tokio::time::timeout(Duration::from_millis(50), store.acquire(request(&quota))).await;
        assert!(given_up.is_err(), "it was let through: {given_up:?}");
        drop(store.acquire(request(&quota)));
        assert_eq!(store.breaker().state(), BreakerState::HalfOpen);
    }
    behind.recover();
    assert!(store.acquire(request(&quota)).await.unwrap().allowed);
    assert_eq!(store.breaker().state(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_cannot_be_read_is_no_outage() {
    let (behind, quota) = (FakeStore::new().later(), quota());
    let store = Guarded::new(behind.clone(), Breaker::new(settings()));
    behind.fail(StoreErrorKind::Unreadable);
    for _ in 0..100 {
        assert_eq!(store.acquire(request(&quota)).await.unwrap_err().kind(), StoreErrorKind::Unreadable);
    }
    assert_eq!(store.breaker().state(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn half_of_the_questions_failing_opens_it_too() {
    let (behind, quota) = (FakeStore::new().later(), quota());
    let settings = BreakerSettings::default().failures_in_a_row(1_000).failed_percent(50, 10);
    let store = Guarded::new(behind.clone(), Breaker::new(settings));
    let mut asked = 0;
    while store.breaker().state() == BreakerState::Closed {
        if asked % 2 == 0 {
            behind.recover()
        } else {
            behind.freeze()
        }
        let _ = store.peek(request(&quota)).await;
        asked += 1;
    }
    assert_eq!(asked, 10);
}

/// Many threads fall on a breaker whose rest is over: one of them is let through.
#[tokio::test]
async fn of_many_threads_one_probes() {
    let clock = ratekeeper::testkit::FakeClock::at(ratekeeper::Timestamp::from_secs(1_000));
    let breaker = Breaker::new(settings().failures_in_a_row(1)).clock(clock.clone());
    let failure = StoreError::new(StoreErrorKind::Unreachable, "nobody there");
    breaker.admit().unwrap().failed(&failure);
    for _ in 0..200 {
        clock.advance(ratekeeper::Nanos::from_secs(1));
        let start = std::sync::Barrier::new(4);
        let let_through = std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| {
                scope.spawn(|| {
                    start.wait();
                    breaker.admit()
                })
            });
            // Held until all have asked.
            let permits = threads.map(|thread| thread.join().unwrap());
            let mut permits: Vec<_> = permits.into_iter().flatten().collect();
            let count = permits.len();
            permits.pop().unwrap().failed(&failure);
            count
        });
        assert_eq!(let_through, 1);
        assert_eq!(breaker.state(), BreakerState::Open);
    }
}

/// `local`: the store in memory takes over while the breaker is open, and hands back.
#[tokio::test(start_paused = true)]
async fn the_local_store_takes_over_and_hands_back() {
    let behind = FakeStore::new().later();
    let store = Guarded::new(behind.clone(), Breaker::new(settings()));
    let breaker = store.breaker();
    let plan = Plan::parse("gold", "2/h").unwrap().on_store_error(FailureMode::Local);
    let keeper = Keeper::new(store, Registry::new([plan]));
    let key = Key::new("user").unwrap();
    let ask = async || keeper.acquire(key, "gold", Cost::ONE).await.unwrap().allowed;

    assert!(ask().await);
    behind.freeze();
    let asked = behind.all_calls();
    let answers = [ask().await, ask().await, ask().await, ask().await, ask().await];
    assert_eq!(answers, [true, true, false, false, false], "a store of its own, which starts afresh");
    assert_eq!(breaker.state(), BreakerState::Open);
    assert_eq!(behind.all_calls() - asked, 3, "and then nobody waits for the timeout");
    let at_once = keeper.acquire(key, "gold", Cost::ONE).now().expect("nothing to wait for");
    assert!(!at_once.unwrap().allowed);

    behind.recover();
    assert!(!ask().await, "still local: the breaker rests");
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(ask().await, "the second of the real store's two");
    assert_eq!(breaker.state(), BreakerState::Closed);
    assert!(!ask().await, "which has its own state");
}

/// Whom it stands before and why it opened is told wherever it is told of: in its errors, in its changes, and by itself.
#[test]
fn a_breaker_says_who_failed_and_why() {
    #[derive(Debug, Default)]
    struct Last(Mutex<Option<BreakerChange>>);
    impl Observer for Last {
        fn breaker_changed(&self, change: &BreakerChange) {
            *self.0.lock().unwrap() = Some(change.clone());
        }
    }
    let last = Arc::new(Last::default());
    let clock = ratekeeper::testkit::FakeClock::at(ratekeeper::Timestamp::from_secs(1_000));
    let breaker = Breaker::new(settings().failures_in_a_row(1)).named("10.0.0.7:6379");
    let breaker = breaker.clock(clock.clone()).observer(last.clone());
    assert!(breaker.cause().is_none());
    let full =
        StoreError::new(StoreErrorKind::Unavailable, "OOM command not allowed").because("out_of_memory");
    breaker.admit().unwrap().failed(&full);
    let refused = breaker.admit().unwrap_err().to_string();
    assert!(refused.starts_with("10.0.0.7:6379 has failed too often"), "{refused}");
    assert!(refused.ends_with("OOM command not allowed"), "{refused}");
    let change = last.0.lock().unwrap().take().unwrap();
    assert_eq!((&*change.name, change.cause.unwrap().reason()), ("10.0.0.7:6379", "out_of_memory"));
    clock.advance(ratekeeper::Nanos::from_secs(1));
    breaker.admit().unwrap().answered();
    assert!(breaker.cause().is_none(), "it is closed");
}

/// Of a batch, one frozen key keeps the whole from being answered in time: what was answered before stands, and it
/// counts as one failure.
#[tokio::test(start_paused = true)]
async fn a_batch_counts_once() {
    let (behind, quota) = (FakeStore::new().later(), quota());
    let store = Guarded::new(behind.clone(), Breaker::new(settings()));
    let requests = [request(&quota); 3];
    let mut answers = Vec::new();
    store.acquire_many(&requests, &mut answers).await.unwrap();
    let allowed: Vec<bool> = answers.drain(..).map(|answer| answer.unwrap().allowed).collect();
    assert_eq!(allowed, [true, true, false]);
    behind.fail(StoreErrorKind::Unreadable);
    store.acquire_many(&requests, &mut answers).await.unwrap();
    assert!(answers.drain(..).all(|answer| answer.is_err_and(|error| !error.is_transient())));
    behind.freeze();
    for _ in 0..3 {
        assert_eq!(store.breaker().state(), BreakerState::Closed, "three batches, not three requests");
        let whole = store.acquire_many(&requests, &mut answers).await;
        assert_eq!((whole.unwrap_err().kind(), answers.len()), (StoreErrorKind::Timeout, 0));
    }
    assert_eq!(store.breaker().state(), BreakerState::Open);
    let whole = store.acquire_many(&requests, &mut answers).await;
    assert_eq!(whole.unwrap_err().kind(), StoreErrorKind::BreakerOpen);
}

/// A batch for which the store was not asked, since breakers behind this one are open, used to count as answered: it
/// closed a breaker that had let it through as the probe.
#[tokio::test(start_paused = true)]
async fn a_batch_that_reached_nobody_counts_for_nothing() {
    let (behind, quota) = (FakeStore::new().later(), quota());
    let store = Guarded::new(behind.clone(), Breaker::new(settings()));
    let (requests, mut answers) = ([request(&quota); 3], Vec::new());
    behind.freeze();
    for _ in 0..3 {
        store.acquire(request(&quota)).await.unwrap_err();
    }
    tokio::time::advance(Duration::from_secs(1)).await;
    behind.fail(StoreErrorKind::BreakerOpen);
    for batch in [&requests[..], &[]] {
        store.acquire_many(batch, &mut answers).await.unwrap();
        assert_eq!(answers.drain(..).filter(Result::is_err).count(), batch.len());
        assert_eq!(store.breaker().state(), BreakerState::HalfOpen, "the next one probes");
    }
    behind.fail(StoreErrorKind::Unreadable);
    store.acquire_many(&requests, &mut answers).await.unwrap();
    assert_eq!(store.breaker().state(), BreakerState::Closed, "that is an answer");
}
