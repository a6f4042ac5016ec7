//! By the server's clock: what callers see, and what they agree on.

use std::sync::Arc;

use ratekeeper::port::{Request, Store};
use ratekeeper::{Cost, Keeper, Key, Plan, Quota, Registry, Rules};
use ratekeeper_redis::Encoding;
use redis::Commands;

use crate::store::patient;
use test_support::redis::server::Server;

/// The twin of the example in `lib.rs`.
#[tokio::test]
async fn a_keeper_on_redis() {
    let server = Server::redis();
    let store = patient(&server.url()).connect().await.unwrap();
    let plans = Registry::new([Plan::parse("free", "10/s burst 20; 1000/day").unwrap()]);
    let keeper = Keeper::new(store, plans);
    let decision = keeper.acquire(Key::new("user:42").unwrap(), "free", Cost::ONE).await.unwrap();
    assert!(decision.allowed && decision.remaining == 19);
}

/// 64 clients on 4 instances: exactly the quota passes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_instances_share_one_limit() {
    let quotas = ["50/day", "50/day bucket", "50/day leaky", "50/day fixed", "50/day sliding", "50/day log"];
    for server in Server::each() {
        for encoding in [Encoding::Ascii, Encoding::Binary] {
            let mut instances = Vec::new();
            for _ in 0..4 {
                instances.push(patient(&server.url()).encoding(encoding).connect().await.unwrap());
            }
            for quota in quotas {
                let plan = Arc::new(Plan::parse("shared", &format!("x={quota}; y=90/h")).unwrap());
                let clients = (0..64).map(|client: usize| {
                    let (store, plan) = (instances[client % 4].clone(), Arc::clone(&plan));
                    tokio::spawn(async move {
                        let mut passed = 0;
                        for _ in 0..4 {
                            let key = format!("{encoding:?} {quota}");
                            let key = Key::new(&key).unwrap();
                            let request = Request::new(key, Rules::Plan(&plan), Cost::ONE);
                            passed += u32::from(store.acquire(request).await.unwrap().allowed);
                        }
                        passed
                    })
                });
                let clients: Vec<_> = clients.collect();
                let mut passed = 0;
                for client in clients {
                    passed += client.await.unwrap();
                }
                assert_eq!(passed, 50, "{encoding:?} {quota}");
            }
        }
    }
}

/// State expires by itself once it is worthless, and is there until then.
#[tokio::test]
async fn state_expires_when_it_is_worthless() {
    let server = Server::redis();
    let mut connection = server.connection();
    for encoding in [Encoding::Ascii, Encoding::Binary] {
        let store = patient(&server.url()).encoding(encoding).connect().await.unwrap();
        // Worth something for minutes at least, which the test does not take.
        let quotas = [
            "1/h",
            "10/h bucket",
            "3/h leaky",
            "2/h fixed",
            "2/year fixed calendar",
            "2/h sliding",
            "2/h log",
        ];
        for text in quotas {
            let quota: Quota = text.parse().unwrap();
            let request = Request::new(Key::new(text).unwrap(), Rules::Quota(&quota), Cost::ONE);
            let decision = store.acquire(request).await.unwrap();
            let left: i64 = connection.pttl(store.keys(&request).unwrap().remove(0)).unwrap();
            // The server's clock has gone on since.
            let whole = i64::try_from(decision.reset_after.ceil_millis()).unwrap();
            assert!((1..=whole + 1).contains(&left), "{encoding:?} {text}: {left} ms of {whole}");
        }
        let quota: Quota = "1000/s".parse().unwrap();
        let request = Request::new(Key::new("brief").unwrap(), Rules::Quota(&quota), Cost::ONE);
        store.acquire(request).await.unwrap();
        let key = store.keys(&request).unwrap().remove(0);
        crate::store::eventually("it is gone", async || !connection.exists::<_, bool>(&key).unwrap()).await;
    }
}

/// A denial and a peek write nothing, a refund gives back, a reset forgets.
#[tokio::test]
async fn what_writes_and_what_does_not() {
    let server = Server::redis();
    let mut connection = server.connection();
    let store = patient(&server.url()).connect().await.unwrap();
    let quota: Quota = "2/h bucket".parse().unwrap();
    let request = |cost| Request::new(Key::new("k").unwrap(), Rules::Quota(&quota), Cost::new(cost));
    assert_eq!(store.peek(request(1)).await.unwrap().remaining, 2);
    assert!(store.acquire(request(0)).await.unwrap().allowed);
    assert_eq!(redis::cmd("DBSIZE").query::<u64>(&mut connection).unwrap(), 0, "a peek writes nothing");
    assert!(store.acquire(request(2)).await.unwrap().allowed);
    let key = store.keys(&request(1)).unwrap().remove(0);
    let before: Vec<u8> = connection.get(&key).unwrap();
    assert!(!store.acquire(request(1)).await.unwrap().allowed);
    assert_eq!(connection.get::<_, Vec<u8>>(&key).unwrap(), before, "a denial writes nothing");
    assert_eq!(store.refund(request(1), ratekeeper::Charged::NOW).await.unwrap().remaining, 1);
    assert_eq!(store.acquire_up_to(request(1), Cost::new(5)).await.unwrap().granted, Cost::ONE);
    assert_eq!(store.reset(request(1)).await.unwrap(), 1);
    assert_eq!(store.reset(request(1)).await.unwrap(), 0);
    assert!(!connection.exists::<_, bool>(&key).unwrap());
    let left: i64 = connection.pttl([&key[..], b"%reset"].concat()).unwrap();
    assert!((1..=3_600_001).contains(&left), "until nothing of before could be given back: {left} ms");
    let nothing = Request { rules: Rules::Plans(&[]), ..request(7) };
    assert!(store.acquire(nothing).await.unwrap().allowed, "no rules: nothing to exceed");
}
