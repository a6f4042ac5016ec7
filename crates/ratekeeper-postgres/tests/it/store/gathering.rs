//! One statement a decision, or for many; and what becomes of those who meet others.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{join, join_all};
use ratekeeper::port::{
    Charge, ChargeAction, ChargeForce, HoldAction, HoldChange, HoldId, HoldRequest, HoldState, Request,
    Store, Whole,
};
use ratekeeper::{Amounts, Cost, Key, Nanos, Plan, Quota, Registry, Rules};
use ratekeeper_postgres::PostgresStore;
use tokio::task::unconstrained;

use test_support::postgres::Server;
use test_support::wait::until_async;

async fn admitted(store: &PostgresStore, key: &str, quota: &Quota, requests: usize) -> usize {
    let mut admitted = 0;
    for _ in 0..requests {
        let request = Request::new(Key::new(key).unwrap(), Rules::Quota(quota), Cost::ONE);
        admitted += usize::from(store.acquire(request).await.unwrap().allowed);
    }
    admitted
}

#[tokio::test]
async fn a_decision_is_one_statement_also_on_a_new_key_and_a_refusal() {
    let Some(server) = Server::start(&[]) else { return };
    let store = crate::store::patient(&server).build().unwrap();
    let quota: Quota = "5/day".parse().unwrap();
    assert_eq!(admitted(&store, "one", &quota, 20).await, 5);
    let counts = store.counts();
    assert_eq!(
        (counts.decisions - counts.dated_anew, counts.missed, counts.locked),
        (20, 0, 0),
        "{counts:?}"
    );
    assert_eq!(counts.statements, counts.decisions);
    assert_eq!(server.sql("SELECT count(*) FROM ratekeeper"), ["1"]);
    // Another instance does not know the key: it learns of it from the first statement, and needs a second one.
    let other = crate::store::patient(&server).build().unwrap();
    assert_eq!(admitted(&other, "one", &quota, 3).await, 0);
    assert_eq!(other.counts().missed, 1);
}

#[tokio::test]
async fn those_who_wait_go_with_one_statement() {
    let Some(server) = Server::start(&[]) else { return };
    let store = crate::store::patient(&server).build().unwrap();
    let quota: Quota = "300/day".parse().unwrap();
    assert_eq!(admitted(&store, "hot", &quota, 1).await, 1);
    // All are sent before the server answers one.
    server.freeze();
    let request = Request::new(Key::new("hot").unwrap(), Rules::Quota(&quota), Cost::ONE);
    let asking = unconstrained(join_all((0..2_000).map(|_| store.acquire(request))));
    let (answers, ()) = join(asking, async { server.thaw() }).await;
    let sum = answers.into_iter().filter(|answer| answer.as_ref().unwrap().allowed).count();
    let counts = store.counts();
    assert_eq!(sum, 299);
    assert!(counts.decisions >= 2_000 && counts.statements < 20, "gathered: {counts:?}");
    assert_eq!(counts.missed, 0, "requests of one process do not fight each other");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn several_instances_share_every_key_to_the_last_token() {
    let Some(server) = Server::start(&[]) else { return };
    let quota: Quota = "500/day".parse().unwrap();
    let stores: Vec<_> = (0..4).map(|_| Arc::new(crate::store::patient(&server).build().unwrap())).collect();
    let asking = (0..32).map(|number| {
        let store = Arc::clone(&stores[number % 4]);
        tokio::spawn(async move { admitted(&store, "shared", &quota, 40).await })
    });
    let mut sum = 0;
    for asked in asking.collect::<Vec<_>>() {
        sum += asked.await.unwrap();
    }
    assert_eq!(sum, 500, "1280 requests, and neither one too many nor one too few");
}

/// Charges of overlapping keys, in different orders, by several instances: all or nothing, and no deadlock.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn charges_of_several_keys_are_whole() {
    let Some(server) = Server::start(&[]) else { return };
    let quota: Quota = "200/day".parse().unwrap();
    let stores: Vec<_> = (0..3).map(|_| Arc::new(crate::store::patient(&server).build().unwrap())).collect();
    let asking = (0..12).map(|number| {
        let store = Arc::clone(&stores[number % 3]);
        tokio::spawn(async move {
            let mut passed = 0;
            for turn in 0..40 {
                let mut keys = ["a", "b", "c"];
                keys.rotate_left((turn + number) % 3);
                let charges = keys.map(|key| Charge {
                    request: Request::new(Key::new(key).unwrap(), Rules::Quota(&quota), Cost::ONE),
                    action: ChargeAction::Ignore,
                    force: ChargeForce::Alone,
                });
                passed += u64::from(store.charge(&charges, Whole::Open).await.unwrap().passes);
            }
            passed
        })
    });
    let mut sum = 0;
    for asked in asking.collect::<Vec<_>>() {
        sum += asked.await.unwrap();
    }
    assert_eq!(sum, 200);
    for key in ["a", "b", "c"] {
        let request = Request::new(Key::new(key).unwrap(), Rules::Quota(&quota), Cost::ONE);
        assert_eq!(stores[0].peek(request).await.unwrap().remaining, 0, "{key}");
    }
}

