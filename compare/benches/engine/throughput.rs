//! Nanoseconds of one thread's time per decision.

use std::sync::Arc;
use std::time::Instant;

use crate::contender::{self, Contender};
use crate::samples::Samples;
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

/// Where the keys lie that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// Anywhere in memory: each is fetched before it can be hashed, and most of the time goes into that.
    Scattered,
    /// One after another, as requests lie in a buffer that was just read: what remains is the contender's own time.
    InOrder,
}

/// The keys that one thread asks for.
struct Requests {
    keys: Arc<Vec<String>>,
    order: Vec<u32>,
}

/// Times decisions, by so many threads at once as there are requests.
pub(crate) struct Cell {
    contenders: Vec<Box<dyn Contender>>,
    requests: Vec<Requests>,
}

impl Cell {
    /// Asks for one key again and again.
    pub(crate) fn of_one_key(contenders: Vec<Box<dyn Contender>>, threads: usize, decisions: usize) -> Self {
        let keys = Arc::new(keys(1));
        let requests = (0..threads).map(|_| Requests { keys: keys.clone(), order: vec![0; decisions] });
        Cell { contenders, requests: requests.collect() }
    }

    /// Fills the contenders with every key, then asks in a random order.
    fn new(names: &[&str], count: usize, layout: Layout, threads: usize, decisions: usize) -> Self {
        let keys = Arc::new(keys(count));
        let all = |count: usize| (0..u32::try_from(count).expect("fits")).collect::<Vec<u32>>();
        let contenders: Vec<_> = names.iter().filter_map(|name| contender::by_name(name, count)).collect();
        contenders.iter().for_each(|contender| contender.decide(&keys, &all(count)));
        let requests = (0..threads).map(|thread| {
            let order = order(count, decisions, 77 + thread as u64);
            match layout {
                Layout::Scattered => Requests { keys: keys.clone(), order },
                Layout::InOrder => {
                    let keys = order.iter().map(|index| keys[*index as usize].clone()).collect();
                    Requests { keys: Arc::new(keys), order: all(decisions) }
                }
            }
        });
        Cell { contenders, requests: requests.collect() }
    }

    fn time(&self, contender: &dyn Contender) -> f64 {
        let start = Instant::now();
        let spent: Vec<f64> = std::thread::scope(|scope| {
            let decide = |requests: &Requests| {
                let before = processor_time();
                contender.decide(&requests.keys, &requests.order);
                processor_time() - before
            };
            let threads: Vec<_> =
                self.requests.iter().map(|requests| scope.spawn(move || decide(requests))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        let nanos = match std::env::args().any(|arg| arg == "--processor-time") {
            true => spent.iter().sum::<f64>() / spent.len() as f64,
            false => {
                // More threads than cores share them: each takes its turn.
                let threads = spent.len();
                let cores = std::thread::available_parallelism().map_or(1, usize::from).min(threads);
                start.elapsed().as_secs_f64() * 1e9 * cores as f64 / threads as f64
            }
        };
        nanos / self.requests[0].order.len() as f64
    }
}

/// Nanoseconds that a processor has worked for this thread.
fn processor_time() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(f64::NAN)
}

/// Measures all contenders of all cells in turn, round by round.
pub(crate) fn measure(cells: &[Cell]) -> Vec<Vec<Samples>> {
    let mut times: Vec<Vec<Samples>> =
        cells.iter().map(|cell| vec![Samples::default(); cell.contenders.len()]).collect();
    for _ in 0..ROUNDS {
        for (cell, times) in cells.iter().zip(&mut times) {
            for (contender, times) in cell.contenders.iter().zip(times) {
                times.push(cell.time(&**contender));
            }
        }
    }
    times
}

/// A million keys in a random order: what memory costs.
pub(crate) fn many_keys() {
    compare(&[
        ("1 M keys, 1 thread", 1_000_000, Layout::Scattered, 1, 1_000_000),
        ("1 M keys, 2 threads", 1_000_000, Layout::Scattered, 2, 500_000),
        ("1 M keys read in order, 1 thread", 1_000_000, Layout::InOrder, 1, 1_000_000),
        ("1 M keys read in order, 2 threads", 1_000_000, Layout::InOrder, 2, 500_000),
    ]);
}

/// One key: what the decision costs, and the lock.
pub(crate) fn hot_key() {
    compare(&[
        ("one hot key, 1 thread", 1, Layout::Scattered, 1, 2_000_000),
        ("one hot key, 2 threads", 1, Layout::Scattered, 2, 1_000_000),
    ]);
}

fn compare(cells: &[(&str, usize, Layout, usize, usize)]) {
    let mut rows = vec![vec![String::new()]];
    rows[0].extend(NAMES.iter().map(|name| format!("{name}, ns")));
    rows[0].extend(["of governor", "batched, of governor", "of throttlecrab"].map(String::from));
    for (name, keys, layout, threads, decisions) in cells {
        let times = measure(&[Cell::new(&NAMES, *keys, *layout, *threads, *decisions)]).remove(0);
        let mut row = vec![(*name).to_string()];
        row.extend(times.iter().map(|time| time.text(0)));
        row.extend([(0, 2), (1, 2), (0, 3)].map(|(ours, theirs)| times[ours].by(&times[theirs]).text(2)));
        rows.push(row);
    }
    table::print("Thread-nanoseconds for one decision: median (least–most) of interleaved rounds", &rows);
}

/// How the time per decision grows with the number of keys. Part of it is the bench's: its own keys lie in memory too, and
/// the first row reads them and does nothing else.
pub(crate) fn growth() {
    let names = ["the keys alone", NAMES[0], NAMES[1], NAMES[2]];
    let mut rows = vec![["", "100 k keys, ns", "5 M keys, ns", "ratio"].map(String::from).to_vec()];
    for (layout, suffix) in [(Layout::Scattered, ""), (Layout::InOrder, ", keys read in order")] {
        let times = measure(&[100_000, 5_000_000].map(|keys| Cell::new(&names, keys, layout, 1, 1_000_000)));
        rows.extend(names.iter().zip(times[0].iter().zip(&times[1])).map(|(name, (few, many))| {
            vec![format!("{name}{suffix}"), few.text(0), many.text(0), many.by(few).text(2)]
        }));
    }
    table::print("Growth with the number of keys, 1 thread", &rows);
}
