//! Servers that are dead without saying so, that only read, and that are asked for more than they can do.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join;
use ratekeeper::port::{Request, Store};
use ratekeeper::{Cost, Key, Quota, Rules};
use ratekeeper_postgres::PostgresStore;

use test_support::postgres::Server;
use test_support::proxy::{self, Proxy};
use test_support::wait::{PATIENCE, until_async, until_ok};

/// How many sessions sleep, as [`Server::slow_down`] makes them.
const SLEEPING: &str = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";

fn request<'a>(key: &'a str, quota: &'a Quota) -> Request<'a> {
    Request::new(Key::new(key).unwrap(), Rules::Quota(quota), Cost::ONE)
}

#[tokio::test]
async fn the_second_host_serves_if_the_first_one_is_frozen() {
    let Some(server) = Server::start(&[]) else { return };
    let (_first, address) = proxy::mute();
    let url = server.url().replace("postgres@", &format!("postgres@{address},"));
    let builder = PostgresStore::builder(&url).timeout(Duration::from_secs(60));
    let store = builder.connect_timeout(Duration::from_secs(10)).build().unwrap();
    let quota: Quota = "5/day".parse().unwrap();
    assert_eq!(store.acquire(request("k", &quota)).await.unwrap().remaining, 4);
}

/// A call ends by its own timeout while the store still connects, which may take a minute.
#[tokio::test]
async fn a_call_does_not_wait_for_a_connection_beyond_its_timeout() {
    let (_listener, address) = proxy::mute();
    let builder = PostgresStore::builder(&format!("postgres://postgres@{address}/postgres"));
    let builder = builder.timeout(Duration::from_millis(200)).connect_timeout(Duration::from_secs(60));
    let store = builder.build().unwrap();
    let quota: Quota = "5/day".parse().unwrap();
    for _ in 0..3 {
        let error = store.acquire(request("k", &quota)).await.unwrap_err();
        // A connection that has failed would be `unreachable`.
        assert_eq!(error.reason(), "timeout", "{error}");
        assert!(error.is_transient() && error.to_string().contains("nothing was charged"), "{error}");
    }
}

/// A table that is not logged cannot even be read on a standby: that is an outage, which failure modes answer for.
#[tokio::test]
async fn a_standby_is_read_only() {
    let Some(mut server) = Server::start(&[]) else { return };
    let quota: Quota = "5/day".parse().unwrap();
    let store = crate::store::patient(&server).build().unwrap();
    assert_eq!(store.acquire(request("k", &quota)).await.unwrap().remaining, 4);
    // What was made must be there after the crash, so that it is not what is missed.
    server.sql("CHECKPOINT");
    server.kill();
    server.become_standby();
    server.restart(&[]);
    let asked = crate::store::patient(&server).build().unwrap();
    let url = format!("{}?target_session_attrs=read-write", server.url());
    let choosy = crate::store::patient_at(&url).build().unwrap();
    for error in [
        asked.peek(request("k", &quota)).await.unwrap_err(),
        asked.acquire(request("k", &quota)).await.unwrap_err(),
        choosy.acquire(request("k", &quota)).await.unwrap_err(),
    ] {
        assert!(error.reason() == "read_only" && error.is_transient(), "{}: {error}", error.reason());
    }
}

/// If connecting takes as long as a call may, both end at once: the call is told what happened, and not that the store is gone.
#[tokio::test]
async fn a_call_that_ends_with_a_failed_connection_is_told_so() {
    let (_listener, address) = proxy::mute();
    let patience = Duration::from_millis(200);
    let builder = PostgresStore::builder(&format!("postgres://postgres@{address}/postgres"));
    let store = builder.timeout(patience).connect_timeout(patience).build().unwrap();
    let quota: Quota = "5/day".parse().unwrap();
    for _ in 0..5 {
        let error = store.acquire(request("k", &quota)).await.unwrap_err();
        assert!(["timeout", "unreachable"].contains(&error.reason()), "{}: {error}", error.reason());
    }
}

/// Each statement that was given up left its connection open, and another one was opened: hundreds in some seconds.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_is_not_connected_to_again_and_again() {
    let Some(server) = Server::start(&[]) else { return };
    let proxy = Proxy::to(server.address());
    let url = server.url().replace(&server.address().to_string(), &proxy.address().to_string());
    let builder = PostgresStore::builder(&url).connections(NonZeroUsize::MIN).sweep_every(Duration::ZERO);
    let builder = builder.timeout(Duration::from_secs(1)).connect_timeout(Duration::from_secs(60));
    let (store, quota) = (builder.build().unwrap(), "5/day".parse::<Quota>().unwrap());
    let is_served =
        async || until_ok("it is served", async || store.acquire(request("k", &quota)).await).await;
    is_served().await;
    // Like a disk that does not answer, of which no timeout of the server's own knows. A statement that was prepared begins with
    // what it is bound to: keys and records, if it decides.
    proxy.hold(|bytes| bytes[0] == b'B' && bytes.len() > 100);
    let (started, before, mut reason) = (Instant::now(), proxy.accepted(), "");
    while reason != "too_many_connections" {
        assert!(
            proxy.accepted() - before <= 5 && started.elapsed() < PATIENCE,
            "{} connections, {reason}",
            proxy.accepted() - before
        );
        reason = store.acquire(request("k", &quota)).await.unwrap_err().reason();
    }
    proxy.release();
    is_served().await;
}

