//! Holds on a cluster whose slots move, and under sentinels that promote a replica.

use std::time::Duration;

use ratekeeper::port::{HoldAction, HoldState};
use ratekeeper::testkit::FakeClock;
use ratekeeper::testkit::conformance::{Bench, check_holds};
use ratekeeper::{Nanos, Timestamp};
use ratekeeper_redis::{RedisStore, RedisStoreBuilder};

use super::shared_limit::{binaries, started};
use crate::store::conformance::one_step_in;
use test_support::holding::Held;
use test_support::redis::cluster::{Cluster, move_slot};
use test_support::redis::one_unless_thorough;
use test_support::redis::sentinel::Trio;
use test_support::wait;

/// A lease that outlasts the test.
const HOUR: Nanos = Nanos::from_secs(3_600);

fn patient(url: &str) -> RedisStoreBuilder {
    let patience = Duration::from_secs(30);
    RedisStore::builder(url).without_denial_cache().command_timeout(patience).connect_timeout(patience)
}

/// Examines holds as the suite of every store does, by a clock of the test.
async fn conforms(url: &str) {
    let clock = FakeClock::at(Timestamp::from_nanos(1_761_884_055_342_794_000));
    let store = patient(url).time_from(clock.clone()).connect().await.unwrap();
    let bench = Bench::new(&store, &clock).resolution(Nanos::from_nanos(1_000));
    check_holds(&bench.one_step_in(one_step_in())).await;
}

/// On one kind of server: as on a single one they conform on each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_conform_in_a_cluster() {
    for binary in one_unless_thorough(binaries()) {
        let cluster = started(&binary, Cluster::start).await;
        conforms(&cluster.url()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_conform_before_a_master_that_sentinels_watch() {
    for binary in one_unless_thorough(binaries()) {
        let trio = started(&binary, Trio::patient).await;
        conforms(&trio.url()).await;
    }
}

/// All that a hold needs lies in the slot of its key, and moves along.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_moves_with_what_is_held() {
    for binary in one_unless_thorough(binaries()) {
        let cluster = started(&binary, Cluster::start).await;
        let stores = [patient(&cluster.url()).build().unwrap(), patient(&cluster.url()).build().unwrap()];
        let held = Held::new("caller", "60/m; 1000 tokens per 100day burst 1000; 3 concurrent");
        for id in 1..=3 {
            assert!(held.hold(&stores[0], id, 100, HOUR).await.unwrap().decision.allowed);
        }
        let (slot, from, to) = cluster.slot_of("{caller}");
        move_slot(slot, from, to);
        let settled = held.settle(&stores[1], 1, 40).await.unwrap();
        assert_eq!(settled.state, HoldState::Settled);
        assert_eq!(held.change(&stores[0], 2, HoldAction::Cancel).await.unwrap().state, HoldState::Cancelled);
        move_slot(slot, to, from);
        assert_eq!(held.settle(&stores[0], 1, 999).await.unwrap().state, HoldState::Settled, "as before");
        let extended = held.change(&stores[1], 3, HoldAction::Extend(HOUR)).await.unwrap();
        assert_eq!(extended.state, HoldState::Extended);
        assert_eq!(held.left(&stores[1]).await.unwrap()[1..], [860, 2]);
    }
}

/// What the old master had passed on is ended once, however often it is said.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_held_survives_a_failover() {
    for binary in one_unless_thorough(binaries()) {
        let trio = started(&binary, Trio::patient).await;
        let store = patient(&trio.url()).without_breaker().build().unwrap();
        let held = Held::new("caller", "60/m; 1000 tokens per 100day burst 1000; 3 concurrent");
        for id in 1..=2 {
            assert!(held.hold(&store, id, 100, HOUR).await.unwrap().decision.allowed);
        }
        assert_eq!(held.settle(&store, 1, 40).await.unwrap().state, HoldState::Settled);
        // By plan: the replica has everything before it takes over.
        let trio = tokio::task::spawn_blocking(move || {
            trio.fail_over();
            trio.wait_for_promotion();
            trio
        })
        .await
        .unwrap();
        let deadline = std::time::Instant::now() + wait::PATIENCE;
        for (id, tokens) in [(1, 999), (2, 70), (2, 70), (1, 5)] {
            // While the store finds the new master, it may be refused.
            let outcome = loop {
                match held.settle(&store, id, tokens).await {
                    Ok(outcome) => break outcome,
                    Err(error) => assert!(std::time::Instant::now() < deadline, "{error}"),
                }
                tokio::task::yield_now().await;
            };
            assert_eq!(outcome.state, HoldState::Settled);
        }
        assert_eq!(held.left(&store).await.unwrap()[1..], [890, 3]);
        drop(trio);
    }
}
