//! Nanoseconds of one thread's time per decision.

use std::time::Instant;

use crate::contender::{self, Contender};
use crate::table;

const ROUNDS: usize = 7;
const NAMES: [&str; 4] = ["ratekeeper", "ratekeeper, batches of 16", "governor", "throttlecrab"];

/// `count` distinct keys of 20 bytes.
pub(crate) fn keys(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("user:{number:015}")).collect()
}

/// A random order: which key each decision is about.
pub(crate) fn order(keys: usize, length: usize, mut seed: u64) -> Vec<u32> {
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    (0..length).map(|_| u32::try_from(next() % keys as u64).expect("fewer than 2^32 keys")).collect()
}

/// Fills the contender with every key, then times random decisions, `threads` at once.
struct Cell {
    contenders: Vec<Box<dyn Contender>>,
    keys: Vec<String>,
    orders: Vec<Vec<u32>>,
}

impl Cell {
    fn new(names: &[&str], count: usize, threads: usize, decisions: usize) -> Self {
        let keys = keys(count);
        let all: Vec<u32> =
            order(count, 0, 1).into_iter().chain(0..u32::try_from(count).expect("fits")).collect();
        let contenders: Vec<_> = names.iter().filter_map(|name| contender::by_name(name, count)).collect();
        contenders.iter().for_each(|contender| contender.decide(&keys, &all));
        let orders = (0..threads).map(|thread| order(count, decisions, 77 + thread as u64)).collect();
        Cell { contenders, keys, orders }
    }

    /// The median of interleaved rounds for each contender.
    fn measure(&self) -> Vec<f64> {
        let mut times = vec![Vec::new(); self.contenders.len()];
        for _ in 0..ROUNDS {
            for (contender, times) in self.contenders.iter().zip(&mut times) {
                times.push(self.time(&**contender));
            }
        }
        times.iter_mut().map(|times| table::median(times)).collect()
    }

    fn time(&self, contender: &dyn Contender) -> f64 {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for order in &self.orders {
                scope.spawn(|| contender.decide(&self.keys, order));
            }
        });
        start.elapsed().as_secs_f64() * 1e9 / self.orders[0].len() as f64
    }
}

pub(crate) fn run() {
    let cells = [
        ("1 M keys, 1 thread", 1_000_000, 1, 1_000_000),
        ("1 M keys, 2 threads", 1_000_000, 2, 500_000),
        ("one hot key, 1 thread", 1, 1, 2_000_000),
        ("one hot key, 2 threads", 1, 2, 1_000_000),
    ];
    let mut rows = vec![vec![String::new()]];
    rows[0].extend(NAMES.iter().map(|name| format!("{name}, ns")));
    rows[0].extend(["of governor", "batched, of governor", "of throttlecrab"].map(String::from));
    for (name, keys, threads, decisions) in cells {
        let times = Cell::new(&NAMES, keys, threads, decisions).measure();
        let mut row = vec![name.to_string()];
        row.extend(times.iter().map(|time| format!("{time:.0}")));
        let ratio = |ours: usize, theirs: usize| format!("{:.2}×", times[ours] / times[theirs]);
        row.extend([ratio(0, 2), ratio(1, 2), ratio(0, 3)]);
        rows.push(row);
    }
    table::print("Time per decision (thread-nanoseconds, medians of interleaved rounds)", &rows);
    growth();
}

/// How the time per decision grows with the number of keys.
fn growth() {
    let time = |keys| Cell::new(&NAMES[..2], keys, 1, 1_000_000).measure();
    let (few, many) = (time(100_000), time(5_000_000));
    let rows: Vec<Vec<String>> = std::iter::once(vec!["", "100 k keys, ns", "5 M keys, ns", "ratio"])
        .map(|row| row.into_iter().map(String::from).collect())
        .chain((0..2).map(|which| {
            let ratio = format!("{:.2}×", many[which] / few[which]);
            vec![NAMES[which].into(), format!("{:.0}", few[which]), format!("{:.0}", many[which]), ratio]
        }))
        .collect();
    table::print("Growth", &rows);
}