#[tokio::test]
async fn a_hold_is_ended_by_another_instance() {
    let Some(server) = Server::start(&[]) else { return };
    let (one, other) =
        (crate::store::patient(&server).build().unwrap(), crate::store::patient(&server).build().unwrap());
    let plans = [Arc::new(Plan::parse("llm", "60/m; 100 tokens/m; 2 concurrent").unwrap())];
    let registry = Registry::new([Plan::clone(&plans[0])]);
    let key = Key::new("user").unwrap();
    for (id, ender, statements) in [(1, &one, 1), (2, &other, 3)] {
        let id = HoldId::from_bits(id);
        let amounts = [("tokens", 40)];
        let hold = HoldRequest {
            key,
            plans: &plans,
            amounts: Amounts::of(&amounts),
            id,
            lease: Nanos::from_secs(60),
        };
        assert!(one.hold(hold).await.unwrap().decision.allowed);
        let before = ender.counts().statements - ender.counts().dated_anew;
        let spent = [("tokens", 10)];
        let change =
            HoldChange { key, id, action: HoldAction::Settle(Amounts::of(&spent)), plans: &registry };
        let outcome = ender.change_hold(change).await.unwrap();
        assert_eq!(outcome.state, HoldState::Settled);
        assert!(outcome.standing.unwrap().each[1].remaining >= 79);
        assert_eq!(ender.counts().statements - ender.counts().dated_anew - before, statements);
        // It answers the same again, to whoever asks.
        let again = HoldChange { key, id, action: HoldAction::Cancel, plans: &registry };
        assert_eq!(other.change_hold(again).await.unwrap().state, HoldState::Settled);
    }
}

/// Whoever did not make a hold looks first what its plans are called. Each statement had the time of a whole call, so that the second
/// one was written long after the caller had given up.
#[tokio::test]
async fn a_hold_is_ended_within_one_timeout_or_not_at_all() {
    let Some(server) = Server::start(&[]) else { return };
    let (one, patience) = (crate::store::patient(&server).build().unwrap(), Duration::from_secs(8));
    let other =
        crate::store::patient(&server).timeout(patience).connections(NonZeroUsize::MIN).build().unwrap();
    let plans = [Arc::new(Plan::parse("jobs", "2 concurrent").unwrap())];
    let registry = Registry::new([Plan::clone(&plans[0])]);
    let (key, id) = (Key::new("user").unwrap(), HoldId::from_bits(1));
    let hold =
        HoldRequest { key, plans: &plans, amounts: Amounts::of(&[]), id, lease: Nanos::from_secs(3_600) };
    assert!(one.hold(hold).await.unwrap().decision.allowed);
    // It is connected, and knows the row no more than the plans.
    let quota: Quota = "5/day".parse().unwrap();
    let request = Request::new(Key::new("elsewhere").unwrap(), Rules::Quota(&quota), Cost::ONE);
    other.peek(request).await.unwrap();
    server.slow_down(4.0);
    server.freeze();
    let frozen = Instant::now();
    let change = HoldChange { key, id, action: HoldAction::Settle(Amounts::of(&[])), plans: &registry };
    let thawing = until_async("most of the time is over", || frozen.elapsed() > patience * 3 / 4);
    let (ended, ()) = join(other.change_hold(change), async {
        thawing.await;
        server.thaw();
    })
    .await;
    assert_eq!(ended.unwrap_err().reason(), "timeout");
    let cancel = HoldChange { key, id, action: HoldAction::Cancel, plans: &registry };
    assert_eq!(one.change_hold(cancel).await.unwrap().state, HoldState::Cancelled);
}

/// Outside of any runtime, and after the runtime of the first caller has ended.
#[test]
fn no_runtime_is_needed() {
    let Some(server) = Server::start(&[]) else { return };
    let store = crate::store::patient(&server).build().unwrap();
    let quota: Quota = "2/day".parse().unwrap();
    for expected in [1, 0] {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let request = Request::new(Key::new("k").unwrap(), Rules::Quota(&quota), Cost::ONE);
        assert_eq!(runtime.block_on(async { store.acquire(request).await }).unwrap().remaining, expected);
    }
    drop(store);
    let connections = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'ratekeeper'";
    test_support::wait::until("its connections have ended with it", || server.sql(connections) == ["0"]);
}

/// A call that is not decided in time is an error, and is not charged afterwards.
#[tokio::test]
async fn who_has_timed_out_is_not_charged_later() {
    let Some(server) = Server::start(&[]) else { return };
    let patient = crate::store::patient(&server).build().unwrap();
    let quota: Quota = "9/day".parse().unwrap();
    assert_eq!(admitted(&patient, "k", &quota, 1).await, 1);
    let hasty = PostgresStore::builder(&server.url())
        .timeout(Duration::from_secs(6))
        .connect_timeout(Duration::from_secs(30))
        .build()
        .unwrap();
    let request = Request::new(Key::new("k").unwrap(), Rules::Quota(&quota), Cost::ONE);
    assert_eq!(hasty.acquire(request).await.unwrap().remaining, 7);
    server.freeze();
    let late = hasty.acquire(request).await.unwrap_err();
    assert_eq!(late.reason(), "timeout", "{late}");
    let told = std::time::Instant::now();
    until_async("its time is over by the server's clock, too", || told.elapsed() > Duration::from_secs(2))
        .await;
    server.thaw();
    assert_eq!(
        patient.acquire(request).await.unwrap().remaining,
        6,
        "the one that was late is not among them"
    );
    let active =
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'ratekeeper' AND state = 'active'";
    until_async("the statement that was late has run", || server.sql(active) == ["0"]).await;
    assert_eq!(patient.peek(request).await.unwrap().remaining, 6);
}
