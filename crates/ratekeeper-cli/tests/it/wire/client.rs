//! The Rust client for MessagePack, with a server that restarts, freezes and refuses.

use std::net::SocketAddr;
use std::time::Duration;

use ratekeeper_client::{Client, ClientError, RemoteDecision, RemoteQuota};

use test_support::port::free_port;
use test_support::server::{PATIENCE, Server};
use test_support::wait::until_stopped;

fn block<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(2 * PATIENCE, work).await.unwrap() })
}

async fn client(address: SocketAddr) -> Client {
    Client::builder().timeout(PATIENCE).connect(address).await.unwrap()
}

/// A quota that refills nothing while a test runs.
const HUNDRED: RemoteQuota = RemoteQuota::per_hour(1).burst(100);

#[test]
fn decisions() {
    let server = Server::start();
    block(async {
        let client = client(server.address("msgpack")).await;
        let quota = RemoteQuota::per_minute(30).burst(15);
        let first = client.acquire("user:123", quota, 1).await.unwrap();
        assert_eq!((first.allowed, first.limit, first.remaining), (true, 15, 14));
        assert_eq!((first.retry_after, first.reset_after), (Some(Duration::ZERO), Duration::from_secs(2)));
        assert!(
            client.acquire(b"\xff\0", RemoteQuota::per_hour(1), 1).await.unwrap().allowed,
            "keys are bytes"
        );
        let denied = client.acquire(b"\xff\0", RemoteQuota::per_hour(1), 1).await.unwrap();
        assert!(!denied.allowed && denied.retry_after.is_some_and(|wait| !wait.is_zero()), "{denied:?}");
        assert_eq!(client.acquire("user:123", quota, 99).await.unwrap().retry_after, None, "never");
        let peek = async || client.peek("user:456", quota).await.unwrap();
        assert_eq!((peek().await.remaining, peek().await.remaining), (15, 15), "a look takes nothing");
    });
}

#[test]
fn many_callers_share_few_connections() {
    let server = Server::with(&["--max-connections", "3"]);
    block(async {
        let address = server.address("msgpack");
        let client = Client::builder().connections(3).timeout(PATIENCE).connect(address).await.unwrap();
        let mut callers = tokio::task::JoinSet::new();
        for _ in 0..3000 {
            let client = client.clone();
            let quota = RemoteQuota::per(1, Duration::from_secs(2_000)).burst(1000);
            callers.spawn(async move { client.acquire("k", quota, 1).await.unwrap().allowed });
        }
        let allowed = callers.join_all().await.into_iter().filter(|allowed| *allowed).count();
        assert_eq!(allowed, 1000);
    });
}

#[test]
fn mistakes_are_told_and_cost_no_connection() {
    let server = Server::start();
    block(async {
        let client = client(server.address("msgpack")).await;
        let quota = RemoteQuota::per_second(1);
        for (key, quota, cost, wrong) in [
            ("", quota, 1, "key"),
            (&"k".repeat(1025), quota, 1, "key"),
            (&"k".repeat(100_000), quota, 1, "key"),
            ("k", quota.burst(0), 1, "burst"),
            ("k", quota, 0, "cost"),
        ] {
            let error = client.acquire(key, quota, cost).await.unwrap_err();
            assert!(matches!(error, ClientError::Invalid { field, .. } if field == wrong), "{error}");
            assert!(!error.may_have_been_executed());
        }
        let error = client.acquire("k", RemoteQuota::per_day(1).burst(32), 1).await.unwrap_err();
        assert!(
            matches!(&error, ClientError::Refused(why) if why.starts_with("burst: 32 take 2764800 s")),
            "{error}"
        );
        assert!(client.acquire("k".repeat(1024), quota, 1).await.unwrap().allowed);
    });
}

#[test]
fn a_token() {
    let server = Server::with(&["--auth-token", "sesame"]);
    let address = server.address("msgpack");
    block(async {
        let with = |token: &str| Client::builder().timeout(PATIENCE).auth_token(token).connect(address);
        assert!(
            with("sesame").await.unwrap().acquire("k", RemoteQuota::per_minute(1), 1).await.unwrap().allowed
        );
        let error = with("guess").await.unwrap_err();
        assert!(matches!(&error, ClientError::Refused(why) if why == "wrong token"), "{error}");
        let error = client(address).await.acquire("k", RemoteQuota::per_minute(1), 1).await.unwrap_err();
        assert!(
            matches!(&error, ClientError::Refused(why) if why.starts_with("authentication required")),
            "{error}"
        );
    });
}

#[test]
fn nobody_there() {
    let nobody = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let error = block(Client::connect(nobody)).unwrap_err();
    assert!(matches!(error, ClientError::Connect(_)) && error.is_transient(), "{error}");
}

/// Asks until there is a decision. Returns it, and how many requests may have been executed before it.
async fn insist(client: &Client) -> (i64, RemoteDecision) {
    let mut doubtful = 0;
    // Leaves the processor to the server, which is starting.
    let mut tick = tokio::time::interval(Duration::from_millis(5));
    loop {
        tick.tick().await;
        match client.acquire("k", HUNDRED, 1).await {
            Ok(decision) => return (doubtful, decision),
            Err(error) => {
                assert!(error.is_transient(), "{error}");
                doubtful += i64::from(error.may_have_been_executed());
            }
        }
    }
}

#[test]
fn a_restarted_server_is_found_again() {
    let start = |address: &str| Server::with(&["--msgpack", address]);
    let address = format!("127.0.0.1:{}", free_port());
    let server = start(&address);
    block(async {
        let client = client(server.address("msgpack")).await;
        assert_eq!(client.acquire("k", HUNDRED, 1).await.unwrap().remaining, 99);
        server.signal("TERM");
        assert_eq!(server.wait().code(), Some(0));
        let server = start(&address);
        let (doubtful, decision) = insist(&client).await;
        // The new server is empty: the request was executed once, and those that failed at most once each.
        assert!(
            decision.remaining <= 99 && decision.remaining >= 99 - doubtful,
            "{decision:?} after {doubtful}"
        );
        assert_eq!(client.acquire("k", HUNDRED, 1).await.unwrap().remaining, decision.remaining - 1);
        drop(server);
    });
}

#[test]
fn a_frozen_server_is_given_up_on_in_time_and_asked_again_later() {
    let server = Server::start();
    block(async {
        let client = Client::builder()
            .connections(1)
            .timeout(Duration::from_secs(20))
            .connect(server.address("msgpack"))
            .await
            .unwrap();
        let (_, first) = insist(&client).await;
        server.signal("STOP");
        until_stopped(server.pid());
        let error = client.acquire("k", HUNDRED, 1).await.unwrap_err();
        assert!(error.may_have_been_executed() && error.is_transient(), "{error}");
        server.signal("CONT");
        let (doubtful, last) = insist(&client).await;
        // Once by itself, and at most once for each that was given up.
        assert!(last.remaining < first.remaining, "{last:?}");
        assert!(last.remaining >= first.remaining - 2 - doubtful, "{last:?} after {doubtful}");
    });
}
