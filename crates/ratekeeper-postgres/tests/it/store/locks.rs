//! Rows that others have locked, or delete, while they are decided on.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ratekeeper::port::{Charge, ChargeAction, ChargeForce, Request, Store, Whole};
use ratekeeper::store::{Breaker, Guarded};
use ratekeeper::{Cost, Key, Quota, Rules, StoreError};
use ratekeeper_postgres::PostgresStore;
use tokio_postgres::{Client, NoTls};

use test_support::postgres::Server;
use test_support::wait::until_async;

/// How many sessions wait for a row that another has locked.
const WAITING: &str = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";

fn request<'a>(key: &'a str, quota: &'a Quota, cost: u64) -> Request<'a> {
    Request::new(Key::new(key).unwrap(), Rules::Quota(quota), Cost::new(cost))
}

/// Takes from all of these keys, or from none.
async fn charge(store: &PostgresStore, keys: &[&str], quota: &Quota, cost: u64) -> bool {
    try_charge(store, keys, quota, cost).await.unwrap()
}

async fn try_charge(
    store: &PostgresStore,
    keys: &[&str],
    quota: &Quota,
    cost: u64,
) -> Result<bool, StoreError> {
    let charges: Vec<Charge<'_>> = keys
        .iter()
        .map(|key| Charge {
            request: request(key, quota, cost),
            action: ChargeAction::Ignore,
            force: ChargeForce::Alone,
        })
        .collect();
    Ok(store.charge(&charges, Whole::Open).await?.passes)
}

/// A session apart from the stores, and what moves its bytes.
async fn session(server: &Server) -> Client {
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The sweeper has locked a row that has expired, and deletes it when a charge waits for it: the charge writes all of its keys.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_goes_during_a_charge_is_written_all_the_same() {
    let Some(server) = Server::start(&[]) else { return };
    let never = Duration::ZERO;
    let store = crate::store::patient(&server).sweep_every(never).build().unwrap();
    let quota: Quota = "5/day".parse().unwrap();
    store.peek(request("a", &quota, 1)).await.unwrap();
    server.sql("INSERT INTO ratekeeper VALUES ('b', 0, '', 0)");
    let sweeper = session(&server).await;
    sweeper.batch_execute("BEGIN; SELECT * FROM ratekeeper WHERE key = 'b' FOR UPDATE").await.unwrap();
    let charging = tokio::spawn(async move { charge(&store, &["a", "b"], &quota, 1).await });
    until_async("the charge waits for the row", || server.sql(WAITING) == ["1"]).await;
    sweeper.batch_execute("DELETE FROM ratekeeper WHERE key = 'b'; COMMIT").await.unwrap();
    assert!(charging.await.unwrap());
    let other = crate::store::patient(&server).sweep_every(never).build().unwrap();
    for key in ["a", "b"] {
        assert_eq!(other.peek(request(key, &quota, 1)).await.unwrap().remaining, 4, "{key}");
    }
}

/// A store that has not seen a row yet would make it, and must not wait for whoever deletes it: neither does who is asked for in
/// the same statement. And who guards the batch by the same timeout gets the answer of the other one.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_deleted_for_long_leaves_others_alone() {
    let Some(server) = Server::start(&[]) else { return };
    let quota: Quota = "100/day".parse().unwrap();
    let before = crate::store::patient(&server).sweep_every(Duration::ZERO).build().unwrap();
    for key in ["x", "y"] {
        assert!(before.acquire(request(key, &quota, 1)).await.unwrap().allowed);
    }
    let holder = session(&server).await;
    holder.batch_execute("BEGIN; DELETE FROM ratekeeper WHERE key = 'x'").await.unwrap();
    let patience = Duration::from_secs(12);
    let builder = crate::store::patient(&server).timeout(patience).connections(NonZeroUsize::MIN);
    let store = builder.sweep_every(Duration::ZERO).build().unwrap();
    let guarded = Guarded::new(store, Breaker::default()).timeout(Some(patience));
    // It connects first, so that both go with its first statement.
    let (requests, mut answers) = ([request("x", &quota, 1), request("y", &quota, 1)], Vec::new());
    guarded.acquire_many(&requests, &mut answers).await.unwrap();
    let [stuck, other] = &answers[..] else { panic!("{answers:?}") };
    assert!(stuck.as_ref().is_err_and(|error| error.reason() == "timeout"), "{stuck:?}");
    assert!(other.as_ref().is_ok_and(|decision| decision.remaining == 98), "{other:?}");
    holder.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(guarded.acquire(requests[0]).await.unwrap().remaining, 98);
}

