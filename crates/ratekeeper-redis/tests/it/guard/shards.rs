//! One node of a cluster fails: its keys are answered for at once, and nobody else notices.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratekeeper::keeper::KeeperError;
use ratekeeper::port::{Observer, Request, Store};
use ratekeeper::store::{BreakerChange, BreakerSettings, BreakerState};
use ratekeeper::{
    Cost, FailureMode, Keeper, Key, Nanos, Plan, Quota, Reason, Registry, Rules, StoreErrorKind,
};
use ratekeeper_redis::RedisStore;
use tokio::task::JoinSet;

use super::shared_limit::started;
use test_support::proxy;
use test_support::redis::cluster::Cluster;
use test_support::redis::server::redis_binary;
use test_support::wait;

/// How often each client asks after the death.
const ASKS: u64 = 100;

/// How many clients ask for each key.
const CLIENTS: u64 = 4;

/// A breaker that opens after five failures, and does not probe again while a test runs.
fn opens_once() -> BreakerSettings {
    BreakerSettings::default().rest(Nanos::from_secs(3_600))
}

/// What the clients of one shard were answered.
#[derive(Debug, Default)]
struct Shard {
    sent: AtomicU64,
    decided: AtomicU64,
    failed_open: AtomicU64,
    refused_at_once: AtomicU64,
    failed: AtomicU64,
}

impl Shard {
    fn counts(&self) -> [u64; 5] {
        [&self.sent, &self.decided, &self.failed_open, &self.refused_at_once, &self.failed]
            .map(|count| count.load(Ordering::SeqCst))
    }
}

/// Asks for a key, in turn by a plan that fails open and by one that errs.
async fn ask_often(keeper: Keeper, key: String, shard: Arc<Shard>) {
    // A pace: the clients of all shards ask at the same time, also those that are answered at once.
    let mut pace = tokio::time::interval(Duration::from_millis(4));
    let count = |counter: &AtomicU64| counter.fetch_add(1, Ordering::SeqCst);
    for ask in 0..ASKS {
        pace.tick().await;
        let plan = if ask % 2 == 0 { "open" } else { "error" };
        count(&shard.sent);
        match keeper.acquire(Key::new(&key).unwrap(), plan, Cost::ONE).await {
            Ok(ruling) if ruling.reason == Reason::FailOpen => count(&shard.failed_open),
            Ok(_) => count(&shard.decided),
            Err(KeeperError::Store(error)) if error.kind() == StoreErrorKind::BreakerOpen => {
                count(&shard.refused_at_once)
            }
            Err(_) => count(&shard.failed),
        };
    }
}

fn keeper(store: &RedisStore) -> Keeper {
    let plan = |name, mode| Plan::parse(name, "1000000/day").unwrap().on_store_error(mode);
    Keeper::new(
        store.clone(),
        Registry::new([plan("open", FailureMode::Open), plan("error", FailureMode::Error)]),
    )
}

/// A key of each node, in their order.
fn key_of_each(cluster: &Cluster) -> [String; 3] {
    let mut keys = [None, None, None];
    for key in (0..).map(|number| format!("caller{number}")) {
        keys[cluster.owner_of(&key)].get_or_insert(key);
        if keys.iter().all(Option::is_some) {
            break;
        }
    }
    keys.map(Option::unwrap)
}

/// The breaker was one for the whole store: after one of three masters had died, most requests for the other two were
/// failed by it, or admitted without limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_master_fails_its_own_keys_alone() {
    let mut cluster = started(&redis_binary(), Cluster::start).await;
    // No answer may be lost for want of time: the machine may be busy.
    let builder = || {
        let builder = RedisStore::builder(&cluster.url()).without_denial_cache();
        builder.command_timeout(wait::PATIENCE).connect_timeout(wait::PATIENCE)
    };
    let store = builder().breaker(opens_once()).build().unwrap();
    // This one probes: it is back when the node is.
    let probing = builder().build().unwrap();
    let (keeper, probing_keeper) = (keeper(&store), keeper(&probing));
    let keys = key_of_each(&cluster);
    for (keeper, key) in keys.iter().flat_map(|key| [(&keeper, key), (&probing_keeper, key)]) {
        assert!(keeper.acquire(Key::new(key).unwrap(), "error", Cost::ONE).await.unwrap().allowed);
    }
    let shards: [Arc<Shard>; 3] = Default::default();
    let mut clients = JoinSet::new();
    cluster.nodes[2].kill();
    for (key, shard) in keys.iter().zip(&shards) {
        for _ in 0..CLIENTS {
            clients.spawn(ask_often(keeper.clone(), key.clone(), Arc::clone(shard)));
        }
    }
    clients.join_all().await;
    for (number, shard) in shards.iter().enumerate() {
        let [sent, decided, failed_open, refused_at_once, failed] = shard.counts();
        assert_eq!((sent, decided + failed_open + refused_at_once + failed), (CLIENTS * ASKS, sent));
        if number == 2 {
            assert_eq!((decided, failed_open), (0, sent / 2), "there is nobody to decide: {shard:?}");
            // Those that open the breaker, and those that were under way when it opened.
            assert!(failed <= 5 + CLIENTS, "left alone: {shard:?}");
        } else {
            assert_eq!(decided, sent, "node {number} is well: {shards:?}");
        }
    }
    let dead = format!("127.0.0.1:{}", cluster.nodes[2].port());
    let closed: Vec<_> = store.breakers().iter().map(|one| one.state() == BreakerState::Closed).collect();
    assert_eq!(closed.len(), 4, "three nodes and the topology");
    for breaker in store.breakers() {
        assert_eq!(breaker.state() == BreakerState::Closed, breaker.name() != dead, "{breaker:?}");
    }
    let ask = async || probing_keeper.acquire(Key::new(&keys[2]).unwrap(), "error", Cost::ONE).await;
    while probing.breakers().iter().all(|breaker| breaker.state() == BreakerState::Closed) {
        ask().await.unwrap_err();
    }
    cluster.restart(2);
    wait::until_ok("the node is back", ask).await;
    assert!(probing.breakers().iter().all(|breaker| breaker.state() == BreakerState::Closed));
}

