//! Forgetting all keys that start alike, on one server and on every master of a cluster.

use std::time::Duration;

use ratekeeper::port::{Request, Store};
use ratekeeper::store::BreakerState;
use ratekeeper::{Cost, Key, Name, Plan, Quota, Rules, StoreErrorKind};
use ratekeeper_redis::{Encoding, RedisStore};
use redis::Commands;

use crate::store::patient;
use test_support::redis::cluster::Cluster;
use test_support::redis::server::{Server, redis_binary};

async fn takes(store: &RedisStore, key: &str, rules: Rules<'_>) -> bool {
    let request = Request::new(Key::new(key).unwrap(), rules, Cost::ONE);
    store.acquire(request).await.unwrap().allowed
}

/// Another store's keys, permits and whatever else is on the server stay; so does a breaker that is closed, and a memory
/// of refusals holds nothing any more.
#[tokio::test]
async fn nothing_else_is_forgotten() {
    for server in Server::each() {
        for encoding in [Encoding::Ascii, Encoding::Binary] {
            let mine = patient(&server.url()).encoding(encoding).prefix("mine").connect().await.unwrap();
            let other = patient(&server.url()).encoding(encoding).prefix("mine:x").connect().await.unwrap();
            let (quota, plan) =
                ("1/h".parse::<Quota>().unwrap(), Plan::parse("p", "a=1/h; b=2/h log").unwrap());
            let name: Name = "slots".parse().unwrap();
            let permits = mine.permits(Key::new("tenant:7").unwrap(), &name, 1, Duration::from_secs(600));
            let permit = permits.try_acquire().await.unwrap().unwrap();
            let mut connection = server.connection();
            let _: () = connection.set("mine:{tenant:", "no braces").unwrap();
            for rules in [Rules::Quota(&quota), Rules::Plan(&plan)] {
                for store in [&mine, &other] {
                    for key in ["tenant:7", "tenant:8", "tenants"] {
                        assert!(takes(store, key, rules).await && !takes(store, key, rules).await);
                    }
                }
            }
            // One for the quota, one for the plan; in hashes each rule has its own.
            let each = if encoding == Encoding::Ascii { 2 } else { 3 };
            assert_eq!(mine.forget(b"tenant:").await.unwrap(), 2 * each, "{encoding:?}");
            for rules in [Rules::Quota(&quota), Rules::Plan(&plan)] {
                for key in ["tenant:7", "tenant:8"] {
                    assert!(takes(&mine, key, rules).await, "{key} is fresh, whatever was refused before");
                    assert!(!takes(&other, key, rules).await);
                }
                assert!(!takes(&mine, "tenants", rules).await);
            }
            assert_eq!(permits.held().await.unwrap(), 1);
            assert_eq!(connection.get::<_, String>("mine:{tenant:").unwrap(), "no braces");
            assert!(permit.release().await.unwrap());
            assert_eq!(mine.forget(b"").await.unwrap(), 3 * each);
            assert_eq!(other.forget(b"").await.unwrap(), 3 * each);
        }
    }
}

/// Thousands of keys on three masters, of which one server looks at a thousand at a time.
#[tokio::test]
async fn every_master_of_a_cluster_is_asked() {
    let cluster = Cluster::start(&redis_binary());
    let store = patient(&cluster.url()).connect().await.unwrap();
    let quota: Quota = "1/h".parse().unwrap();
    let names: Vec<String> = (0..4_000).map(|key| format!("user:{key}")).collect();
    let requests: Vec<Request<'_>> = names
        .iter()
        .map(|name| Request::new(Key::new(name).unwrap(), Rules::Quota(&quota), Cost::ONE))
        .collect();
    let mut decisions = Vec::new();
    store.acquire_many(&requests, &mut decisions).await.unwrap();
    assert!(decisions.into_iter().all(|decision| decision.unwrap().allowed));
    let sizes = |cluster: &Cluster| -> Vec<usize> {
        let size = |node: &Server| redis::cmd("DBSIZE").query(&mut node.connection()).unwrap();
        cluster.nodes.iter().map(size).collect()
    };
    assert!(sizes(&cluster).iter().all(|size| *size > 1_000), "{:?}", sizes(&cluster));
    for name in &names[..100] {
        let key = Key::new(name).unwrap();
        let request = Request::new(key, Rules::Quota(&quota), Cost::ONE);
        assert_eq!(store.reset(request).await.unwrap(), 1);
        assert!(takes(&store, name, Rules::Quota(&quota)).await);
    }
    // 1, 10 to 19, 100 to 199, 1000 to 1999.
    assert_eq!(store.forget(b"user:1").await.unwrap(), 1_111);
    assert_eq!(store.forget(b"user:").await.unwrap(), 4_000 - 1_111);
    assert_eq!(store.forget(b"").await.unwrap(), 0);
    assert_eq!(sizes(&cluster), [0, 0, 0], "neither states nor notes of resets");
}

/// The remedy for a server that is full: each state left a note behind that lived as long, and was never forgotten.
#[tokio::test]
async fn a_full_server_has_room_again() {
    for server in Server::each() {
        let store = patient(&server.url()).without_denial_cache().connect().await.unwrap();
        let month: Quota = "1/30d".parse().unwrap();
        for key in 0..500 {
            assert!(takes(&store, &format!("junk:{key}"), Rules::Quota(&month)).await);
        }
        let mut connection = server.connection();
        let mut order = |words: &[&str]| -> redis::Value {
            redis::cmd(words[0]).arg(&words[1..]).query(&mut connection).unwrap()
        };
        order(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
        order(&["CONFIG", "SET", "maxmemory", "1"]);
        // As often as it takes to open the breaker, which must not keep the remedy away.
        for key in 0..50 {
            let key = format!("customer:{key}");
            let key = Key::new(&key).unwrap();
            let request = Request::new(key, Rules::Quota(&month), Cost::ONE);
            store.acquire(request).await.unwrap_err();
        }
        assert_eq!(store.breakers()[0].state(), BreakerState::Open);
        assert_eq!(store.forget(b"junk:").await.unwrap(), 500);
        assert_eq!(order(&["DBSIZE"]), redis::Value::Int(0));
    }
}

/// One master that does not answer does not keep the others from being cleared, and the error tells how far it came.
#[tokio::test]
async fn a_server_that_fails_does_not_keep_the_others() {
    let cluster = Cluster::start(&redis_binary());
    let store = patient(&cluster.url()).command_timeout(Duration::from_secs(10)).connect().await.unwrap();
    let quota: Quota = "1/h".parse().unwrap();
    let keys: Vec<String> = (0..30).map(|key| format!("user:{key}")).collect();
    for key in &keys {
        assert!(takes(&store, key, Rules::Quota(&quota)).await);
    }
    let elsewhere = keys.iter().filter(|key| cluster.owner_of(key) != 0).count();
    cluster.nodes[0].freeze();
    let error = store.forget(b"user:").await.unwrap_err();
    cluster.nodes[0].thaw();
    assert_eq!(error.kind(), StoreErrorKind::Timeout, "{error}");
    let told = format!("{elsewhere} states were forgotten");
    assert!(error.to_string().contains(&told), "{told}: {error}");
    assert_eq!(store.forget(b"user:").await.unwrap(), (keys.len() - elsewhere) as u64, "the rest");
}
