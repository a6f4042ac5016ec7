//! One limit for whoever keeps the same text: this store, compare-and-set, a service in another language.

use ratekeeper::port::{Request, Store};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{CasStore, Cost, Key, Nanos, Plan, Quota, Rules, Timestamp};
use ratekeeper_redis::{Encoding, RedisStore};
use redis::Commands;

use crate::store::patient;
use test_support::redis::server::Server;

const NOW: Timestamp = Timestamp::from_nanos(1_761_884_055_342_794_000);

async fn pair(server: &Server, clock: &FakeClock) -> (RedisStore, CasStore<ratekeeper_redis::RedisValues>) {
    let scripted = patient(&server.url()).time_from(clock.clone()).connect().await.unwrap();
    let compared = CasStore::new(scripted.values()).clock(clock.clone());
    (scripted, compared)
}

/// Texts by position are read once, and written by name from then on.
#[tokio::test]
async fn what_is_written_by_position_is_read_and_rewritten() {
    let server = Server::redis();
    let mut connection = server.connection();
    let clock = FakeClock::at(NOW);
    let (scripted, compared) = pair(&server, &clock).await;
    let plan = Plan::parse("old", "a=10/m; b=5/m fixed; c=9/m bucket; d=7/m fixed").unwrap();
    let by_position = "51|42|1761884061342794000$51|23|2|b|3|1761884055342794000|d|3|1761884055342794000\
        $12|6|1761884055342794000";
    let by_name = "81|a=42|1761884067342794000$b=23|1|b|4|1761884055342794000$c=12|5|1761884055342794000\
        $d=23|1|d|4|1761884055342794000";
    for (key, store) in [("one", &scripted as &dyn Store), ("other", &compared)] {
        let request = Request::new(Key::new(key).unwrap(), Rules::Plan(&plan), Cost::ONE);
        let name = scripted.keys(&request).unwrap().remove(0);
        let () = connection.pset_ex(&name, by_position, 3_600_000).unwrap();
        assert_eq!(store.acquire(request).await.unwrap().remaining, 1, "{key}");
        assert_eq!(connection.get::<_, String>(&name).unwrap(), by_name, "{key}");
    }
    // What a request's quota left, before it had a name.
    let texts = [
        ("10/m sliding", "61|0|5|1761884055342794000"),
        ("10/m fixed", "23|1|default|5|1761884055342794000"),
    ];
    for (quota, text) in texts {
        let parsed: Quota = quota.parse().unwrap();
        for (key, store) in [("one", &scripted as &dyn Store), ("other", &compared)] {
            let key = format!("{quota} {key}");
            let request = Request::new(Key::new(&key).unwrap(), Rules::Quota(&parsed), Cost::ONE);
            let name = scripted.keys(&request).unwrap().remove(0);
            let () = connection.pset_ex(&name, text, 3_600_000).unwrap();
            assert_eq!(store.acquire(request).await.unwrap().remaining, 4, "{key}");
            assert!(connection.get::<_, String>(&name).unwrap().starts_with("81|"), "{key}");
        }
    }
}

fn request(plan: &Plan, cost: u64) -> Request<'_> {
    Request::new(Key::new("k").unwrap(), Rules::Plan(plan), Cost::new(cost))
}

/// A plan is edited while its states live, and both versions run side by side: a rule keeps its state through the other
/// version's writes, a new rule is fresh, and one whose algorithm has changed is fresh and counted.
#[tokio::test]
async fn two_versions_of_a_plan_share_what_they_both_have() {
    let server = Server::redis();
    for encoding in [Encoding::Ascii, Encoding::Binary] {
        let clock = FakeClock::at(NOW);
        let builder = patient(&server.url()).encoding(encoding).time_from(clock.clone());
        let store = builder.without_denial_cache().connect().await.unwrap();
        let old = Plan::parse("deployed", "per-s=5/s; daily=20/day fixed; gone=9/h bucket").unwrap();
        let new = Plan::parse("deployed", "daily=20/day fixed; hourly=10/h leaky; per-s=5/s").unwrap();
        for turn in 1..=4 {
            assert!(store.acquire(request(&old, 1)).await.unwrap().allowed, "{encoding:?} {turn}");
            clock.advance(Nanos::from_secs(1));
            assert!(store.acquire(request(&new, 1)).await.unwrap().allowed, "{encoding:?} {turn}");
            clock.advance(Nanos::from_secs(1));
        }
        let left = async |text: &str| {
            let plan = Plan::parse("deployed", text).unwrap();
            store.peek(request(&plan, 1)).await.unwrap().remaining
        };
        assert_eq!(left("daily=20/day fixed").await, 12, "{encoding:?}: both have taken from it");
        assert_eq!(left("hourly=10/h leaky").await, 6, "{encoding:?}: 4 taken, the other version kept them");
        assert_eq!(left("gone=9/h bucket").await, 5, "{encoding:?}");
        let changed = Plan::parse("deployed", "daily=20/day sliding").unwrap();
        assert_eq!(store.acquire(request(&changed, 1)).await.unwrap().remaining, 19, "{encoding:?}: fresh");
        assert_eq!((store.losses().algorithms_changed, store.losses().states_reset), (1, 0), "{encoding:?}");
        assert_eq!(left("hourly=10/h leaky").await, 6, "{encoding:?}: and the others stay");
        assert!(store.reset(request(&new, 1)).await.unwrap() > 0);
        assert_eq!(left("hourly=10/h leaky").await, 10, "{encoding:?}");
    }
}