/// One key that somebody has locked keeps the others of the same connection waiting for a while, and no more: also if several
/// instances want it, each of which waits for the other ones as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_row_leaves_other_keys_alone() {
    let Some(server) = Server::start(&[]) else { return };
    let patience = Duration::from_secs(12);
    let stores = [(); 2].map(|()| {
        let builder = crate::store::patient(&server).timeout(patience).connections(NonZeroUsize::MIN);
        builder.sweep_every(Duration::ZERO).build().unwrap()
    });
    let quota: Quota = "100/day".parse().unwrap();
    for (store, key) in stores.iter().flat_map(|store| ["x", "y"].map(|key| (store, key))) {
        assert!(store.acquire(request(key, &quota, 1)).await.unwrap().allowed);
    }
    let holder = session(&server).await;
    holder.batch_execute("BEGIN; SELECT * FROM ratekeeper WHERE key = 'x' FOR UPDATE").await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let hammering = (0..8).map(|number| {
        let (store, stop) = (stores[number % 2].clone(), Arc::clone(&stop));
        tokio::spawn(async move {
            let mut reasons = Vec::new();
            while !stop.load(Ordering::SeqCst) {
                let answer = store.acquire(request("x", &quota, 1)).await;
                reasons.push(answer.expect_err("it is locked").reason().to_owned());
            }
            reasons
        })
    });
    let hammering: Vec<_> = hammering.collect();
    until_async("they wait for the row", || server.sql(WAITING) == ["2"]).await;
    for (turn, store) in [&stores[0], &stores[1]].into_iter().cycle().take(4).enumerate() {
        let answer = store.acquire(request("y", &quota, 1)).await;
        assert!(answer.as_ref().is_ok_and(|decision| decision.allowed), "{turn}: {answer:?}");
    }
    stop.store(true, Ordering::SeqCst);
    for asked in hammering {
        let reasons = asked.await.unwrap();
        assert!(reasons.iter().all(|reason| ["timeout", "contended"].contains(&&**reason)), "{reasons:?}");
    }
    holder.batch_execute("ROLLBACK").await.unwrap();
    let left = stores[0].acquire(request("x", &quota, 1)).await.unwrap().remaining;
    assert_eq!(left, 100 - 3, "who was told that it failed was not charged");
}

/// A charge of a locked key and a free one is given up in the end. Who asks for the free one did not get an answer for as long as
/// there was somebody else who asked for it, each time before the one before had given up.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_was_charged_with_a_locked_one_is_free_again() {
    let Some(server) = Server::start(&[]) else { return };
    let patience = Duration::from_secs(12);
    let builder = crate::store::patient(&server).timeout(patience).connections(NonZeroUsize::MIN);
    let store = builder.sweep_every(Duration::ZERO).build().unwrap();
    let quota: Quota = "100/day".parse().unwrap();
    for key in ["free", "locked"] {
        assert!(store.acquire(request(key, &quota, 1)).await.unwrap().allowed);
    }
    let holder = session(&server).await;
    holder.batch_execute("BEGIN; SELECT * FROM ratekeeper WHERE key = 'locked' FOR UPDATE").await.unwrap();
    let charging = tokio::spawn({
        let store = store.clone();
        async move { try_charge(&store, &["free", "locked"], &quota, 1).await }
    });
    until_async("the charge waits for the row", || server.sql(WAITING) == ["1"]).await;
    // One after the other, so that there is always one that has come before the others are late.
    let mut pace = tokio::time::interval(patience / 3);
    let ask = || {
        let store = store.clone();
        tokio::spawn(async move { store.acquire(request("free", &quota, 1)).await })
    };
    let mut asking = Vec::new();
    while !charging.is_finished() {
        asking.push(ask());
        pace.tick().await;
    }
    assert!(charging.await.unwrap().is_err());
    let before = asking.len();
    for _ in 0..3 {
        asking.push(ask());
        pace.tick().await;
    }
    let mut answers = Vec::new();
    for asked in asking {
        answers.push(asked.await.unwrap());
    }
    let late = answers.iter().skip(before).find(|answer| answer.is_err());
    assert!(late.is_none(), "came after the charge had gone: {late:?}");
    holder.batch_execute("ROLLBACK").await.unwrap();
}

