//! Seeds of a cluster that know little: a node that was reset, a node that never joined, nobody at all.

use ratekeeper::port::{Request, Store};
use ratekeeper::{Cost, Key, Quota, Rules};
use ratekeeper_redis::{RedisErrorKind, RedisStore, RedisStoreBuilder};

use super::shared_limit::started;
use test_support::port::free_port;
use test_support::redis::cluster::Cluster;
use test_support::redis::server::{Server, redis_binary, valkey_binary};
use test_support::wait::PATIENCE;

fn seeds(ports: &[u16]) -> RedisStoreBuilder {
    let seeds: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let url = format!("redis-cluster://{}", seeds.join(","));
    // No answer may be lost for want of time: the machine may be busy.
    RedisStore::builder(&url).command_timeout(PATIENCE).connect_timeout(PATIENCE)
}

/// Keys of all nodes are decided, each charged once.
async fn decides(store: &RedisStore, remaining: u64) {
    let quota: Quota = "9/day".parse().unwrap();
    for key in (0..30).map(|number| format!("caller{number}")) {
        let request = Request::new(Key::new(&key).unwrap(), Rules::Quota(&quota), Cost::ONE);
        assert_eq!(store.acquire(request).await.unwrap().remaining, remaining, "{key}");
    }
}

/// The reply of a node that runs alone, which lists no slots, was taken for the map: a total outage, whatever the other
/// seeds knew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decommissioned_first_seed_is_passed_over() {
    for binary in std::iter::once(redis_binary()).chain(valkey_binary()) {
        let cluster = started(&binary, Cluster::start).await;
        let alone = cluster.decommissioned(&binary);
        let store = seeds(&[alone.port(), cluster.nodes[1].port()]).connect().await.unwrap();
        decides(&store, 8).await;
        // A node that nobody listens at is no hindrance either.
        let store = seeds(&[free_port(), alone.port(), cluster.nodes[2].port()]).connect().await.unwrap();
        decides(&store, 7).await;
        let error = seeds(&[alone.port()]).connect().await.unwrap_err();
        assert_eq!(error.kind(), RedisErrorKind::Cluster);
        let text = error.to_string();
        assert!(text.contains(&alone.port().to_string()) && text.contains("CLUSTER NODES"), "{text}");
    }
}

/// A seed that knows of some slots is not believed where another knows of all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_knows_more_is_believed() {
    let cluster = started(&redis_binary(), Cluster::start).await;
    let loner: Server = Cluster::loner(&redis_binary());
    let store = seeds(&[loner.port(), cluster.nodes[0].port()]).connect().await.unwrap();
    decides(&store, 8).await;
    let keys: u64 = redis::cmd("DBSIZE").query(&mut loner.connection()).unwrap();
    assert_eq!(keys, 0, "it is no part of the cluster");
}

/// A name may stand for several addresses, and whoever is at the first may be nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_is_asked_at_every_address() {
    let cluster = started(&redis_binary(), Cluster::start).await;
    let url = format!("redis-cluster://localhost:{}", cluster.nodes[0].port());
    let store = RedisStore::builder(&url).command_timeout(PATIENCE);
    decides(&store.connect_timeout(PATIENCE).connect().await.unwrap(), 8).await;
}
