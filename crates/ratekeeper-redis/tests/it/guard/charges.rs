//! Charges of several keys that lie on several nodes.

use std::time::{Duration, Instant};

use ratekeeper::port::{Charge, ChargeAction, Store, Whole};
use ratekeeper::testkit::FakeClock;
use ratekeeper::testkit::conformance::{Bench, check_charges};
use ratekeeper::{Nanos, Plan, Timestamp};
use ratekeeper_redis::{Encoding, EnvoyproxyStore, RedisStore, RedisStoreBuilder};

use super::shared_limit::{binaries, started};
use crate::store::conformance::one_step_in;
use test_support::charging::{charge, charge_overlapping_keys};
use test_support::redis::cluster::Cluster;
use test_support::redis::one_unless_thorough;
use test_support::redis::sentinel::Trio;
use test_support::redis::server::redis_binary;
use test_support::wait::PATIENCE;

/// No answer may be lost for want of time: the machine may be busy.
fn patient(url: &str) -> RedisStoreBuilder {
    let patience = Duration::from_secs(30);
    RedisStore::builder(url).command_timeout(patience).connect_timeout(patience)
}

/// The suite, with charges of one key at a time; and 64 tasks whose charges lie in several slots: never is more admitted than
/// allowed, and whatever was taken for a request that another node refused is given back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_cluster() {
    for binary in one_unless_thorough(binaries()) {
        let cluster = started(&binary, Cluster::start).await;
        for encoding in [Encoding::Ascii, Encoding::Binary] {
            let builder = || patient(&cluster.url()).encoding(encoding).prefix(format!("{encoding:?}"));
            let clock = FakeClock::at(Timestamp::from_nanos(1_761_884_055_342_794_000));
            let store = builder().time_from(clock.clone()).connect().await.unwrap();
            let bench = Bench::new(&store, &clock).resolution(Nanos::from_nanos(1_000)).different_keys(1);
            check_charges(&bench.one_step_in(one_step_in())).await;
            let stores: Vec<RedisStore> = (0..4).map(|_| builder().build().unwrap()).collect();
            charge_overlapping_keys(&stores).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_the_master_that_sentinels_watch() {
    let trio = started(&redis_binary(), Trio::patient).await;
    let stores: Vec<RedisStore> = (0..2).map(|_| patient(&trio.url()).build().unwrap()).collect();
    charge_overlapping_keys(&stores).await;
}

/// Counters of that other service, in several slots.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_of_a_cluster() {
    let cluster = started(&redis_binary(), Cluster::start).await;
    let clock = FakeClock::at(Timestamp::from_secs(1_234));
    let store = EnvoyproxyStore::new(patient(&cluster.url()).build().unwrap()).clock(clock);
    let plan = Plan::parse("rls", "day=10/day fixed grid").unwrap();
    let keys: Vec<String> = (0..20).map(|key| format!("edge_user_{key}_")).collect();
    let charges: Vec<_> = keys.iter().map(|key| charge(key, &plan, 4, ChargeAction::Count)).collect();
    let mut passed = Vec::new();
    for _ in 0..3 {
        let judgment = store.charge(&charges, Whole::Open).await.unwrap();
        passed.push(judgment.each.iter().filter(|told| told.decision.allowed).count());
    }
    assert_eq!(passed, [20, 20, 0]);
}

/// A node that is lost refuses nothing by itself: the whole is an error, and what the others took or counted is given back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_taken_before_an_error_is_given_back() {
    let mut cluster = started(&redis_binary(), Cluster::start).await;
    let store = patient(&cluster.url()).without_breaker().build().unwrap();
    let plan = Plan::parse("p", "5/day fixed").unwrap();
    let keys: Vec<String> = (0..12).map(|key| format!("user:{key}")).collect();
    let owners: Vec<usize> = keys.iter().map(|key| cluster.owner_of(key)).collect();
    let charges: Vec<_> = keys.iter().map(|key| charge(key, &plan, 1, ChargeAction::Ignore)).collect();
    assert!(store.charge(&charges, Whole::Open).await.unwrap().passes);
    cluster.nodes[1].kill();
    // Looks fail before anything is taken; what counts in any case is counted by two nodes.
    let counted = charges.iter().map(|one| Charge { action: ChargeAction::Count, ..*one });
    let counted: Vec<_> = counted.collect();
    for charges in [&charges, &counted] {
        store.charge(charges, Whole::Open).await.unwrap_err();
        // The error does not wait for that.
        for (one, owner) in charges.iter().zip(&owners).filter(|(_, owner)| **owner != 1) {
            let deadline = Instant::now() + PATIENCE;
            while store.peek(one.request).await.unwrap().remaining != 4 {
                assert!(Instant::now() < deadline, "{:?} on node {owner} stays charged", one.request.key);
            }
        }
    }
}
