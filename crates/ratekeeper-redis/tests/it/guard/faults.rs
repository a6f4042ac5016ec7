//! A server that dies, freezes, forgets or fills up, under load: every request is answered once, no more is admitted
//! than the limit and what the server forgot, and service is back with the server.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ratekeeper::store::BreakerState;
use ratekeeper_redis::RedisStore;

use crate::guard::load::{AnswerCounts, Load, only_breaker};
use test_support::redis::cluster::command;
use test_support::redis::one_unless_thorough;
use test_support::redis::server::Server;
use test_support::wait;

/// What one life of the server may admit: a day's worth, of which none comes back during the test.
const QUOTA: u64 = 100;
const RULES: &str = "100/day";
const CLIENTS: usize = 16;
/// The timeout where the server is frozen: after it, callers are answered without the server.
const SHORT: Duration = Duration::from_millis(500);

/// Two instances without a memory of refusals: what is to be seen is the server's part.
fn stores(url: &str, timeout: Duration) -> Vec<RedisStore> {
    let builder = || RedisStore::builder(url).without_denial_cache().connect_timeout(wait::PATIENCE);
    (0..2).map(|_| builder().command_timeout(timeout).build().unwrap()).collect()
}

/// Two plans with a quota each.
fn assert_admitted(counts: &AnswerCounts, lives: u64) {
    let admitted = counts.admitted.load(Ordering::SeqCst);
    assert!(admitted <= 2 * QUOTA * lives, "{admitted} admitted in {lives} lives of the server");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_killed_and_started_again() {
    let mut server = Server::redis();
    let stores = stores(&server.url(), wait::PATIENCE);
    let load = Load::start(&stores, RULES, CLIENTS);
    load.more("answers", 300, AnswerCounts::informed).await;
    server.kill();
    load.more("answers in its stead", 200, AnswerCounts::failed).await;
    let breakers: Vec<_> = stores.iter().map(only_breaker).collect();
    wait::until_async("the breakers open", || {
        breakers.iter().all(|breaker| breaker.state() != BreakerState::Closed)
    })
    .await;
    server.restart(&[]);
    load.is_back("after a restart").await;
    load.more("answers by both", 200, AnswerCounts::informed).await;
    wait::until_async("both have closed", || {
        breakers.iter().all(|breaker| breaker.state() == BreakerState::Closed)
    })
    .await;
    let counts = load.stop().await;
    assert!(counts.failed_open.load(Ordering::SeqCst) > 0 && counts.errors.load(Ordering::SeqCst) > 0);
    assert_admitted(&counts, 2);
    // Closed, opened, probed some times, closed: far fewer changes than requests.
    assert!(breakers.iter().all(|breaker| breaker.changes() >= 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_freezes_and_nobody_is_held() {
    for server in one_unless_thorough(Server::each()) {
        let stores = stores(&server.url(), SHORT);
        let load = Load::start(&stores, RULES, CLIENTS);
        load.more("answers", 300, AnswerCounts::informed).await;
        server.freeze();
        // As long as it is frozen, no answer can be its own: these come without it, and keep coming.
        load.more("answers in its stead", 300, AnswerCounts::failed).await;
        server.thaw();
        load.is_back("after it was thawed").await;
        load.more("answers", 100, AnswerCounts::informed).await;
        let counts = load.stop().await;
        // Its state is what it was. What it was asked before it froze was charged without anybody knowing, so fewer
        // may have been admitted, and never more.
        assert_admitted(&counts, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_scripts_and_its_data_are_flushed() {
    for server in one_unless_thorough(Server::each()) {
        // Nothing may be lost for want of time, on however busy a machine.
        let stores = stores(&server.url(), wait::PATIENCE);
        let load = Load::start(&stores, RULES, CLIENTS);
        let mut connection = server.connection();
        for _ in 0..10 {
            load.more("answers", 100, AnswerCounts::informed).await;
            command(&mut connection, &["SCRIPT", "FLUSH"]);
        }
        let admitted = || load.counts.admitted.load(Ordering::SeqCst);
        wait::until_async("both quotas are spent", || admitted() >= 2 * QUOTA).await;
        command(&mut connection, &["FLUSHALL"]);
        command(&mut connection, &["SCRIPT", "FLUSH"]);
        wait::until_async("both quotas are spent again", || admitted() >= 2 * 2 * QUOTA).await;
        // More than that is refused.
        load.more("answers", 100, AnswerCounts::informed).await;
        let counts = load.stop().await;
        assert_eq!(counts.failed(), 0, "a script is sent again before anybody notices: {counts:?}");
        let admitted = counts.admitted.load(Ordering::SeqCst);
        assert_eq!(admitted, 2 * 2 * QUOTA, "each of two plans' quotas, before the flush and after");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_memory_is_full() {
    for server in one_unless_thorough(Server::each()) {
        let stores = stores(&server.url(), wait::PATIENCE);
        // Enough quota that every request has something to write.
        let load = Load::start(&stores, "1000000/day", CLIENTS);
        load.more("answers", 100, AnswerCounts::informed).await;
        let mut connection = server.connection();
        command(&mut connection, &["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
        command(&mut connection, &["CONFIG", "SET", "maxmemory", "1"]);
        load.more("answers in its stead", 200, AnswerCounts::failed).await;
        command(&mut connection, &["CONFIG", "SET", "maxmemory", "0"]);
        load.is_back("after there is memory again").await;
        load.stop().await;
    }
}
