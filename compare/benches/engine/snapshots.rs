//! How long a snapshot holds a call up: calls of a thread that asks all the time, with and without snapshots beside it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ratekeeper::port::{HoldId, HoldRequest, Request, Store};
use ratekeeper::{Amounts, Cost, Key, MemoryStore, Nanos, Plan, Quota, Rules};

use crate::table;

const KEYS: usize = 1_000_000;

/// How long each contender is asked.
const SPAN: Duration = Duration::from_secs(5);

/// Calls that take longer than this were held up.
const HELD_UP: Duration = Duration::from_millis(1);

/// A store, and what is asked of it.
struct Contender {
    name: &'static str,
    store: MemoryStore,
    quota: Quota,
    keys: Vec<String>,
}

pub(crate) fn run() {
    let head = ["1 M calls and more", "snapshots", "each, ms", "p99.9, µs", "longest, µs", "over 1 ms"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for make in [|| states(false), || states(true), log, holds] {
        let contender = make();
        for with_snapshots in [false, true] {
            rows.push(measure(&contender, with_snapshots));
        }
    }
    table::print("Calls beside snapshots (a busy machine adds its own)", &rows);
}

/// A million keys under GCRA.
fn states(keep_keys: bool) -> Contender {
    let store = MemoryStore::builder().max_keys(KEYS).keep_keys(keep_keys).build();
    let quota: Quota = "1000000/day".parse().expect("a quota");
    let keys: Vec<String> = (0..KEYS).map(|number| format!("user:{number:015}")).collect();
    for key in &keys {
        take(&store, key, &quota, 1_000);
    }
    let name = if keep_keys { "1 M keys, which are kept" } else { "1 M keys" };
    Contender { name, store, quota, keys }
}

/// One key whose log remembers a million requests.
fn log() -> Contender {
    let store = MemoryStore::builder().max_keys(KEYS).build();
    let quota: Quota = "60000000/day log bound 60000000".parse().expect("a quota");
    let mut taken = 0;
    while taken < 1_000_000 {
        take(&store, "k", &quota, 1);
        taken += 1;
    }
    Contender { name: "one log of 1 M requests", store, quota, keys: vec!["k".into()] }
}

/// One key that holds as much as one may.
fn holds() -> Contender {
    let store = MemoryStore::builder().max_keys(KEYS).build();
    let plan = Plan::parse("held", "1000000 concurrent").expect("a plan");
    let (plans, key) = ([Arc::new(plan)], Key::new("k").expect("a key"));
    for id in 0..65_000 {
        let lease = Nanos::from_secs(3_600);
        let hold =
            HoldRequest { key, plans: &plans, amounts: Amounts::UNSAID, id: HoldId::from_bits(id), lease };
        let held = store.hold(hold).now();
        assert!(matches!(&held, Ok(Ok(standing)) if standing.decision.allowed), "{id}: {held:?}");
    }
    let quota: Quota = "1000000/day".parse().expect("a quota");
    Contender { name: "one key with 65 k holds", store, quota, keys: vec!["k".into()] }
}

fn take(store: &MemoryStore, key: &str, quota: &Quota, cost: u64) {
    let key = Key::new(key).expect("a key");
    let answer = store.acquire(Request::new(key, Rules::Quota(quota), Cost::new(cost))).now();
    assert!(matches!(answer, Ok(Ok(_))));
}

fn measure(contender: &Contender, with_snapshots: bool) -> Vec<String> {
    let is_done = AtomicBool::new(false);
    let (mut times, snapshots) = thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let (start, mut times) = (Instant::now(), Vec::with_capacity(20_000_000));
            for key in contender.keys.iter().cycle() {
                let before = Instant::now();
                take(&contender.store, key, &contender.quota, 1);
                let after = Instant::now();
                times.push(u32::try_from((after - before).as_nanos()).unwrap_or(u32::MAX));
                if after - start > SPAN || times.len() == times.capacity() {
                    break;
                }
            }
            is_done.store(true, Ordering::Relaxed);
            times
        });
        let mut snapshots = Vec::new();
        while with_snapshots && !is_done.load(Ordering::Relaxed) {
            let before = Instant::now();
            std::hint::black_box(contender.store.snapshot());
            snapshots.push(before.elapsed().as_secs_f64() * 1e3);
        }
        (asking.join().expect("no panic"), snapshots)
    });
    let over = times.iter().filter(|nanos| u128::from(**nanos) > HELD_UP.as_nanos()).count();
    times.sort_unstable();
    let micros = |at: usize| format!("{:.1}", f64::from(times[at.min(times.len() - 1)]) / 1e3);
    let each = snapshots.iter().sum::<f64>() / snapshots.len() as f64;
    vec![
        contender.name.to_owned(),
        snapshots.len().to_string(),
        if snapshots.is_empty() { "–".to_owned() } else { format!("{each:.0}") },
        micros(times.len() / 1_000 * 999),
        micros(times.len()),
        over.to_string(),
    ]
}
