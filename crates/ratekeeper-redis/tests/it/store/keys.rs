//! Where states are.

use std::sync::Arc;

use ratekeeper::port::Request;
use ratekeeper::{Cost, Key, Plan, Quota, Rules};
use ratekeeper_redis::Encoding;

use crate::store::patient;
use test_support::redis::server::{Server, redis_binary};

fn request<'a>(key: &'a [u8], rules: Rules<'a>) -> Request<'a> {
    Request::new(Key::new(key).unwrap(), rules, Cost::ONE)
}

#[tokio::test]
async fn keys_are_laid_out_to_the_byte() {
    let server = Server::redis();
    let ascii = patient(&server.url()).connect().await.unwrap();
    let binary = patient(&server.url()).prefix("rl").encoding(Encoding::Binary).connect().await.unwrap();
    let plan = Plan::parse("pro:eu", "a=5/s; b=9/m fixed").unwrap();
    let quota: Quota = "5/s".parse().unwrap();
    let text = |keys: Vec<Vec<u8>>| keys.iter().map(|key| key.escape_ascii().to_string()).collect::<Vec<_>>();
    let keys = |store: &ratekeeper_redis::RedisStore, rules| {
        text(store.keys(&request(b"u{1}%\xff", rules)).unwrap())
    };
    assert_eq!(keys(&ascii, Rules::Plan(&plan)), [r"rate_limiter:{u%7B1%7D%25\xff}:pro%3Aeu"]);
    assert_eq!(keys(&ascii, Rules::Quota(&quota)), [r"rate_limiter:{u%7B1%7D%25\xff}"]);
    let hashes = [r"rl:{u%7B1%7D%25\xff}:pro%3Aeu:a", r"rl:{u%7B1%7D%25\xff}:pro%3Aeu:b"];
    assert_eq!(keys(&binary, Rules::Plan(&plan)), hashes);
    assert_eq!(keys(&binary, Rules::Quota(&quota)), [r"rl:{u%7B1%7D%25\xff}::"]);
    let error = patient(&server.url()).prefix("a{b}").connect().await.unwrap_err();
    assert_eq!(error.to_string(), "prefix: `a{b}`; a prefix must not contain braces");
}

#[tokio::test]
async fn all_states_of_a_key_are_in_one_slot() {
    let server = Server::with(&redis_binary(), &["--cluster-enabled", "yes"]);
    let mut connection = server.connection();
    let mut slot =
        |key: &[u8]| -> u16 { redis::cmd("CLUSTER").arg("KEYSLOT").arg(key).query(&mut connection).unwrap() };
    let pro = Plan::parse("pro", "a=5/s; b=9/m fixed").unwrap();
    let plans = [Arc::new(pro), Arc::new(Plan::parse("other:plan", "1/s; 2/m").unwrap())];
    for encoding in [Encoding::Ascii, Encoding::Binary] {
        let store = patient(&Server::redis().url()).encoding(encoding).connect().await;
        let store = store.expect("connected while it ran");
        let mut slots = Vec::new();
        for key in [&b"user:42"[..], b"{}", b"}{", b"a{b}c", b"\xff\x00"] {
            let keys = store.keys(&request(key, Rules::Plans(&plans))).unwrap();
            let of_key: Vec<u16> = keys.iter().map(|key| slot(key)).collect();
            assert!(of_key.windows(2).all(|pair| pair[0] == pair[1]), "{key:?}: {of_key:?}");
            slots.extend(of_key.first().copied());
        }
        slots.sort_unstable();
        slots.dedup();
        assert_eq!(slots.len(), 5, "and different keys are not all in the same");
    }
}
