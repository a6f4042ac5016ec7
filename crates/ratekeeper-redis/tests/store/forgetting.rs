//! Forgetting all keys that start alike, on one server and on every master of a cluster.

use std::time::Duration;

use ratekeeper::port::{Request, Store};
use ratekeeper::{Cost, Key, Name, Plan, Quota, Rules};
use ratekeeper_redis::{Encoding, RedisStore};
use redis::Commands;

use crate::patient;
use crate::support::cluster::Cluster;
use crate::support::server::{Server, redis_binary};

async fn takes(store: &RedisStore, key: &str, rules: Rules<'_>) -> bool {
    let request = Request { key: Key::new(key).unwrap(), rules, cost: Cost::ONE };
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
        .map(|name| Request { key: Key::new(name).unwrap(), rules: Rules::Quota(&quota), cost: Cost::ONE })
        .collect();
    let mut decisions = Vec::new();
    store.acquire_many(&requests, &mut decisions).await.unwrap();
    assert!(decisions.into_iter().all(|decision| decision.unwrap().allowed));
    let sizes = |cluster: &Cluster| -> Vec<usize> {
        let size = |node: &Server| redis::cmd("DBSIZE").query(&mut node.connection()).unwrap();
        cluster.nodes.iter().map(size).collect()
    };
    assert!(sizes(&cluster).iter().all(|size| *size > 1_000), "{:?}", sizes(&cluster));
    // 1, 10 to 19, 100 to 199, 1000 to 1999.
    assert_eq!(store.forget(b"user:1").await.unwrap(), 1_111);
    assert_eq!(store.forget(b"user:").await.unwrap(), 4_000 - 1_111);
    assert_eq!(store.forget(b"").await.unwrap(), 0);
}
