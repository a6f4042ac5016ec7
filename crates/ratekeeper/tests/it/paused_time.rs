//! Whatever is built where tokio's time is paused follows that time; stores used to go on by the real one.

use std::time::Duration;

use ratekeeper::port::{Request, Store};
use ratekeeper::store::{Breaker, BreakerSettings, BreakerState, DenialCache};
use ratekeeper::testkit::{FakeClock, MemoryValues};
use ratekeeper::{
    CasStore, Cost, Key, Limiter, MemoryStore, MonotonicClock, Quota, Rules, StoreError, StoreErrorKind,
};

const HOUR: Duration = Duration::from_secs(3_600);

async fn is_allowed(store: &impl Store) -> bool {
    let quota: Quota = "1/h".parse().unwrap();
    let request = Request::new(Key::new("ann").unwrap(), Rules::Quota(&quota), Cost::ONE);
    store.acquire(request).await.unwrap().allowed
}

/// Refuses the second request, and allows one an hour of paused time later.
async fn follows(store: impl Store) {
    assert!(is_allowed(&store).await);
    assert!(!is_allowed(&store).await);
    tokio::time::advance(HOUR).await;
    assert!(is_allowed(&store).await);
}

#[tokio::test(start_paused = true)]
async fn stores_built_in_paused_time_follow_it() {
    follows(MemoryStore::default()).await;
    follows(CasStore::new(MemoryValues::new(FakeClock::default()))).await;
    follows(DenialCache::new(MemoryStore::default())).await;
}

#[tokio::test(start_paused = true)]
async fn a_breaker_built_in_paused_time_follows_it() {
    let breaker = Breaker::new(BreakerSettings::default().failures_in_a_row(1));
    breaker.admit().unwrap().failed(&StoreError::new(StoreErrorKind::Timeout, "no answer"));
    assert_eq!(breaker.state(), BreakerState::Open);
    tokio::time::advance(HOUR).await;
    assert!(breaker.admit().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_thread_outside_of_the_runtime_reads_the_same_time() {
    let (store, limiter) = (MemoryStore::default(), Limiter::new("1/h".parse().unwrap()).unwrap());
    assert!(is_allowed(&store).await && limiter.try_acquire(1).allowed);
    tokio::time::advance(HOUR).await;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            assert!(limiter.try_acquire(1).allowed);
            // A runtime of its own has a time of its own.
            assert!(!runtime.block_on(is_allowed(&store)));
        });
    });
    assert!(is_allowed(&store).await);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_was_asked_for_is_kept() {
    let store = MemoryStore::builder().clock(MonotonicClock).build();
    assert!(is_allowed(&store).await);
    tokio::time::advance(HOUR).await;
    assert!(!is_allowed(&store).await);
}
