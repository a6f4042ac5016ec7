//! Decisions a second and their latency on one hot key and on many keys: PostgreSQL beside Redis and memory.
//!
//! ```sh
//! cargo bench -p ratekeeper-postgres --bench postgres
//! ```
//! Starts a Redis and a PostgreSQL of its own, and prints one table in Markdown. `BENCH_SECONDS=5` sets how long each line takes.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program for whoever measures")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use ratekeeper::port::{Request, Store};
use ratekeeper::{Cost, Key, MemoryStore, Plan, Rules};
use ratekeeper_postgres::PostgresStore;
use ratekeeper_redis::RedisStore;

/// Keys of a run with many.
const MANY: u64 = 100_000;

/// One way to ask.
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    limits: &'static str,
    keys: u64,
    callers: u64,
}

const LOADS: [Load; 6] = [
    Load { name: "one key, one caller", limits: "1000000000/s", keys: 1, callers: 1 },
    Load { name: "one key, 64 callers", limits: "1000000000/s", keys: 1, callers: 64 },
    Load { name: "100,000 keys, one caller", limits: "1000/s", keys: MANY, callers: 1 },
    Load { name: "100,000 keys, 64 callers", limits: "1000/s", keys: MANY, callers: 64 },
    Load {
        name: "100,000 keys, three rules, 64 callers",
        limits: "a=1000/s; b=9000/m fixed; c=90000/h bucket",
        keys: MANY,
        callers: 64,
    },
    Load { name: "one key, all refused, 64 callers", limits: "1/day", keys: 1, callers: 64 },
];

#[tokio::main]
async fn main() {
    let seconds = std::env::var("BENCH_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(3);
    let time = Duration::from_secs(seconds);
    let redis = test_support::redis::server::Server::redis();
    let Some(server) = test_support::postgres::Server::start(&["shared_buffers=128MB"]) else { return };
    let patient = Duration::from_secs(10);
    println!("| load | store | decisions/s | p50 | p99 | decisions a statement |");
    println!("|---|---|---:|---:|---:|---:|");
    for load in LOADS {
        let memory = Arc::new(MemoryStore::default());
        run(load, "memory", memory, time, || None).await;
        let store =
            RedisStore::builder(&redis.url()).without_denial_cache().leased_keys(0).command_timeout(patient);
        run(load, "Redis", Arc::new(store.build().unwrap()), time, || None).await;
        for (name, is_logged) in [("PostgreSQL", false), ("PostgreSQL, logged", true)] {
            let table = if is_logged { "logged" } else { "unlogged" };
            let store: PostgresStore = PostgresStore::builder(&server.url())
                .timeout(patient)
                .connect_timeout(patient)
                .table(table)
                .logged(is_logged)
                .build()
                .unwrap();
            let counted = store.clone();
            let per_statement = move || {
                let counts = counted.counts();
                Some(counts.decisions as f64 / counts.statements.max(1) as f64)
            };
            run(load, name, Arc::new(store), time, per_statement).await;
        }
    }
}

/// Up to a minute, in nanoseconds: what is recorded with saturation does not make it larger.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(60_000_000_000, 3).unwrap()
}

/// Asks for a while, and prints a line.
async fn run(
    load: Load,
    name: &str,
    store: Arc<dyn Store>,
    time: Duration,
    per_statement: impl Fn() -> Option<f64>,
) {
    let plan = Arc::new(Plan::parse("bench", load.limits).unwrap());
    // Connects, and makes what has to be made.
    let look = Request::new(Key::new("first").unwrap(), Rules::Plan(&plan), Cost::ZERO);
    store.peek(look).await.unwrap();
    let (stop, began) = (Arc::new(AtomicBool::new(false)), Instant::now());
    let callers = (0..load.callers).map(|caller| {
        let (store, plan, stop) = (Arc::clone(&store), Arc::clone(&plan), Arc::clone(&stop));
        tokio::spawn(async move {
            let mut times = histogram();
            let mut number = caller;
            while !stop.load(Ordering::Relaxed) {
                // Steps that come to every key: neither two callers nor two turns have the same order.
                number = (number + 7_919 * (caller + 1)) % load.keys;
                let key = format!("user:{number}");
                let request = Request::new(Key::new(&key).unwrap(), Rules::Plan(&plan), Cost::ONE);
                let asked = Instant::now();
                store.acquire(request).await.unwrap();
                times.saturating_record(u64::try_from(asked.elapsed().as_nanos()).unwrap_or(u64::MAX));
                // What is answered at once would never let the clock run.
                tokio::task::coop::consume_budget().await;
            }
            times
        })
    });
    let callers: Vec<_> = callers.collect();
    tokio::time::sleep(time).await;
    stop.store(true, Ordering::Relaxed);
    let mut times = histogram();
    for caller in callers {
        times.add(caller.await.unwrap()).unwrap();
    }
    let rate = times.len() as f64 / began.elapsed().as_secs_f64();
    let micros = |quantile| times.value_at_quantile(quantile) as f64 / 1_000.0;
    let per_statement = per_statement().map_or_else(|| "–".to_owned(), |count| format!("{count:.1}"));
    println!(
        "| {} | {name} | {rate:.0} | {:.1} µs | {:.1} µs | {per_statement} |",
        load.name,
        micros(0.5),
        micros(0.99)
    );
}
