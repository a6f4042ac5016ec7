//! The quotas that requests bring: what they share, what they never harm, and what a reset forgets.

use ratekeeper::port::{Request, Store};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{CasStore, Cost, Key, Nanos, Quota, Rules, Timestamp};
use ratekeeper_redis::{Encoding, RedisStore};

use crate::store::patient;
use test_support::redis::server::Server;

const NOW: Timestamp = Timestamp::from_nanos(1_761_884_055_342_794_000);

async fn store(server: &Server, encoding: Encoding, clock: &FakeClock) -> RedisStore {
    let builder = patient(&server.url()).encoding(encoding).time_from(clock.clone());
    builder.without_denial_cache().connect().await.unwrap()
}

fn ask<'a>(key: &'a str, quota: &'a Quota, cost: u64) -> Request<'a> {
    Request::new(Key::new(key).unwrap(), Rules::Quota(quota), Cost::new(cost))
}

/// One denied request wiped another quota of the same key: its repair was written back, and a second later the drained
/// quota was whole.
#[tokio::test]
async fn a_denial_never_cuts_off_what_a_longer_quota_left() {
    let server = Server::redis();
    let pairs = [
        (Quota::throttle(5, 5, 3600).unwrap(), Quota::throttle(100, 100, 1).unwrap()),
        ("5/h bucket".parse().unwrap(), "100/s bucket".parse().unwrap()),
        ("5/h leaky".parse().unwrap(), "4/h leaky".parse().unwrap()),
    ];
    for encoding in [Encoding::Ascii, Encoding::Binary] {
        for (long, short) in &pairs {
            let (key, clock) = (format!("{encoding:?} {long}"), FakeClock::at(NOW));
            let store = store(&server, encoding, &clock).await;
            assert!(store.acquire(ask(&key, long, 5)).await.unwrap().allowed);
            let denied = store.acquire(ask(&key, short, 1)).await.unwrap();
            assert!(!denied.allowed, "{key}: {denied:?}");
            if long.algorithm() == ratekeeper::Algorithm::Gcra {
                let wait = denied.retry_after.unwrap().as_nanos();
                assert_eq!(wait, 3_600_000_000_000 + 10_000_000 - 1_000_000_000, "up to the hour");
            }
            clock.advance(Nanos::from_millis(1_100));
            let still = store.acquire(ask(&key, long, 1)).await.unwrap();
            assert!(!still.allowed, "{key}: {still:?}");
        }
    }
}

/// A caller who varies its numbers stays limited; another algorithm or length has its own, and is never an error.
#[tokio::test]
async fn states_are_shared_by_algorithm_and_length() {
    let server = Server::redis();
    let quotas =
        ["9/h", "9/h bucket", "9/h leaky", "9/h fixed", "9/h sliding", "9/h log", "9/day fixed", "9/day log"];
    let varied =
        ["8/h", "8/h bucket", "8/h leaky", "8/h fixed", "8/h sliding", "8/h log", "8/day fixed", "8/day log"];
    for encoding in [Encoding::Ascii, Encoding::Binary] {
        let clock = FakeClock::at(NOW);
        let scripted = store(&server, encoding, &clock).await;
        let compared = CasStore::new(scripted.values()).clock(clock.clone());
        // Compare-and-set keeps texts.
        let stores: &[&dyn Store] = match encoding {
            Encoding::Ascii => &[&scripted, &compared],
            _ => &[&scripted],
        };
        for (number, store) in stores.iter().enumerate() {
            let key = format!("{encoding:?} {number}");
            for quota in quotas {
                let quota: Quota = quota.parse().unwrap();
                let decision = store.acquire(ask(&key, &quota, 9)).await.unwrap();
                assert!(decision.allowed, "{key}, {quota}: {decision:?}");
            }
            for quota in varied {
                let quota: Quota = quota.parse().unwrap();
                let decision = store.acquire(ask(&key, &quota, 1)).await.unwrap();
                assert!(!decision.allowed, "{key}, {quota}: {decision:?}");
            }
            let last: Quota = quotas[7].parse().unwrap();
            assert_eq!(store.reset(ask(&key, &last, 1)).await.unwrap(), 8, "{key}: all of them");
            for quota in quotas {
                let quota: Quota = quota.parse().unwrap();
                let decision = store.acquire(ask(&key, &quota, 9)).await.unwrap();
                assert!(decision.allowed, "{key}, {quota}: {decision:?}");
            }
        }
    }
}

