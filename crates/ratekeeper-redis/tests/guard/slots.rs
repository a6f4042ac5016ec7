//! A cluster whose slots move, and whose nodes freeze.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ratekeeper::port::FailureMode;
use ratekeeper::{Cost, Keeper, Key, Plan, Registry};
use ratekeeper_redis::RedisStore;

use super::shared_limit::started;
use crate::load::{Load, Tally};
use crate::support::cluster::{Cluster, move_slot};
use crate::support::server::redis_binary;

/// The slot of a busy key goes from node to node and back: nobody notices, and the limit holds to the last one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_moves_under_load() {
    let cluster = started(&redis_binary(), Cluster::start).await;
    let stores: Vec<RedisStore> = (0..2)
        .map(|_| {
            // No answer may be lost for want of time: the machine may be busy.
            let builder = RedisStore::builder(&cluster.url()).without_denial_cache();
            builder.command_timeout(Duration::from_secs(30)).build().unwrap()
        })
        .collect();
    let load = Load::start(&stores, "400/day", 16);
    load.more("answers", 100, Tally::informed).await;
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
    load.more("the rest", 1_500, Tally::informed).await;
    let tally = load.stop().await;
    assert_eq!(tally.failed(), 0, "redirects are followed: {tally:?}");
    assert_eq!(tally.admitted.load(Ordering::SeqCst), 2 * 400, "the state moved along");
    drop(cluster);
}

/// A frozen node harms only the keys that live on it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_node_harms_only_its_own() {
    let cluster = started(&redis_binary(), Cluster::start).await;
    let plan = Plan::parse("plan", "100/day").unwrap().on_store_error(FailureMode::Error);
    let store = RedisStore::builder(&cluster.url()).without_denial_cache().without_breaker();
    let store = store.command_timeout(Duration::from_secs(10)).build().unwrap();
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
