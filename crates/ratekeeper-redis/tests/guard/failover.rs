//! The master dies, and the sentinels promote its replica: the store follows.

use std::sync::atomic::Ordering;

use ratekeeper_redis::RedisStore;

use super::shared_limit::started;
use crate::load::{Load, Tally};
use crate::support::sentinel::Trio;
use crate::support::server::redis_binary;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_follows_the_master() {
    let mut trio = started(&redis_binary(), Trio::start).await;
    let stores: Vec<RedisStore> =
        (0..2).map(|_| RedisStore::builder(&trio.url()).without_denial_cache().build().unwrap()).collect();
    let load = Load::start(&stores, "100/day", 16);
    load.more("answers", 300, Tally::informed).await;
    trio.master.kill();
    load.more("answers in its stead", 100, Tally::failed).await;
    let trio = tokio::task::spawn_blocking(move || {
        trio.wait_for_promotion();
        trio
    })
    .await
    .unwrap();
    load.is_back("after the promotion").await;
    load.more("answers", 100, Tally::informed).await;
    let tally = load.stop().await;
    // What the old master acknowledged and had not passed on is lost: at worst all of it, once.
    assert!(tally.admitted.load(Ordering::SeqCst) <= 2 * 2 * 100, "{tally:?}");
    drop(trio);
}

/// A master that froze is replaced; when it wakes up, it still believes to be the master until it is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_master_is_left() {
    let trio = started(&redis_binary(), Trio::start).await;
    let stores = [RedisStore::builder(&trio.url()).without_denial_cache().build().unwrap()];
    let load = Load::start(&stores, "100/day", 8);
    load.more("answers", 100, Tally::informed).await;
    trio.master.freeze();
    let trio = tokio::task::spawn_blocking(move || {
        trio.wait_for_promotion();
        trio
    })
    .await
    .unwrap();
    load.is_back("after the promotion").await;
    trio.master.thaw();
    load.more("answers", 100, Tally::informed).await;
    let tally = load.stop().await;
    assert!(tally.admitted.load(Ordering::SeqCst) <= 2 * 2 * 100, "{tally:?}");
}