/// Writes down which breaker opened, and why.
#[derive(Debug, Default)]
struct Diary(std::sync::Mutex<Vec<(String, String)>>);

impl Observer for Diary {
    fn breaker_changed(&self, change: &BreakerChange) {
        if change.to == BreakerState::Open {
            let cause = change.cause.as_ref().map(|cause| cause.reason().to_owned());
            self.0.lock().unwrap().push((change.name.to_string(), cause.unwrap_or_default()));
        }
    }
}

/// A batch spans all nodes, and one of them is frozen: each request has its own answer, and is charged once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_fails_only_for_the_node_that_is_frozen() {
    let cluster = started(&redis_binary(), Cluster::start).await;
    let diary = Arc::new(Diary::default());
    let store = RedisStore::builder(&cluster.url()).without_denial_cache().observer(diary.clone());
    let store = store.command_timeout(Duration::from_secs(10)).connect_timeout(Duration::from_secs(10));
    let store = store.build().unwrap();
    let quota: Quota = "100/day".parse().unwrap();
    let keys: Vec<String> = (0..120).map(|number| format!("caller{number}")).collect();
    let ask = |key| Request::new(Key::new(key).unwrap(), Rules::Quota(&quota), Cost::ONE);
    let requests: Vec<Request<'_>> = keys.iter().map(ask).collect();
    let owners: Vec<usize> = keys.iter().map(|key| cluster.owner_of(key)).collect();
    let mut answers = Vec::new();
    store.acquire_many(&requests, &mut answers).await.unwrap();
    assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|decision| decision.remaining == 99)));
    cluster.nodes[1].freeze();
    for round in 1..=3 {
        let mut answers = Vec::new();
        store.acquire_many(&requests, &mut answers).await.unwrap();
        assert_eq!(answers.len(), requests.len());
        for ((answer, owner), key) in answers.iter().zip(&owners).zip(&keys) {
            match answer {
                Ok(decision) => assert_eq!((decision.remaining, *owner != 1), (99 - round, true), "{key}"),
                Err(error) => assert_eq!(*owner, 1, "{key}: {error}"),
            }
        }
    }
    let frozen = format!("127.0.0.1:{}", cluster.nodes[1].port());
    let opened = diary.0.lock().unwrap().clone();
    assert!(opened.iter().all(|(node, _)| *node == frozen), "{opened:?}");
    assert_eq!(opened.first(), Some(&(frozen, "timeout".to_owned())), "{opened:?}");
}

/// The seeds of a cluster take connections and never answer: five requests find that out, and no other waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_those_that_open_the_breaker_wait_for_seeds_that_are_gone() {
    let (_silent, address) = proxy::mute();
    let store = RedisStore::builder(&format!("redis-cluster://{address}")).without_denial_cache();
    let store = store.breaker(opens_once()).build().unwrap();
    let quota: Quota = "100/day".parse().unwrap();
    let mut waited = 0;
    for _ in 0..200 {
        let request = Request::new(Key::new("caller").unwrap(), Rules::Quota(&quota), Cost::ONE);
        let error = store.acquire(request).await.unwrap_err();
        waited += u64::from(error.kind() != StoreErrorKind::BreakerOpen);
    }
    assert_eq!(waited, 5, "those that open it");
    let [breaker] = store.breakers().try_into().unwrap();
    assert_eq!((breaker.name(), breaker.state()), ("topology", BreakerState::Open));
}