/// While there are states of rules that a plan does not have, its writes do not shorten their time to live.
#[tokio::test]
async fn what_others_left_lives_on() {
    let server = Server::redis();
    let mut connection = server.connection();
    let store = patient(&server.url()).connect().await.unwrap();
    let (long, short) = (Plan::parse("p", "a=1/day").unwrap(), Plan::parse("p", "b=1000/s").unwrap());
    let name = store.keys(&request(&long, 1)).unwrap().remove(0);
    assert!(store.acquire(request(&long, 1)).await.unwrap().allowed);
    assert!(store.acquire(request(&short, 1)).await.unwrap().allowed);
    assert!(connection.pttl::<_, i64>(&name).unwrap() > 86_000_000);
    assert!(!store.acquire(request(&long, 1)).await.unwrap().allowed);
}

/// The two take turns on one key, and each sees what the other took.
#[tokio::test]
async fn scripts_and_compare_and_set_share_a_limit() {
    let server = Server::redis();
    let plans = [
        "a=8/h",
        "a=8/h bucket",
        "a=8/h leaky",
        "a=8/h fixed",
        "a=8/h sliding",
        "a=8/h log",
        "a=8/h fixed; b=90/day fixed grid; c=8/h bucket; d=70/day log; e=60/month fixed calendar; f=50/day sliding",
    ];
    for text in plans {
        let clock = FakeClock::at(NOW);
        let (scripted, compared) = pair(&server, &clock).await;
        let plan = Plan::parse("shared", text).unwrap();
        let request = Request::new(Key::new(text).unwrap(), Rules::Plan(&plan), Cost::ONE);
        for turn in 1..=8 {
            let store: &dyn Store = if turn % 2 == 0 { &scripted } else { &compared };
            let decision = store.acquire(request).await.unwrap();
            assert!(decision.allowed, "{text}, turn {turn}: {decision:?}");
            assert_eq!(decision.remaining, 8 - turn, "{text}, turn {turn}");
        }
        assert_eq!(scripted.peek(request).await.unwrap(), compared.peek(request).await.unwrap(), "{text}");
        assert!(!scripted.acquire(request).await.unwrap().allowed, "{text}");
        assert!(!compared.acquire(request).await.unwrap().allowed, "{text}");
    }
}

/// What is on the server is the documented text, whoever wrote it, and such a text of another service is read.
#[tokio::test]
async fn the_text_is_the_documented_one() {
    let server = Server::redis();
    let mut connection = server.connection();
    let fixtures = [
        ("12/m bucket", 3, "12|9|1761884055342794000"),
        ("20/m burst 9 bucket", 9, "12|0|1761884055342794000"),
        ("10/m leaky", 5, "32|5|1761884055342794000"),
        ("10/s", 3, "42|1761884055642794000"),
        ("5/m sliding", 2, "81|sliding:60000000000=61|0|2|1761884055342794000"),
        ("5/m log", 2, "81|log:60000000000=71|1|1761884055342794000|2"),
        ("100/m fixed", 3, "81|fixed:60000000000=23|1|fixed:60000000000|3|1761884055342794000"),
        (
            "1000/day fixed calendar",
            3,
            "81|fixed@UTC:86400000000000=23|1|fixed@UTC:86400000000000|3|1761868800000000000",
        ),
        (
            "100/m fixed grid",
            3,
            "81|fixed@grid:60000000000=23|1|fixed@grid:60000000000|3|1761884040000000000",
        ),
    ];
    for (quota, cost, expected) in fixtures {
        let clock = FakeClock::at(NOW);
        let (scripted, compared) = pair(&server, &clock).await;
        let parsed: Quota = quota.parse().unwrap();
        for (index, store) in [&scripted as &dyn Store, &compared].into_iter().enumerate() {
            let key = format!("{quota} by {index}");
            let request = Request::new(Key::new(&key).unwrap(), Rules::Quota(&parsed), Cost::new(cost));
            assert!(store.acquire(request).await.unwrap().allowed, "{quota}");
            let name = scripted.keys(&request).unwrap().remove(0);
            assert_eq!(connection.get::<_, String>(&name).unwrap(), expected, "{quota} by {index}");
        }
        // Another service wrote it: the same answer as to one's own.
        let foreign = format!("{quota} elsewhere");
        let request = Request::new(Key::new(&foreign).unwrap(), Rules::Quota(&parsed), Cost::ONE);
        let name = scripted.keys(&request).unwrap().remove(0);
        let () = connection.set(&name, expected).unwrap();
        let own = format!("{quota} by 0");
        let own = Request { key: Key::new(&own).unwrap(), ..request };
        assert_eq!(scripted.peek(request).await.unwrap(), scripted.peek(own).await.unwrap(), "{quota}");
    }
    // A plan of several rules, as docs/formats.md writes it out.
    let clock = FakeClock::at(Timestamp::from_secs(1_761_884_055));
    let (scripted, compared) = pair(&server, &clock).await;
    let plan = Plan::parse("step", "smooth=10/s; minute=100/m fixed; day=1000/day fixed calendar").unwrap();
    for (key, store) in [("one", &scripted as &dyn Store), ("other", &compared)] {
        let request = Request::new(Key::new(key).unwrap(), Rules::Plan(&plan), Cost::new(3));
        assert!(store.acquire(request).await.unwrap().allowed);
        let name = scripted.keys(&request).unwrap().remove(0);
        let expected = "81|smooth=42|1761884055300000000$minute=23|1|minute|3|1761884055000000000\
            $day=23|1|day|3|1761868800000000000";
        assert_eq!(connection.get::<_, String>(&name).unwrap(), expected, "{key}");
    }
}
