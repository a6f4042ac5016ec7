//! One hot key that is refused every time, as an attack is: nanoseconds of one core's time per decision.
//!
//! A refusal changes nothing, so it should cost the same however many threads are refused.

use crate::contender::{Batched, Contender, Governor, Ratekeeper, RefusingDirectGovernor};
use crate::table;
use crate::throughput::{Cell, keys, measure};

/// Decisions of all threads in one round.
const DECISIONS: usize = 2_000_000;

const NAMES: [&str; 4] = ["ratekeeper", "ratekeeper, batches of 16", "governor, keyed", "governor, direct"];

pub(crate) fn run() {
    let mut rows = vec![vec!["hot key refused".to_string()]];
    rows[0].extend(NAMES.iter().map(|name| format!("{name}, ns")));
    rows[0].extend(["of keyed", "of direct", "batched, of direct"].map(String::from));
    let keys = keys(1);
    for threads in [1, 2, 4] {
        let contenders: Vec<Box<dyn Contender>> = vec![
            Box::new(Ratekeeper::refusing(&keys[0])),
            Box::new(Batched(Ratekeeper::refusing(&keys[0]))),
            Box::new(Governor::refusing(&keys[0])),
            Box::new(RefusingDirectGovernor::new()),
        ];
        let times = measure(&[Cell::of_one_key(contenders, threads, DECISIONS / threads)]).remove(0);
        let mut row = vec![format!("threads: {threads}")];
        row.extend(times.iter().map(|time| time.text(0)));
        row.extend([(0, 2), (0, 3), (1, 3)].map(|(ours, theirs)| times[ours].by(&times[theirs]).text(2)));
        rows.push(row);
    }
    table::print("One key that is refused: core-nanoseconds for one decision, median (least–most)", &rows);
}