/// Rows of one connection that somebody has locked, more than go with a statement, and asked for again and again: their calls took all
/// the room that there is for those who wait, until they were late.
#[tokio::test(flavor = "multi_thread")]
async fn many_locked_rows_leave_other_keys_alone() {
    let Some(server) = Server::start(&[]) else { return };
    let builder =
        crate::store::patient(&server).timeout(Duration::from_secs(12)).connections(NonZeroUsize::MIN);
    let store = builder.sweep_every(Duration::ZERO).build().unwrap();
    let quota: Quota = "1000/day".parse().unwrap();
    let keys: Vec<String> = (0..400).map(|number| format!("locked {number}")).collect();
    for key in keys.iter().map(String::as_str).chain(["free"]) {
        assert!(store.acquire(request(key, &quota, 1)).await.unwrap().allowed);
    }
    let holder = session(&server).await;
    holder.batch_execute("BEGIN; SELECT * FROM ratekeeper WHERE key <> 'free' FOR UPDATE").await.unwrap();
    let (is_over, turned_away) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let asking: Vec<_> = keys
        .into_iter()
        .map(|key| {
            let (store, is_over, turned_away) =
                (store.clone(), Arc::clone(&is_over), Arc::clone(&turned_away));
            tokio::spawn(async move {
                while !is_over.load(Ordering::SeqCst) {
                    let answer = store.acquire(request(&key, &quota, 1)).await;
                    turned_away.fetch_add(u64::from(answer.is_err()), Ordering::SeqCst);
                }
            })
        })
        .collect();
    until_async("many have waited in vain", || turned_away.load(Ordering::SeqCst) > 400).await;
    for _ in 0..4 {
        store.acquire(request("free", &quota, 1)).await.unwrap();
    }
    is_over.store(true, Ordering::SeqCst);
    holder.batch_execute("ROLLBACK").await.unwrap();
    for asked in asking {
        asked.await.unwrap();
    }
}

/// Several instances charge one shared key and new ones: rows are locked in the order of their keys, those that have to be made
/// too.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn charges_of_new_keys_never_wait_in_a_circle() {
    let Some(server) = Server::start(&["deadlock_timeout=10ms"]) else { return };
    let quota: Quota = "100000/day fixed".parse().unwrap();
    let stores: Vec<_> = (0..4).map(|_| Arc::new(crate::store::patient(&server).build().unwrap())).collect();
    let asking = (0..16).map(|number| {
        let store = Arc::clone(&stores[number % 4]);
        tokio::spawn(async move {
            for turn in 0..60 {
                let new: Vec<String> = (0..6).map(|user| format!("user {turn} {user}")).collect();
                let mut keys: Vec<&str> = new.iter().map(String::as_str).collect();
                keys.push("global");
                assert!(charge(&store, &keys, &quota, 1).await);
            }
        })
    });
    for asked in asking.collect::<Vec<_>>() {
        asked.await.unwrap();
    }
    let left = stores[0].peek(request("global", &quota, 1)).await.unwrap().remaining;
    assert_eq!(left, 100_000 - 16 * 60);
    drop(stores);
    let connections = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'ratekeeper'";
    until_async("all have gone", || server.sql(connections) == ["0"]).await;
    assert_eq!(server.sql("SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'"), ["0"]);
}

