//! A cluster whose slots move, and whose nodes freeze.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ratekeeper::port::{Request, Store};
use ratekeeper::{Cost, FailureMode, Keeper, Key, Plan, Quota, Registry, Rules};
use ratekeeper_redis::{RedisStore, RedisStoreBuilder};

use super::shared_limit::started;
use crate::guard::giving_up::connections;
use crate::guard::load::{AnswerCounts, Load};
use test_support::redis::cluster::{Cluster, begin_move, move_slot};
use test_support::redis::server::redis_binary;
use test_support::wait;

/// No answer may be lost for want of time: the machine may be busy.
fn store(cluster: &Cluster) -> RedisStoreBuilder {
    let (builder, patience) = (RedisStore::builder(&cluster.url()), Duration::from_secs(60));
    builder.without_denial_cache().command_timeout(patience).connect_timeout(patience)
}

/// The slot of a busy key goes from node to node and back: nobody notices, and the limit holds to the last one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_moves_under_load() {
    let cluster = started(&redis_binary(), Cluster::start).await;
    let stores: Vec<RedisStore> = (0..2).map(|_| store(&cluster).build().unwrap()).collect();
    let load = Load::start(&stores, "400/day", 16);
    load.more("answers", 100, AnswerCounts::informed).await;
    let cluster = tokio::task::spawn_blocking(move || {
        let (slot, mut from, mut to) = cluster.slot_of("{caller}");
        for _ in 0..3 {
            move_slot(slot, from, to);
            std::mem::swap(&mut from, &mut to);
        }
        cluster
    })
    .await
    .unwrap();
    wait::until_async("both quotas are spent", || load.counts.admitted.load(Ordering::SeqCst) >= 2 * 400)
        .await;
    // More than that is refused.
    load.more("answers", 100, AnswerCounts::informed).await;
    let counts = load.stop().await;
    assert_eq!(counts.failed(), 0, "redirects are followed: {counts:?}");
    assert_eq!(counts.admitted.load(Ordering::SeqCst), 2 * 400, "the state moved along");
    drop(cluster);
}

/// A frozen node harms only the keys that live on it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_node_harms_only_its_own() {
    let cluster = started(&redis_binary(), Cluster::start).await;
    let plan = Plan::parse("plan", "100/day").unwrap().on_store_error(FailureMode::Error);
    let store = RedisStore::builder(&cluster.url()).without_denial_cache().without_breaker();
    let patience = Duration::from_secs(60);
    let store = store.command_timeout(patience).connect_timeout(patience).build().unwrap();
    let keeper = Keeper::new(store, Registry::new([plan]));
    let keys: Vec<String> = (0..30).map(|number| format!("caller{number}")).collect();
    for key in &keys {
        assert!(keeper.acquire(Key::new(key).unwrap(), "plan", Cost::ONE).await.unwrap().allowed);
    }
    let owner = |key: &str| cluster.slot_of(&format!("{{{key}}}")).1.port();
    let owners: Vec<u16> = keys.iter().map(|key| owner(key)).collect();
    cluster.nodes[2].freeze();
    let mut unharmed = 0;
    for (key, _) in keys.iter().zip(owners).filter(|(_, port)| *port != cluster.nodes[2].port()) {
        assert!(keeper.acquire(Key::new(key).unwrap(), "plan", Cost::ONE).await.unwrap().allowed);
        unharmed += 1;
    }
    assert!(unharmed > 5, "{unharmed} of the keys live elsewhere");
}

/// A node that is just getting its first slot has none by any map: with each look it was forgotten, with its breaker and
/// its connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_gets_its_first_slot_keeps_its_connection() {
    const ROUNDS: u64 = 5;
    let cluster = started(&redis_binary(), Cluster::start).await;
    let store = store(&cluster).build().unwrap();
    let quota: Quota = "100/day".parse().unwrap();
    let request = Request::new(Key::new("caller").unwrap(), Rules::Quota(&quota), Cost::ONE);
    let (slot, owner, _) = cluster.slot_of("{caller}");
    let new = cluster.join(&redis_binary());
    begin_move(slot, owner, &new);
    assert_eq!(store.acquire(request).await.unwrap().remaining, 99);
    let before = connections(&new);
    for round in 1..=ROUNDS {
        store.check().await.unwrap();
        assert_eq!(store.acquire(request).await.unwrap().remaining, 99 - round);
    }
    assert_eq!(connections(&new) - before, 1, "the one that asks");
    assert!(store.breakers().iter().any(|breaker| breaker.name().ends_with(&format!(":{}", new.port()))));
}

/// Takes from these keys, once each.
async fn take_from(store: &RedisStore, keys: &[String]) {
    let quota: Quota = "1/h".parse().unwrap();
    for key in keys {
        let request = Request::new(Key::new(key).unwrap(), Rules::Quota(&quota), Cost::ONE);
        assert!(store.acquire(request).await.unwrap().allowed);
    }
}

/// The map was looked at once, and believed from then on: keys on a node that came later were missed without a word, and
/// a node that had left failed it for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_asked_as_it_is_now() {
    let cluster = started(&redis_binary(), Cluster::start).await;
    let store = store(&cluster).connect().await.unwrap();
    let keys: Vec<String> = (0..30).map(|key| format!("user:{key}")).collect();
    take_from(&store, &keys).await;
    let (slot, owner, _) = cluster.slot_of("{user:0}");
    let mut new = cluster.join(&redis_binary());
    move_slot(slot, owner, &new);
    cluster.agree(slot, &new);
    assert_eq!(store.forget(b"").await.unwrap(), 30, "one of them is on the new node");
    take_from(&store, &keys).await;
    move_slot(slot, &new, owner);
    cluster.agree(slot, owner);
    new.kill();
    assert_eq!(store.forget(b"").await.unwrap(), 30, "the node that has left is asked for nothing");
}
