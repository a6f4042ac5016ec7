//! Time is the server's, wherever it goes.

use ratekeeper::port::{Request, Store};
use ratekeeper::{Cost, Key, Nanos, Quota, Rules};
use ratekeeper_postgres::PostgresStore;

use test_support::postgres::Server;

async fn ask(store: &PostgresStore, quota: &Quota, cost: u64) -> (bool, u64) {
    let request = Request::new(Key::new("k").unwrap(), Rules::Quota(quota), Cost::new(cost));
    let decision = store.acquire(request).await.unwrap();
    (decision.allowed, decision.remaining)
}

/// A clock that steps is noticed by the statement, which does nothing by a wrong time: no answer fails, and nothing is admitted
/// that the time of the server does not admit.
#[tokio::test]
async fn a_clock_that_steps_is_followed() {
    let Some(server) = Server::with_fake_time() else { return };
    // A step that is longer than how old an instant may be, which is less than a second, is noticed at once.
    let store = crate::store::patient(&server).build().unwrap();
    let slow: Quota = "5/day".parse().unwrap();
    assert_eq!(ask(&store, &slow, 5).await, (true, 0));
    for (steps, seconds) in [3_600.0, -3_600.0, 0.0, -86_400.0, 60.0].into_iter().enumerate() {
        server.step_clock(seconds);
        assert_eq!(ask(&store, &slow, 1).await, (false, 0), "{seconds}");
        assert!(store.counts().dated_anew > steps as u64, "{seconds}: {:?}", store.counts());
    }
    // An hour of the server's time brings an hour's tokens, whatever this process thinks.
    let quick: Quota = "10 per 1h burst 10 bucket".parse().unwrap();
    assert_eq!(ask(&store, &quick, 10).await, (true, 0));
    server.step_clock(60.0 + 1_800.0);
    let (allowed, left) = ask(&store, &quick, 5).await;
    assert!(allowed && left == 0);
    // A shorter one is followed without dating anew, unless the statement is late as well, as on a busy machine.
    let mut unnoticed = false;
    for step in 1..=200 {
        let before = store.counts().dated_anew;
        server.step_clock(60.0 + 1_800.0 + 0.3 * f64::from(step));
        assert_eq!(ask(&store, &quick, 1).await, (false, 0));
        unnoticed = store.counts().dated_anew == before;
        if unnoticed {
            break;
        }
    }
    assert!(unnoticed, "{:?}", store.counts());
}

/// What is charged is dated by the server, not by this machine.
#[tokio::test]
async fn a_charge_tells_the_time_of_the_server() {
    let Some(server) = Server::with_fake_time() else { return };
    server.step_clock(-1_000_000.0);
    let store = crate::store::patient(&server).build().unwrap();
    let quota: Quota = "5/day".parse().unwrap();
    let request = Request::new(Key::new("k").unwrap(), Rules::Quota(&quota), Cost::ONE);
    let charged = store.acquire(request).await.unwrap().charged_at().unwrap();
    let now = server.sql("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint");
    let now = ratekeeper::Timestamp::from_nanos(now[0].parse::<i64>().unwrap() * 1_000);
    assert!(charged <= now && now.since(charged) < Nanos::from_secs(86_400), "{charged:?} {now:?}");
}
