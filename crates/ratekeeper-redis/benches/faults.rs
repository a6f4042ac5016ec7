//! What a flood on a refused key costs the server, and how long a caller waits for a frozen one.
//!
//! `cargo bench -p ratekeeper-redis --bench faults`

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench may panic, and prints what it found")]

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use ratekeeper::port::{Request, Store};
use ratekeeper::store::BreakerState;
use ratekeeper::{Cost, Key, Quota, Rules};
use ratekeeper_redis::RedisStore;
use test_support::redis::server::Server;

const FLOOD: u64 = 100_000;
const FAST: u64 = 1_000_000;

#[tokio::main]
async fn main() {
    let server = Server::redis();
    // A machine that does much else may stall for longer than a request may take.
    let patient = || RedisStore::builder(&server.url()).command_timeout(Duration::from_secs(5));
    for (name, store) in
        [("with the denial cache", patient()), ("without it", patient().without_denial_cache())]
    {
        flood(&server, name, &store.build().unwrap()).await;
    }
    frozen(&server).await;
}

/// How many scripts the server has run.
fn scripts_run(server: &Server) -> u64 {
    let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut server.connection()).unwrap();
    let calls = stats.lines().filter(|line| line.starts_with("cmdstat_eval"));
    calls.filter_map(|line| line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok()).sum()
}

async fn flood(server: &Server, name: &str, store: &RedisStore) {
    let quota: Quota = "1/day".parse().unwrap();
    let request = Request::new(Key::new("hot").unwrap(), Rules::Quota(&quota), Cost::ONE);
    let _ = store.acquire(request).await;
    let (before, start) = (scripts_run(server), Instant::now());
    for _ in 0..FLOOD {
        assert!(!store.acquire(request).await.unwrap().allowed);
    }
    let (took, reached) = (start.elapsed(), scripts_run(server) - before);
    let fewer = FLOOD as f64 / reached.max(1) as f64;
    println!(
        "{FLOOD} denials on one key {name}: {reached} commands reached the server ({fewer:.0}× fewer), {:.0} ns each",
        took.as_nanos() as f64 / FLOOD as f64
    );
}

async fn frozen(server: &Server) {
    let store = RedisStore::builder(&server.url()).without_denial_cache().build().unwrap();
    let breaker = store.breakers().remove(0);
    let quota: Quota = "1000000/s".parse().unwrap();
    let request = Request::new(Key::new("frozen").unwrap(), Rules::Quota(&quota), Cost::ONE);
    store.acquire(request).await.unwrap();
    server.freeze();
    let mut waits = Histogram::<u64>::new(3).unwrap();
    while breaker.state() == BreakerState::Closed {
        waits.record(ask(&store, request).await).unwrap();
    }
    report("frozen, breaker closed (command timeout 100 ms)", &waits);
    let mut refusals = Histogram::<u64>::new(3).unwrap();
    for _ in 0..FAST {
        let (changes, took) = (breaker.changes(), ask(&store, request).await);
        // One that probed, after each rest, waits like those before; it is not what is measured here.
        if breaker.changes() == changes {
            refusals.record(took).unwrap();
        }
    }
    report("frozen, breaker open", &refusals);
    server.thaw();
    let start = Instant::now();
    while store.acquire(request).await.is_err() {
        tokio::task::yield_now().await;
    }
    println!("thawed: service was back after {:?}", start.elapsed());
}

/// How long the answer took, in nanoseconds.
async fn ask(store: &RedisStore, request: Request<'_>) -> u64 {
    let start = Instant::now();
    assert!(store.acquire(request).await.is_err(), "a frozen server answers nothing");
    u64::try_from(start.elapsed().as_nanos()).unwrap()
}

fn report(what: &str, times: &Histogram<u64>) {
    let at = |quantile| Duration::from_nanos(times.value_at_quantile(quantile));
    println!("{what}: {} answers, p50 {:?}, p99 {:?}, max {:?}", times.len(), at(0.5), at(0.99), at(1.0));
}
