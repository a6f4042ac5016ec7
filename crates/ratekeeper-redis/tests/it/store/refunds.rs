//! Refunds: a late one does not mint, and a clock that steps back locks nobody out.

use ratekeeper::port::{Request, Store};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Charged, Cost, Key, Nanos, Plan, Rules, Timestamp};
use ratekeeper_redis::{Encoding, RedisStore};
use redis::Commands;

use crate::store::patient;
use test_support::redis::server::Server;

const NOW: Timestamp = Timestamp::from_nanos(1_761_884_055_342_794_000);

const QUOTAS: [&str; 6] =
    ["100/s", "100/s bucket", "100/s leaky", "100/s fixed", "100/s sliding", "100/s log"];

async fn store(server: &Server, encoding: Encoding, clock: &FakeClock) -> RedisStore {
    let builder = patient(&server.url()).encoding(encoding).time_from(clock.clone());
    builder.without_denial_cache().connect().await.unwrap()
}

/// What was charged a window ago has come back by itself: nothing more does.
#[tokio::test]
async fn a_late_refund_mints_nothing() {
    let server = Server::redis();
    for encoding in [Encoding::Ascii, Encoding::Binary] {
        for quota in QUOTAS {
            let clock = FakeClock::at(NOW);
            let store = store(&server, encoding, &clock).await;
            let plan = Plan::parse(&format!("late{encoding:?}"), &format!("r={quota}")).unwrap();
            let ask = |cost| Request::new(Key::new(quota).unwrap(), Rules::Plan(&plan), Cost::new(cost));
            let charged = store.acquire(ask(100)).await.unwrap().charged_at().unwrap();
            assert_eq!(charged, NOW, "{quota}: by the clock of the server");
            clock.advance(Nanos::from_millis(2_001));
            assert!(store.acquire(ask(100)).await.unwrap().allowed, "{quota}");
            for charged in [Charged::at(charged), Charged::ago(Nanos::from_millis(2_001))] {
                assert_eq!(store.refund(ask(100), charged).await.unwrap().remaining, 0, "{quota}");
            }
            assert!(!store.acquire(ask(1)).await.unwrap().allowed, "{encoding:?} {quota}");
            // What was charged just now comes back.
            assert_eq!(store.refund(ask(7), Charged::NOW).await.unwrap().remaining, 7, "{quota}");
        }
    }
}

/// After a reset nothing comes back of what was charged before, not even into what was charged since.
#[tokio::test]
async fn nothing_of_before_a_reset_is_given_back() {
    let server = Server::redis();
    let mut connection = server.connection();
    for encoding in [Encoding::Ascii, Encoding::Binary] {
        for quota in
            ["100/h", "100/h bucket", "100/h leaky", "100/h fixed grid", "100/h sliding", "100/h log"]
        {
            let clock = FakeClock::at(NOW);
            let store = store(&server, encoding, &clock).await;
            let plan = Plan::parse(&format!("reset{encoding:?}"), &format!("r={quota}")).unwrap();
            let parsed = quota.parse().unwrap();
            for rules in [Rules::Plan(&plan), Rules::Quota(&parsed)] {
                let ask = |cost| Request::new(Key::new(quota).unwrap(), rules, Cost::new(cost));
                let before = store.acquire(ask(80)).await.unwrap().charged_at().unwrap();
                clock.advance(Nanos::from_millis(1));
                assert_eq!(store.reset(ask(1)).await.unwrap(), 1, "{quota}");
                clock.advance(Nanos::from_millis(1));
                let since = store.acquire(ask(90)).await.unwrap().charged_at().unwrap();
                assert_eq!(
                    store.refund(ask(80), Charged::at(before)).await.unwrap().remaining,
                    10,
                    "{quota}"
                );
                assert_eq!(store.refund(ask(5), Charged::at(since)).await.unwrap().remaining, 15, "{quota}");
                let marker = [&store.keys(&ask(1)).unwrap()[0][..], b"%reset"].concat();
                let left: i64 = connection.pttl(&marker).unwrap();
                assert!(left > 3_000_000, "{quota}: as long as it could have been given back, {left} ms");
                store.reset(ask(1)).await.unwrap();
            }
        }
    }
}

/// After a step back of an hour, 60 s windows were locked for 120 s, and everything else for as long as its own rule
/// said. Nobody waits for longer than a refill, and waiting just so long is enough.
#[tokio::test]
async fn a_clock_that_steps_back_locks_nobody_out_for_longer_than_a_refill() {
    for server in Server::each() {
        steps_back_and_locks_nobody_out(&server).await;
    }
}

async fn steps_back_and_locks_nobody_out(server: &Server) {
    let quotas =
        ["10/m", "10/m bucket", "10/m leaky", "10/m fixed", "10/m fixed grid", "10/m sliding", "10/m log"];
    for encoding in [Encoding::Ascii, Encoding::Binary] {
        for quota in quotas {
            for step in [Nanos::from_secs(3_600), Nanos::from_secs(86_400)] {
                let clock = FakeClock::at(NOW);
                let store = store(server, encoding, &clock).await;
                let name = format!("stepped{encoding:?}{}", step.as_nanos());
                let plan = Plan::parse(&name, &format!("r={quota}")).unwrap();
                let ask = |cost| Request::new(Key::new(quota).unwrap(), Rules::Plan(&plan), Cost::new(cost));
                assert!(store.acquire(ask(10)).await.unwrap().allowed);
                clock.set(NOW.saturating_sub(step));
                let denied = store.acquire(ask(10)).await.unwrap();
                assert!(!denied.allowed, "{quota}: a step back mints nothing: {denied:?}");
                let wait = denied.retry_after.unwrap();
                // The slots of the sliding counter fade over a second window.
                let most = if quota.contains("sliding") { 120 } else { 60 };
                assert!(
                    wait <= Nanos::from_nanos(most * 1_000_000_000 + 1),
                    "{encoding:?} {quota}: {wait:?}"
                );
                let micros = Nanos::from_nanos(wait.ceil_micros() * 1_000);
                clock.advance(micros);
                assert!(store.acquire(ask(10)).await.unwrap().allowed, "{encoding:?} {quota} after {wait:?}");
            }
        }
    }
}
