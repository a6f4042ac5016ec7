//! One limit for whoever keeps the same text: this store, compare-and-set, a service in another language.

use ratekeeper::port::{Request, Store};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{CasStore, Cost, Key, Plan, Quota, Rules, Timestamp};
use ratekeeper_redis::RedisStore;
use redis::Commands;

use crate::patient;
use crate::support::server::Server;

const NOW: Timestamp = Timestamp::from_nanos(1_761_884_055_342_794_000);

async fn pair(server: &Server, clock: &FakeClock) -> (RedisStore, CasStore<ratekeeper_redis::RedisValues>) {
    let scripted = patient(&server.url()).time_from(clock.clone()).connect().await.unwrap();
    let compared = CasStore::new(scripted.values()).clock(clock.clone());
    (scripted, compared)
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
        let request = Request { key: Key::new(text).unwrap(), rules: Rules::Plan(&plan), cost: Cost::ONE };
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
        ("5/m sliding", 2, "61|0|2|1761884055342794000"),
        ("5/m log", 2, "71|1|1761884055342794000|2"),
        ("100/m fixed", 3, "23|1|default|3|1761884055342794000"),
        ("1000/day fixed calendar", 3, "23|1|default|3|1761868800000000000"),
        ("100/m fixed grid", 3, "23|1|default|3|1761884040000000000"),
    ];
    for (quota, cost, expected) in fixtures {
        let clock = FakeClock::at(NOW);
        let (scripted, compared) = pair(&server, &clock).await;
        let parsed: Quota = quota.parse().unwrap();
        for (index, store) in [&scripted as &dyn Store, &compared].into_iter().enumerate() {
            let key = format!("{quota} by {index}");
            let request =
                Request { key: Key::new(&key).unwrap(), rules: Rules::Quota(&parsed), cost: Cost::new(cost) };
            assert!(store.acquire(request).await.unwrap().allowed, "{quota}");
            let name = scripted.keys(&request).unwrap().remove(0);
            assert_eq!(connection.get::<_, String>(&name).unwrap(), expected, "{quota} by {index}");
        }
        // Another service wrote it: the same answer as to one's own.
        let foreign = format!("{quota} elsewhere");
        let request =
            Request { key: Key::new(&foreign).unwrap(), rules: Rules::Quota(&parsed), cost: Cost::ONE };
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
        let request = Request { key: Key::new(key).unwrap(), rules: Rules::Plan(&plan), cost: Cost::new(3) };
        assert!(store.acquire(request).await.unwrap().allowed);
        let name = scripted.keys(&request).unwrap().remove(0);
        let expected =
            "51|42|1761884055300000000$23|2|minute|3|1761884055000000000|day|3|1761868800000000000";
        assert_eq!(connection.get::<_, String>(&name).unwrap(), expected, "{key}");
    }
}
