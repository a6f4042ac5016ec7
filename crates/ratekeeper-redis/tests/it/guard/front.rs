//! What stands before the server: it may be down at first, is spared what it has refused, and its clock is the only
//! one.

use std::time::{Instant, SystemTime};

use ratekeeper::port::{Request, Store};
use ratekeeper::store::BreakerState;
use ratekeeper::{Cost, FailureMode, Keeper, Key, Nanos, Plan, Quota, Reason, Registry, Rules, Timestamp};
use ratekeeper_redis::{RedisErrorKind, RedisStore};

use crate::guard::load::{AnswerCounts, Load, only_breaker};
use test_support::port::free_port;
use test_support::redis::server::{Server, redis_binary};
use test_support::wait;

/// No answer may be lost for want of time: the machine may be busy.
fn patient(url: &str) -> ratekeeper_redis::RedisStoreBuilder {
    RedisStore::builder(url).command_timeout(wait::PATIENCE).connect_timeout(wait::PATIENCE)
}

/// How many scripts a server has run.
pub(crate) fn scripts_run(server: &Server) -> u64 {
    let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut server.connection()).unwrap();
    let calls = stats.lines().filter(|line| line.starts_with("cmdstat_eval"));
    calls.filter_map(|line| line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok()).sum()
}

#[tokio::test]
async fn a_flood_on_a_refused_key_hardly_reaches_the_server() {
    const FLOOD: u64 = 5_000;
    for server in Server::each() {
        let store = patient(&server.url()).build().unwrap();
        let quota: Quota = "1/h".parse().unwrap();
        let request = Request::new(Key::new("hot").unwrap(), Rules::Quota(&quota), Cost::ONE);
        assert!(store.acquire(request).await.unwrap().allowed);
        let before = scripts_run(&server);
        for _ in 0..FLOOD {
            assert!(!store.acquire(request).await.unwrap().allowed);
        }
        // A denial is trusted for a second: what reaches the server are the first request, and one after each second.
        let reached = scripts_run(&server) - before;
        assert!(reached * 10 <= FLOOD, "{reached} of {FLOOD}");
        assert_eq!(store.denials().unwrap().answered, FLOOD - reached);
        assert_eq!(store.reset(request).await.unwrap(), 1);
        assert!(store.acquire(request).await.unwrap().allowed, "our own reset is honoured at once");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_may_be_down_at_first() {
    let port = free_port();
    let url = format!("redis://127.0.0.1:{port}");
    let refused = patient(&url).connect().await.unwrap_err();
    assert_eq!(refused.kind(), RedisErrorKind::Unreachable, "{refused}");
    let store = patient(&url).without_denial_cache().build().unwrap();
    let load = Load::start(std::slice::from_ref(&store), "100/day", 8);
    load.more("answers in its stead", 100, AnswerCounts::failed).await;
    let server = Server::on(port, &redis_binary(), &[]).expect("its port is free");
    load.is_back("after it was started").await;
    load.stop().await;
    store.check().await.unwrap();
    drop(server);
}

/// `local`: a store in memory decides while the server is away, and hands back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_local_store_takes_over_and_hands_back() {
    let mut server = Server::redis();
    // A late answer would have the local store decide before the server is away.
    let store = patient(&server.url()).without_denial_cache().build().unwrap();
    let breaker = only_breaker(&store);
    let plan = Plan::parse("plan", "3/day").unwrap().on_store_error(FailureMode::Local);
    let keeper = Keeper::new(store, Registry::new([plan]));
    let ask = async || keeper.acquire(Key::new("caller").unwrap(), "plan", Cost::ONE).await.unwrap();
    let mut remaining = ask().await.remaining;
    while remaining > 0 {
        remaining = ask().await.remaining;
    }
    server.kill();
    let (mut admitted, deadline) = (0, Instant::now() + wait::PATIENCE);
    while breaker.state() == BreakerState::Closed || admitted < 3 {
        assert!(Instant::now() < deadline, "{:?}, {admitted} admitted", breaker.state());
        let ruling = ask().await;
        assert!(ruling.reason.is_informed(), "local answers know what they say");
        admitted += u64::from(ruling.allowed);
    }
    assert_eq!((admitted, ask().await.reason), (3, Reason::QuotaExceeded), "the local store's own three");
    server.restart(&[]);
    let deadline = Instant::now() + wait::PATIENCE;
    while breaker.state() != BreakerState::Closed {
        assert!(Instant::now() < deadline, "never handed back");
        ask().await;
    }
    assert!(ask().await.allowed, "the server, which has forgotten");
}

/// Two instances whose clocks are an hour apart decide as one: neither's clock is asked.
#[tokio::test]
async fn clocks_an_hour_apart_change_nothing() {
    for server in Server::each() {
        let now = Timestamp::from(SystemTime::now());
        let hour = Nanos::from_secs(3_600);
        let clocks = [now.saturating_sub(hour), now, now + hour];
        // A window of the calendar is the one thing for which a store guesses at the server's time.
        let plan = Plan::parse("plan", "a=9/day; b=9/day fixed calendar; c=9/day bucket").unwrap();
        let keepers = clocks.map(|clock| {
            let store = patient(&server.url()).wall_clock_at(clock).build().unwrap();
            Keeper::new(store, Registry::new([plan.clone().on_store_error(FailureMode::Error)]))
        });
        let key = Key::new("caller").unwrap();
        for (turn, keeper) in (0..9).zip(keepers.iter().cycle()) {
            let ruling = keeper.acquire(key, "plan", Cost::ONE).await.unwrap();
            assert_eq!((ruling.allowed, ruling.remaining), (true, 8 - turn), "turn {turn}");
        }
        for keeper in &keepers {
            let refused = keeper.acquire(key, "plan", Cost::ONE).await.unwrap();
            assert!(!refused.allowed && refused.retry_after.unwrap() > Nanos::ZERO, "{refused:?}");
        }
    }
}