/// However many lengths a caller thinks up, a key holds a bounded number of them.
#[tokio::test]
async fn a_key_holds_a_bounded_number_of_states() {
    let server = Server::redis();
    for encoding in [Encoding::Ascii, Encoding::Binary] {
        let clock = FakeClock::at(NOW);
        let store = store(&server, encoding, &clock).await;
        let key = format!("{encoding:?}");
        for seconds in 100..160 {
            let quota: Quota = format!("5 per {seconds}s sliding").parse().unwrap();
            assert!(store.acquire(ask(&key, &quota, 5)).await.unwrap().allowed);
            assert!(!store.acquire(ask(&key, &quota, 1)).await.unwrap().allowed);
        }
        let quota: Quota = "5 per 159s sliding".parse().unwrap();
        assert!((2..=17).contains(&store.reset(ask(&key, &quota, 1)).await.unwrap()), "{encoding:?}");
    }
}

/// The calendar's week begins on Monday, the grid's on Thursday: each found the other's count to be an old one, and
/// whoever asked for both in turn was admitted without end.
#[tokio::test]
async fn windows_of_one_length_in_different_places_are_not_one_anothers() {
    let server = Server::redis();
    let (calendar, grid): (Quota, Quota) =
        ("5/week fixed calendar".parse().unwrap(), "5 per 7days fixed grid".parse().unwrap());
    let clock = FakeClock::at(NOW);
    let memory = ratekeeper::MemoryStore::builder().clock(clock.clone()).build();
    let ascii = store(&server, Encoding::Ascii, &clock).await;
    let binary = store(&server, Encoding::Binary, &clock).await;
    let stores: [&dyn Store; 3] = [&memory, &ascii, &binary];
    for store in stores {
        let mut admitted = 0;
        for _ in 0..20 {
            while store.acquire(ask("k", &calendar, 1)).await.unwrap().allowed {
                admitted += 1;
            }
            store.acquire(ask("k", &grid, 1)).await.unwrap();
        }
        assert_eq!(admitted, 5, "{store:?}");
    }
}

/// A key of another kind made a reset fail, which is there to forget whatever lies under the key; and a key that lives for
/// ever was given a millisecond to live by a rule or a quota that is soon whole.
#[tokio::test]
async fn what_others_put_there_is_forgotten_and_not_cut_short() {
    use ratekeeper::Plan;
    use redis::Commands;
    let server = Server::redis();
    let mut connection = server.connection();
    let clock = FakeClock::at(NOW);
    let long = Plan::parse("p", "a=1/day").unwrap();
    let short = Plan::parse("p", "b=1000/s").unwrap();
    let held = |plan| Request::new(Key::new("k").unwrap(), Rules::Plan(plan), Cost::ONE);
    for encoding in [Encoding::Ascii, Encoding::Binary] {
        let store = store(&server, encoding, &clock).await;
        let name = store.keys(&held(&long)).unwrap().remove(0);
        match encoding {
            Encoding::Ascii => connection.hset::<_, _, _, ()>(&name, "a", "b").unwrap(),
            _ => connection.set::<_, _, ()>(&name, "b").unwrap(),
        }
        assert!(store.acquire(held(&long)).await.is_err(), "{encoding:?}");
        store.reset(held(&long)).await.unwrap();
        assert!(store.acquire(held(&long)).await.unwrap().allowed, "{encoding:?}");
    }
    let (day, second): (Quota, Quota) = ("1/day".parse().unwrap(), "1000/s bucket".parse().unwrap());
    for encoding in [Encoding::Ascii, Encoding::Binary] {
        let store = store(&server, encoding, &clock).await;
        let mut pairs = vec![(ask("ad hoc", &day, 1), ask("ad hoc", &second, 1))];
        // In binary each rule of a plan has a key of its own.
        pairs.extend((encoding == Encoding::Ascii).then(|| (held(&long), held(&short))));
        for (before, after) in pairs {
            let name = store.keys(&before).unwrap().remove(0);
            store.acquire(before).await.unwrap();
            connection.persist::<_, ()>(&name).unwrap();
            assert!(store.acquire(after).await.unwrap().allowed, "{encoding:?}");
            assert!(connection.pttl::<_, i64>(&name).unwrap() > 86_400_000, "{encoding:?}");
        }
    }
}
