//! Every fault under every failure mode: answered in the mode's way, within time and bounds, and over when the server is well.

use std::time::{Duration, Instant};

use ratekeeper::FailureMode;

use crate::guard::clients::{Clients, MODES, SHORT, Seen};
use test_support::postgres::Server;
use test_support::wait::PATIENCE;

/// The timeout where the server answers, or refuses: no answer may be lost for want of time.
const PATIENT: Duration = Duration::from_secs(30);

/// Lets clients work, does something to the server, sees each mode answer in its way and errors give this reason, mends it, and
/// sees the store decide.
async fn endure(
    server: &mut Server,
    what: &str,
    reason: &str,
    timeout: Duration,
    lives: u64,
    break_it: impl FnOnce(&mut Server),
    mend: impl FnOnce(&mut Server),
) {
    let clients = Clients::start(&server.url(), timeout);
    let start = Default::default();
    clients.until(&format!("{what}: at work"), &start, |_, _, now| now.decided > 5).await;
    break_it(server);
    let before = clients.seen();
    let its_way = |mode: FailureMode, before: &Seen, now: &Seen| {
        let is_given = mode != FailureMode::Error || now.reasons.iter().any(|given| given == reason);
        is_given && now.failed(mode) > before.failed(mode) + 2
    };
    clients.until(&format!("{what}: each mode answers"), &before, its_way).await;
    mend(server);
    let (before, decisions) = (clients.seen(), clients.decisions());
    clients
        .until(&format!("{what}: the store decides again"), &before, |_, before, now| {
            now.decided > before.decided + 5 && clients.decisions() > decisions + 20
        })
        .await;
    clients.stop(what, lives).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_and_a_restart() {
    let Some(mut server) = Server::start(&[]) else { return };
    // The table is not logged: the crash forgets.
    let restart = |server: &mut Server| server.restart(&[]);
    endure(&mut server, "crash", "unreachable", PATIENT, 2, Server::kill, restart).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_and_goes_on() {
    let Some(mut server) = Server::start(&[]) else { return };
    let (freeze, thaw) = (|server: &mut Server| server.freeze(), |server: &mut Server| server.thaw());
    endure(&mut server, "frozen", "timeout", SHORT, 1, freeze, thaw).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_takes_no_writes() {
    let Some(mut server) = Server::start(&[]) else { return };
    let read_only = |word: &'static str| {
        move |server: &mut Server| {
            // It takes this one, since it is no transaction's.
            server.sql(&format!("ALTER SYSTEM SET default_transaction_read_only = {word}"));
            server.sql("SELECT pg_reload_conf()");
        }
    };
    endure(&mut server, "read only", "read_only", PATIENT, 1, read_only("on"), read_only("off")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_a_connection_left() {
    let Some(mut server) = Server::start(&["superuser_reserved_connections=1"]) else { return };
    server.sql("CREATE ROLE guest LOGIN; GRANT CREATE ON SCHEMA public TO guest");
    let url = server.url_of("guest");
    let mut taken = Vec::new();
    let clients = Clients::start(&url, SHORT);
    clients.until("at work", &Default::default(), |_, _, now| now.decided > 5).await;
    // All connections are taken, and those of the stores ended.
    while let Ok((client, connection)) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await {
        tokio::spawn(connection);
        taken.push(client);
    }
    let (before, end) = (
        clients.seen(),
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ratekeeper'",
    );
    let is_answered_for = || {
        let seen = clients.seen();
        MODES
            .iter()
            .zip(before.iter().zip(&seen))
            .all(|(mode, (before, now))| now.failed(*mode) > before.failed(*mode))
    };
    let deadline = Instant::now() + PATIENCE;
    // The stores may be quicker than this test to take what has become free: until they are not.
    while !is_answered_for() {
        assert!(Instant::now() < deadline, "never: each mode answers: {:?}", clients.seen());
        server.sql(end);
        while let Ok((client, connection)) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await {
            tokio::spawn(connection);
            taken.push(client);
        }
    }
    drop(taken);
    let (before, decisions) = (clients.seen(), clients.decisions());
    clients
        .until("the store decides again", &before, |_, before, now| {
            now.decided > before.decided + 5 && clients.decisions() > decisions + 20
        })
        .await;
    clients.stop("too many connections", 1).await;
    // So that it can be dropped as the others are.
    server.kill();
}

/// What is dropped is made again, without a single failure: nothing was written by the statement that found no table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_is_dropped() {
    let Some(server) = Server::start(&[]) else { return };
    let clients = Clients::start(&server.url(), PATIENT);
    clients.until("at work", &Default::default(), |_, _, now| now.decided > 5).await;
    server.sql("DROP TABLE ratekeeper; DROP FUNCTION ratekeeper_exchange_3");
    let before = clients.seen();
    clients.until("at work again", &before, |_, before, now| now.decided > before.decided + 10).await;
    let seen = clients.stop("dropped", 2).await;
    assert_eq!(server.sql("SELECT count(*) FROM ratekeeper"), ["1"]);
    assert!(seen.iter().all(|seen| seen.failed_open + seen.failed_closed + seen.errors == 0), "{seen:?}");
}

/// An instance that stops while it holds a lock keeps the others waiting for no longer than a statement may take.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_somebody_has_locked() {
    let Some(server) = Server::start(&[]) else { return };
    let clients = Clients::start(&server.url(), SHORT);
    clients.until("at work", &Default::default(), |_, _, now| now.decided > 5).await;
    let (client, connection) = tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await.unwrap();
    let driver = tokio::spawn(connection);
    client.batch_execute("BEGIN; SELECT * FROM ratekeeper FOR UPDATE").await.unwrap();
    let before = clients.seen();
    clients
        .until("each mode answers", &before, |mode, before, now| now.failed(mode) > before.failed(mode) + 2)
        .await;
    drop(client);
    driver.await.unwrap().unwrap();
    let before = clients.seen();
    clients.until("at work again", &before, |_, before, now| now.decided > before.decided + 10).await;
    clients.stop("locked", 1).await;
}
