//! Many clients on several instances share one limit, wherever the server is.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ratekeeper::{Cost, FailureMode, Keeper, Key, Plan, Registry};
use ratekeeper_redis::RedisStore;

use test_support::redis::cluster::Cluster;
use test_support::redis::one_unless_thorough;
use test_support::redis::sentinel::Trio;
use test_support::redis::server::{Server, redis_binary, valkey_binary};
use test_support::wait;

const INSTANCES: usize = 4;
const CLIENTS: usize = 64;
const ASKS: usize = 12;
const KEYS: usize = 6;
/// What all clients together may take of one key; none comes back while the test runs.
const QUOTA: u64 = 50;

/// 64 clients on 4 instances, half of them with a denial cache, ask for six keys. Of each key exactly the quota is
/// admitted: not one more, and none is lost.
async fn share(url: &str) {
    let plan = Plan::parse("shared", &format!("a={QUOTA}/day; b=1000/day fixed"))
        .unwrap()
        .on_store_error(FailureMode::Error);
    let keepers: Vec<Keeper> = (0..INSTANCES)
        .map(|instance| {
            // No answer may be lost for want of time: the machine may be busy.
            let builder =
                RedisStore::builder(url).command_timeout(wait::PATIENCE).connect_timeout(wait::PATIENCE);
            let builder = if instance % 2 == 0 { builder } else { builder.without_denial_cache() };
            Keeper::new(builder.build().unwrap(), Registry::new([plan.clone()]))
        })
        .collect();
    let admitted: Arc<[AtomicU64; KEYS]> = Arc::default();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (keeper, admitted) = (keepers[client % INSTANCES].clone(), Arc::clone(&admitted));
            tokio::spawn(async move {
                for ask in 0..ASKS {
                    let which = (client + ask) % KEYS;
                    let name = format!("caller {which} {{%}}");
                    let ruling = keeper.acquire(Key::new(&name).unwrap(), "shared", Cost::ONE).await.unwrap();
                    admitted[which].fetch_add(u64::from(ruling.allowed), Ordering::SeqCst);
                }
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    let admitted: Vec<u64> = admitted.iter().map(|count| count.load(Ordering::SeqCst)).collect();
    assert_eq!(admitted, [QUOTA; KEYS], "{url}");
}

pub(crate) fn binaries() -> Vec<std::path::PathBuf> {
    std::iter::once(redis_binary()).chain(valkey_binary()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_one_server_by_port_and_by_socket() {
    for server in Server::each() {
        share(&server.url()).await;
        redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
        share(&format!("unix://{}", server.directory().join("redis.sock").display())).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_cluster() {
    for binary in one_unless_thorough(binaries()) {
        let cluster = started(&binary, Cluster::start).await;
        share(&cluster.url()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_the_master_that_sentinels_watch() {
    for binary in one_unless_thorough(binaries()) {
        let trio = started(&binary, Trio::patient).await;
        share(&trio.url()).await;
    }
}

/// Starting waits, and must not keep the runtime from working.
pub(crate) async fn started<T: Send + 'static>(binary: &Path, start: fn(&Path) -> T) -> T {
    let binary = binary.to_owned();
    tokio::task::spawn_blocking(move || start(&binary)).await.unwrap()
}