/// A statement that had to wait until its time was over undoes itself.
#[tokio::test(flavor = "multi_thread")]
async fn what_waited_too_long_is_not_written() {
    let Some(server) = Server::start(&[]) else { return };
    let store = crate::store::patient(&server).sweep_every(Duration::ZERO).build().unwrap();
    let quota: Quota = "5/day".parse().unwrap();
    store.peek(request("a", &quota, 1)).await.unwrap();
    let function = server.sql("SELECT oid::regproc FROM pg_proc WHERE proname LIKE 'ratekeeper\\_exchange%'");
    let (holder, late) = (session(&server).await, session(&server).await);
    holder.batch_execute("BEGIN; INSERT INTO ratekeeper VALUES ('k', 0, '', 0)").await.unwrap();
    let now = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
    let deadline: i64 = server.sql(&format!("SELECT {now} + 1000000"))[0].parse().unwrap();
    // It may begin later than that, on a busy machine, and not end.
    let exchange = format!(
        "SELECT * FROM {}(0, {deadline} + 600000000, {deadline}, ARRAY['k'::bytea], ARRAY[0], ARRAY[0::bigint], \
         ARRAY[7::bigint], ARRAY['r'::bytea], ARRAY[{deadline}])",
        function[0]
    );
    let writing = tokio::spawn(async move { late.batch_execute(&exchange).await });
    until_async("it waits for the row", || server.sql(WAITING) == ["1"]).await;
    let is_late = format!("SELECT {now} > {deadline}");
    until_async("its time is over", || server.sql(&is_late) == ["t"]).await;
    holder.batch_execute("ROLLBACK").await.unwrap();
    let refused = writing.await.unwrap().expect_err("it is too late");
    assert_eq!(refused.code().map(|code| code.code()), Some("RK001"), "{refused}");
    assert_eq!(server.sql("SELECT count(*) FROM ratekeeper"), ["0"]);
}

/// Forgetting many keys holds none of them while it waits for one that somebody has locked: it does with fewer until it is alone.
#[tokio::test(flavor = "multi_thread")]
async fn forgetting_goes_on_up_to_a_row_that_is_locked() {
    let Some(server) = Server::start(&[]) else { return };
    let store = crate::store::patient(&server).sweep_every(Duration::ZERO).build().unwrap();
    let quota: Quota = "5/day".parse().unwrap();
    let users: Vec<String> = (10..90).map(|number| format!("user {number}")).collect();
    let requests: Vec<Request<'_>> = users.iter().map(|user| request(user, &quota, 1)).collect();
    store.acquire_many(&requests, &mut Vec::new()).await.unwrap();
    let holder = session(&server).await;
    holder.batch_execute("BEGIN; SELECT * FROM ratekeeper WHERE key = 'user 80' FOR UPDATE").await.unwrap();
    let hasty = crate::store::patient(&server).timeout(Duration::from_secs(4)).build().unwrap();
    let forgetting = tokio::spawn(async move { hasty.forget(b"user ").await });
    let left = || server.sql("SELECT count(*) FROM ratekeeper")[0].parse::<usize>().unwrap();
    until_async("all before it are gone", || left() == 10).await;
    holder.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(forgetting.await.unwrap().unwrap(), 80);
    assert_eq!(left(), 0);
}

/// Of several keys, too, a peek and a refusal write nothing.
#[tokio::test]
async fn a_charge_that_takes_nothing_writes_nothing() {
    let Some(server) = Server::start(&[]) else { return };
    let store = crate::store::patient(&server).build().unwrap();
    let quota: Quota = "5/day".parse().unwrap();
    assert!(charge(&store, &["a", "b"], &quota, 0).await);
    assert!(!charge(&store, &["c", "d"], &quota, 6).await);
    assert_eq!(server.sql("SELECT count(*) FROM ratekeeper"), ["0"]);
    assert!(charge(&store, &["a", "b"], &quota, 3).await);
    let stamps = || server.sql("SELECT stamp FROM ratekeeper ORDER BY key");
    let before = stamps();
    assert!(!charge(&store, &["a", "b", "c"], &quota, 3).await);
    assert_eq!(stamps(), before, "neither a row more nor another stamp");
}
