//! The Rust client for MessagePack, against a server that restarts, freezes and refuses.

use std::net::SocketAddr;
use std::time::Duration;

use ratekeeper_client::{Client, Error};

use crate::redis_support::wait::until_stopped;
use crate::support::{DEADLINE, Server};

fn block<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(2 * DEADLINE, work).await.unwrap() })
}

async fn client(address: SocketAddr) -> Client {
    Client::builder().timeout(DEADLINE).connect(address).await.unwrap()
}

#[test]
fn decisions() {
    let server = Server::start();
    block(async {
        let client = client(server.address("msgpack")).await;
        let first = client.throttle("user:123", 15, 30, 60, 1).await.unwrap();
        assert_eq!((first.allowed, first.limit, first.remaining), (true, 15, 14));
        assert_eq!((first.retry_after, first.reset_after), (Some(Duration::ZERO), Duration::from_secs(2)));
        assert!(client.throttle(b"\xff\0", 1, 1, 60, 1).await.unwrap().allowed, "keys are bytes");
        let denied = client.throttle(b"\xff\0", 1, 1, 60, 1).await.unwrap();
        assert!(!denied.allowed && denied.retry_after.is_some_and(|wait| !wait.is_zero()), "{denied:?}");
        assert_eq!(client.throttle("user:123", 15, 30, 60, 99).await.unwrap().retry_after, None, "never");
    });
}

#[test]
fn many_callers_share_few_connections() {
    let server = Server::with(&["--max-connections", "3"]);
    block(async {
        let address = server.address("msgpack");
        let client = Client::builder().connections(3).timeout(DEADLINE).connect(address).await.unwrap();
        let mut callers = tokio::task::JoinSet::new();
        for _ in 0..3000 {
            let client = client.clone();
            callers.spawn(async move { client.throttle("k", 1000, 1, 360, 1).await.unwrap().allowed });
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
        for key in ["", &"k".repeat(1025), &"k".repeat(100_000)] {
            let error = client.throttle(key, 1, 1, 1, 1).await.unwrap_err();
            assert!(matches!(error, Error::Key { bytes } if bytes == key.len()), "{error}");
            assert!(!error.may_have_been_executed());
        }
        let error = client.throttle("k", 0, 1, 1, 1).await.unwrap_err();
        assert_eq!(error.to_string(), "refused: burst: 0; must be at least 1");
        assert!(client.throttle("k".repeat(1024), 1, 1, 1, 1).await.unwrap().allowed);
    });
}

#[test]
fn a_token() {
    let server = Server::with(&["--auth-token", "sesame"]);
    let address = server.address("msgpack");
    block(async {
        let with = |token: &str| Client::builder().timeout(DEADLINE).auth_token(token).connect(address);
        assert!(with("sesame").await.unwrap().throttle("k", 1, 1, 60, 1).await.unwrap().allowed);
        let error = with("guess").await.unwrap_err();
        assert!(matches!(&error, Error::Refused(why) if why == "wrong token"), "{error}");
        let error = client(address).await.throttle("k", 1, 1, 60, 1).await.unwrap_err();
        assert!(
            matches!(&error, Error::Refused(why) if why.starts_with("authentication required")),
            "{error}"
        );
    });
}

#[test]
fn nobody_there() {
    let gone = {
        let server = Server::start();
        server.address("msgpack")
    };
    let error = block(Client::connect(gone)).unwrap_err();
    assert!(matches!(error, Error::Connect(_)) && error.is_transient(), "{error}");
}

/// Asks until there is a decision; returns how many requests may have been executed before it.
async fn insist(client: &Client, quota: (i64, i64, i64)) -> (i64, ratekeeper_client::Decision) {
    let mut doubtful = 0;
    loop {
        match client.throttle("k", quota.0, quota.1, quota.2, 1).await {
            Ok(decision) => return (doubtful, decision),
            Err(error) => {
                assert!(error.is_transient(), "{error}");
                doubtful += i64::from(error.may_have_been_executed());
                tokio::task::yield_now().await;
                // The processor is the server's, which is starting.
                std::thread::park_timeout(Duration::from_millis(1));
            }
        }
    }
}

#[test]
fn a_restarted_server_is_found_again() {
    let server = Server::start();
    let address = server.address("msgpack");
    block(async {
        let client = client(address).await;
        assert_eq!(client.throttle("k", 100, 1, 3600, 1).await.unwrap().remaining, 99);
        server.signal("TERM");
        assert_eq!(server.wait().code(), Some(0));
        let server = Server::with(&["--msgpack", &address.to_string()]);
        let (doubtful, decision) = insist(&client, (100, 1, 3600)).await;
        // The new server is empty: the request was executed once, and those that failed at most once each.
        assert!(
            decision.remaining <= 99 && decision.remaining >= 99 - doubtful,
            "{decision:?} after {doubtful}"
        );
        assert_eq!(client.throttle("k", 100, 1, 3600, 1).await.unwrap().remaining, decision.remaining - 1);
        drop(server);
    });
}

#[test]
fn a_frozen_server_is_given_up_on_in_time_and_asked_again_later() {
    let server = Server::start();
    block(async {
        let client = Client::builder()
            .connections(1)
            .timeout(Duration::from_millis(300))
            .connect(server.address("msgpack"))
            .await
            .unwrap();
        let (_, first) = insist(&client, (100, 1, 3600)).await;
        server.signal("STOP");
        until_stopped(server.pid());
        let error = client.throttle("k", 100, 1, 3600, 1).await.unwrap_err();
        assert!(error.may_have_been_executed() && error.is_transient(), "{error}");
        server.signal("CONT");
        let (doubtful, last) = insist(&client, (100, 1, 3600)).await;
        // Once by itself, and at most once for each that was given up.
        assert!(last.remaining < first.remaining, "{last:?}");
        assert!(last.remaining >= first.remaining - 2 - doubtful, "{last:?} after {doubtful}");
    });
}
