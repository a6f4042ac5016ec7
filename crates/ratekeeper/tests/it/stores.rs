//! Every store passes the same suite.

use ratekeeper::port::Store;
use ratekeeper::store::Hashing;
use ratekeeper::testkit::conformance::{Bench, check};
use ratekeeper::testkit::{FakeClock, MemoryValues};
use ratekeeper::{CasStore, MemoryStore, Timestamp};
use test_support::cases::is_thorough;

fn clock() -> FakeClock {
    FakeClock::at(Timestamp::from_nanos(1_761_884_055_342_794_596))
}

/// A random walk makes one of so many of its steps.
fn share() -> usize {
    if is_thorough() { 1 } else { 4 }
}

#[tokio::test]
async fn the_store_in_memory_conforms() {
    for (hashing, keep_keys) in
        [(Hashing::Fold, false), (Hashing::Sip, true), (Hashing::Fold, true), (Hashing::Sip, false)]
    {
        let clock = clock();
        let builder = MemoryStore::builder().clock(clock.clone()).hashing(hashing).keep_keys(keep_keys);
        let store = builder.build();
        check(&Bench::new(&store, &clock).one_step_in(share())).await;
        let forgotten = store.forget(b"").await.map_err(|error| error.kind());
        assert_eq!(forgotten.is_ok(), keep_keys, "{forgotten:?}");
    }
}

#[tokio::test]
async fn a_restored_store_conforms() {
    let clock = clock();
    let empty = MemoryStore::builder().clock(clock.clone()).build();
    let builder = MemoryStore::builder().clock(clock.clone()).keep_keys(true);
    let store = builder.restore(&empty.snapshot()).unwrap();
    check(&Bench::new(&store, &clock).one_step_in(share())).await;
}

#[tokio::test]
async fn the_compare_and_set_store_conforms() {
    let clock = clock();
    let store = CasStore::new(MemoryValues::new(clock.clone())).clock(clock.clone());
    check(&Bench::new(&store, &clock).one_plan_at_a_time().one_step_in(share())).await;
}
