//! State that cannot be read, and state that can although it is written otherwise.

use ratekeeper::port::{Request, Store};
use ratekeeper::state::OnUnreadable;
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Cost, Key, Plan, Quota, Rules, StoreErrorKind, Timestamp};
use ratekeeper_redis::{Encoding, RedisStore};
use redis::Commands;

use crate::store::patient;
use test_support::redis::server::Server;

const NOW: Timestamp = Timestamp::from_nanos(1_761_884_055_342_794_000);

async fn store(server: &Server, encoding: Encoding, policy: OnUnreadable) -> RedisStore {
    let builder = patient(&server.url()).encoding(encoding).unreadable(policy);
    builder.time_from(FakeClock::at(NOW)).connect().await.unwrap()
}

fn ask(quota: &Quota) -> Request<'_> {
    Request::new(Key::new("k").unwrap(), Rules::Quota(quota), Cost::ONE)
}

#[tokio::test]
async fn unreadable_text_is_an_error_or_reset_as_the_policy_says() {
    let server = Server::redis();
    let mut connection = server.connection();
    let careful = store(&server, Encoding::Ascii, OnUnreadable::Error).await;
    let generous = store(&server, Encoding::Ascii, OnUnreadable::Reset).await;
    let cases = [
        ("10/m", "hello"),
        ("10/m", ""),
        ("10/m", "43|1761884055342794000"),
        ("10/m", "42| 1"),
        ("10/m", "42|1\n"),
        ("10/m", "42|99999999999999999999"),
        ("10/m", "51|42|1$42|1"),
        ("10/m bucket", "12|nan|1761884055342794000"),
        ("10/m bucket", "12|inf|1761884055342794000"),
        ("10/m bucket", "12|0x10|1761884055342794000"),
        ("10/m bucket", "12|1e999|1761884055342794000"),
        ("10/m bucket", "12|1e|1"),
        ("10/m bucket", "12|.|1"),
        ("10/m leaky", "32| 5|1"),
        ("10/m leaky", "32|5|1|2"),
        ("10/m", "81|"),
        ("10/m", "81|gcra=42| 1"),
        ("10/m", "81|gcra=42|1$gcra=42|1"),
        ("10/m", "81|gcra=42|1$"),
        ("10/m", "81|gcra"),
        ("10/m", "81|gc ra=42|1"),
        ("10/m", "82|gcra=42|1"),
        ("10/m fixed", "81|fixed:60000000000=23|1|other|1|1"),
        ("10/m fixed", "23|2|default|1|1"),
        ("10/m fixed", "23|1|default|-1|1"),
        ("10/m sliding", "61|-1|1|1"),
        ("10/m log", "71|2|5|1|4|1"),
        ("10/m log", "71|1|5|0"),
        ("10/m log", "71|1|5|1|6|1"),
        ("10/m log", "71|9999999"),
    ];
    for (index, (quota, text)) in cases.into_iter().enumerate() {
        let quota: Quota = quota.parse().unwrap();
        let name = careful.keys(&ask(&quota)).unwrap().remove(0);
        let () = connection.set(&name, text).unwrap();
        let error = careful.acquire(ask(&quota)).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unreadable, "{text}: {error}");
        assert!(error.to_string().contains("reset"), "{text}: {error}");
        assert_eq!(connection.get::<_, String>(&name).unwrap(), text, "it stays");
        let decision = generous.acquire(ask(&quota)).await.unwrap();
        assert_eq!((decision.allowed, decision.remaining), (true, 9), "{text}");
        assert_eq!(generous.losses().states_reset, index as u64 + 1);
    }
}

/// The same state in other words: read, and written in ours from then on.
#[tokio::test]
async fn text_that_is_written_otherwise_is_understood() {
    let server = Server::redis();
    let mut connection = server.connection();
    let store = store(&server, Encoding::Ascii, OnUnreadable::Error).await;
    let cases = [
        ("10/m bucket", "12|+5.0|+1761884055342794000", 4),
        ("10/m bucket", "12|.5e1|1761884055342794000", 4),
        ("10/m bucket", "12|5E0|001761884055342794000", 4),
        ("10/m leaky", "32|5.00|0000001761884055342794000", 4),
        ("10/m", "42|+1761884085342794000", 4),
        ("10/m", "42|-1234567890", 9),
        ("10/m", "42|0", 9),
        ("10/m", "42|-9223372036854775808", 9),
        ("10/m sliding", "61|+0|+5|1761884055342794000", 4),
        ("10/m log", "71|+1|1761884055342794000|5", 4),
    ];
    for (quota, text, left) in cases {
        let quota: Quota = quota.parse().unwrap();
        let name = store.keys(&ask(&quota)).unwrap().remove(0);
        let () = connection.pset_ex(&name, text, 3_600_000).unwrap();
        let decision = store.acquire(ask(&quota)).await.unwrap();
        assert_eq!((decision.allowed, decision.remaining), (true, left), "{text}");
    }
    assert_eq!(store.losses().states_reset, 0);
}