/// Asks so often in a millisecond, which is more than can be decided, until so many calls were decided.
async fn overload(store: &PostgresStore, often: u64, least: u64) {
    let quota: Quota = "1000000/day".parse().unwrap();
    let decided = Arc::new(AtomicU64::new(0));
    let (mut tick, deadline) = (tokio::time::interval(Duration::from_millis(1)), Instant::now() + PATIENCE);
    // They come evenly, so that there is always one that has waited for nearly too long.
    while decided.load(Ordering::SeqCst) < least {
        assert!(Instant::now() < deadline, "hardly anything is decided: {decided:?}, {:?}", store.counts());
        tick.tick().await;
        for _ in 0..often {
            let (store, decided) = (store.clone(), Arc::clone(&decided));
            tokio::spawn(async move {
                if store.acquire(request("hot", &quota)).await.is_ok() {
                    decided.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    }
}

/// More callers than a slow server can answer for: those who have waited too long are turned away, and others are decided. Also
/// if it becomes so slow all of a sudden that no caller that has waited for a while can be answered in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overloaded_server_still_decides() {
    let Some(server) = Server::start(&[]) else { return };
    let builder =
        crate::store::patient(&server).timeout(Duration::from_secs(5)).connections(NonZeroUsize::MIN);
    let store = builder.sweep_every(Duration::ZERO).build().unwrap();
    let quota: Quota = "1000000/day".parse().unwrap();
    assert!(store.acquire(request("hot", &quota)).await.unwrap().allowed);
    // Twice as many as statements can hold: a thousand calls go with one.
    for (seconds, often) in [(1.0, 2), (2.5, 1)] {
        server.slow_down(seconds);
        overload(&store, often, 1_100).await;
    }
}

/// How old an instant may be is bounded by less than a second, and how long a statement may take is not.
#[tokio::test]
async fn a_server_that_takes_seconds_decides_if_it_may() {
    let Some(server) = Server::start(&[]) else { return };
    let store = crate::store::patient(&server).sweep_every(Duration::ZERO).build().unwrap();
    let quota: Quota = "5/day".parse().unwrap();
    assert_eq!(store.acquire(request("k", &quota)).await.unwrap().remaining, 4);
    server.slow_down(1.2);
    assert_eq!(store.acquire(request("k", &quota)).await.unwrap().remaining, 3);
}

/// More wait than go with one statement, and the server hangs: those that are left over are answered by their own deadlines, and
/// not when the statement is given up, which has more time than they have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_wait_for_the_next_statement_are_answered_by_their_own_deadlines() {
    let Some(server) = Server::start(&[]) else { return };
    let builder =
        crate::store::patient(&server).timeout(Duration::from_secs(30)).connections(NonZeroUsize::MIN);
    let store = builder.sweep_every(Duration::ZERO).build().unwrap();
    let quota: Quota = "1000000/day".parse().unwrap();
    assert!(store.acquire(request("hot", &quota)).await.unwrap().allowed);
    server.slow_down(10.0);
    let ask = || {
        let store = store.clone();
        tokio::spawn(async move { store.acquire(request("hot", &quota)).await.map(drop) })
    };
    let mut asking = vec![ask()];
    until_async("the first is under way", || server.sql(SLEEPING) == ["1"]).await;
    let sent = store.counts().statements;
    asking.extend((0..2_000).map(|_| ask()));
    until_async("as many as can follow it", || store.counts().statements > sent).await;
    server.freeze();
    let mut left_over = 0;
    for asked in asking {
        let error = match asked.await.unwrap() {
            Ok(()) => continue,
            Err(error) => error,
        };
        assert_eq!(error.reason(), "timeout", "{error}");
        // That is what calls are told that are given up with their statement.
        let said = error.to_string();
        assert!(!said.contains("no answer within"), "{said}");
        left_over += u64::from(said.contains("nothing was charged"));
    }
    assert!(left_over > 500, "{left_over} were left over");
    server.thaw();
}

/// A batch of one key goes in a few statements, in its order.
#[tokio::test]
async fn many_requests_of_one_key_share_a_statement() {
    let Some(server) = Server::start(&[]) else { return };
    let store = crate::store::patient(&server).build().unwrap();
    let (quota, other): (Quota, Quota) = ("50/day".parse().unwrap(), "9/day".parse().unwrap());
    assert!(store.acquire(request("other", &other)).await.unwrap().allowed);
    let mut requests = vec![request("hot", &quota); 80];
    requests.insert(40, request("other", &other));
    let mut answers = Vec::new();
    let before = store.counts().statements;
    // All are sent before the server answers one.
    server.freeze();
    let (answered, ()) = join(store.acquire_many(&requests, &mut answers), async { server.thaw() }).await;
    answered.unwrap();
    let sent = store.counts().statements - before;
    assert!(sent < 20, "{sent} statements for 81 requests");
    let left: Vec<u64> = answers.into_iter().map(|answer| answer.unwrap().remaining).collect();
    let expected = (0..50).rev().chain(std::iter::repeat_n(0, 30));
    let mut expected: Vec<u64> = expected.collect();
    expected.insert(40, 7);
    assert_eq!(left, expected);
}
