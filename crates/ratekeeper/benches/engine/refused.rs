//! One hot key that is refused every time, as an attack is: nanoseconds of one core's time per decision.
//!
//! A refusal changes nothing, so it should cost the same however many threads are refused.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, RateLimiter};
use ratekeeper::port::{Request, Store};
use ratekeeper::{Cost, Key, MemoryStore, Quota, Rules};

use crate::contender::Contender;
use crate::samples::Samples;
use crate::table;
use crate::throughput::keys;

const ROUNDS: usize = 7;

/// Decisions of all threads in one round.
const DECISIONS: usize = 2_000_000;

const NAMES: [&str; 4] = ["ratekeeper", "ratekeeper, batches of 16", "governor, keyed", "governor, direct"];

pub(crate) fn run() {
    let mut rows = vec![vec!["hot key refused".to_string()]];
    rows[0].extend(NAMES.iter().map(|name| format!("{name}, ns")));
    rows[0].extend(["of keyed", "of direct", "batched, of direct"].map(String::from));
    for threads in [1, 2, 4] {
        let contenders: [Box<dyn Contender>; 4] = [
            Box::new(Refused::new()),
            Box::new(RefusedInBatches(Refused::new())),
            Box::new(KeyedGovernor::new()),
            Box::new(DirectGovernor::new()),
        ];
        let times = measure(&contenders, threads);
        let mut row = vec![format!("threads: {threads}")];
        row.extend(times.iter().map(|time| time.text(0)));
        row.extend([(0, 2), (0, 3), (1, 3)].map(|(ours, theirs)| times[ours].by(&times[theirs]).text(2)));
        rows.push(row);
    }
    table::print("One key that is refused: core-nanoseconds for one decision, median (least–most)", &rows);
}

/// Times every contender in turn, round by round.
fn measure(contenders: &[Box<dyn Contender>; 4], threads: usize) -> [Samples; 4] {
    let (keys, order) = (keys(1), vec![0; DECISIONS / threads]);
    // The first passes.
    contenders.iter().for_each(|contender| contender.decide(&keys, &[0]));
    let mut times: [Samples; 4] = Default::default();
    for _ in 0..ROUNDS {
        for (contender, times) in contenders.iter().zip(&mut times) {
            times.push(time(&**contender, &keys, &order, threads));
        }
    }
    times
}

fn time(contender: &dyn Contender, keys: &[String], order: &[u32], threads: usize) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| contender.decide(keys, order));
        }
    });
    // More threads than cores share them: each takes its turn.
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(threads);
    start.elapsed().as_secs_f64() * 1e9 * cores as f64 / (order.len() * threads) as f64
}

struct Refused {
    store: MemoryStore,
    quota: Quota,
}

impl Refused {
    fn new() -> Self {
        Refused { store: MemoryStore::default(), quota: "1/day".parse().expect("a quota") }
    }

    fn request<'a>(&'a self, key: &'a str) -> Request<'a> {
        let key = Key::new(key).expect("a key");
        Request { key, rules: Rules::Quota(&self.quota), cost: Cost::ONE }
    }
}

impl Contender for Refused {
    fn decide(&self, keys: &[String], order: &[u32]) {
        for index in order {
            let answer = self.store.acquire(self.request(&keys[*index as usize])).now();
            assert!(matches!(answer, Ok(Ok(decision)) if decision.allowed == (order.len() == 1)));
        }
    }
}

struct RefusedInBatches(Refused);

impl Contender for RefusedInBatches {
    fn decide(&self, keys: &[String], order: &[u32]) {
        let mut decisions = Vec::with_capacity(16);
        let mut batch = Vec::with_capacity(16);
        for chunk in order.chunks(16) {
            batch.clear();
            batch.extend(chunk.iter().map(|index| self.0.request(&keys[*index as usize])));
            decisions.clear();
            assert!(matches!(self.0.store.acquire_many(&batch, &mut decisions).now(), Ok(Ok(()))));
            let is_first = order.len() == 1;
            assert!(decisions.iter().all(|answer| answer.as_ref().is_ok_and(|it| it.allowed == is_first)));
        }
    }
}

/// One a day.
fn quota() -> governor::Quota {
    let one = NonZeroU32::new(1).expect("not zero");
    governor::Quota::with_period(Duration::from_secs(86_400)).expect("not zero").allow_burst(one)
}

struct KeyedGovernor(DefaultKeyedRateLimiter<String>);

impl KeyedGovernor {
    fn new() -> Self {
        KeyedGovernor(RateLimiter::dashmap(quota()))
    }
}

impl Contender for KeyedGovernor {
    fn decide(&self, keys: &[String], order: &[u32]) {
        for index in order {
            assert_eq!(black_box(self.0.check_key(&keys[*index as usize])).is_ok(), order.len() == 1);
        }
    }
}

struct DirectGovernor(DefaultDirectRateLimiter);

impl DirectGovernor {
    fn new() -> Self {
        DirectGovernor(RateLimiter::direct(quota()))
    }
}

impl Contender for DirectGovernor {
    fn decide(&self, _: &[String], order: &[u32]) {
        for _ in order {
            assert_eq!(black_box(self.0.check()).is_ok(), order.len() == 1);
        }
    }
}