#[tokio::test]
async fn a_hash_of_another_version_is_discarded_and_counted() {
    let server = Server::redis();
    let mut connection = server.connection();
    let (quota, plan): (Quota, _) = ("10/m".parse().unwrap(), Plan::parse("p", "10/m").unwrap());
    let of_plan = Request { rules: Rules::Plan(&plan), ..ask(&quota) };
    for request in [ask(&quota), of_plan] {
        let careful = store(&server, Encoding::Binary, OnUnreadable::Error).await;
        let name = careful.keys(&request).unwrap().remove(0);
        let () = connection.hset_multiple(&name, &[("v", "2"), ("new", "field")]).unwrap();
        assert_eq!(careful.acquire(request).await.unwrap().remaining, 9);
        assert_eq!((careful.losses().versions_discarded, careful.losses().states_reset), (1, 0));
        assert_eq!(careful.acquire(request).await.unwrap().remaining, 8, "and from then on it is ours");
        assert_eq!(careful.losses().versions_discarded, 1);
    }

    type Fields = &'static [(&'static str, &'static [u8])];
    let damaged: [(Request<'_>, Fields); 5] = [
        (of_plan, &[("v", b"1"), ("tat", b"short")]),
        (of_plan, &[("tat", &[0; 8])]),
        (of_plan, &[("v", b"1"), ("tat", &[0; 8]), ("more", b"")]),
        (ask(&quota), &[("v", b"1"), ("gcra/tat", b"short")]),
        (ask(&quota), &[("gcra/tat", &[0; 8])]),
    ];
    let careful = store(&server, Encoding::Binary, OnUnreadable::Error).await;
    let generous = store(&server, Encoding::Binary, OnUnreadable::Reset).await;
    for (index, (request, fields)) in damaged.into_iter().enumerate() {
        let name = careful.keys(&request).unwrap().remove(0);
        let () = connection.del(&name).unwrap();
        let () = connection.hset_multiple(&name, fields).unwrap();
        let error = careful.acquire(request).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unreadable, "{fields:?}: {error}");
        assert_eq!(generous.acquire(request).await.unwrap().remaining, 9, "{fields:?}");
        assert_eq!(generous.losses().states_reset, index as u64 + 1);
    }
}

/// What is forgotten need not be understood: that is what a reset is for.
#[tokio::test]
async fn a_reset_forgets_whatever_lies_there() {
    let server = Server::redis();
    let mut connection = server.connection();
    let quota: Quota = "10/m".parse().unwrap();
    let text = store(&server, Encoding::Ascii, OnUnreadable::Error).await;
    let hash = store(&server, Encoding::Binary, OnUnreadable::Error).await;
    let (of_text, of_hash) =
        (text.keys(&ask(&quota)).unwrap().remove(0), hash.keys(&ask(&quota)).unwrap().remove(0));
    let () = connection.set(&of_text, "hello").unwrap();
    let () = connection.hset_multiple(&of_hash, &[("v", "1"), ("gcra/tat", "short")]).unwrap();
    for (store, name) in [(&text, &of_text), (&hash, &of_hash)] {
        assert!(store.acquire(ask(&quota)).await.is_err());
        assert_eq!(store.reset(ask(&quota)).await.unwrap(), 0, "nothing that counted");
        assert!(!connection.exists::<_, bool>(name).unwrap());
        assert_eq!(store.acquire(ask(&quota)).await.unwrap().remaining, 9);
    }
}

#[tokio::test]
async fn a_key_of_another_type_is_an_error_and_stays() {
    let server = Server::redis();
    let mut connection = server.connection();
    let quota: Quota = "10/m".parse().unwrap();
    for encoding in [Encoding::Ascii, Encoding::Binary] {
        let store = store(&server, encoding, OnUnreadable::Reset).await;
        let name = store.keys(&ask(&quota)).unwrap().remove(0);
        let () = connection.rpush(&name, "an item").unwrap();
        let error = store.acquire(ask(&quota)).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unreadable, "{error}");
        assert_eq!(connection.llen::<_, u64>(&name).unwrap(), 1);
    }
}
