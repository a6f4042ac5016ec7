//! Many instances under one limit, in virtual time: `cargo bench -p engine-tests --bench leases`, or with `1000` after `--`
//! for a thousand instances. Prints a table; nothing here is timed.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    dead_code,
    reason = "a bench may panic, and prints its table"
)]

use std::time::Duration;

use test_support::lease_scale::{Run, Traffic};

fn main() {
    let wanted: Vec<usize> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    let wanted = if wanted.is_empty() { vec![4, 64] } else { wanted };
    println!("| traffic | instances | life, ms | worst | missed, % | calls/s | local, % |");
    println!("|---|---|---|---|---|---|---|");
    for traffic in Traffic::ALL {
        for instances in &wanted {
            // A thousand instances share a limit ten times as high, a little further away.
            let (rate, tick, ticks) = match instances {
                0..=999 => (100_000, Duration::from_millis(1), 3_000),
                _ => (1_000_000, Duration::from_millis(2), 1_200),
            };
            let run = Run { traffic, instances: *instances, rate, life: 100, tick, ticks };
            let found = run.figures();
            println!(
                "| {traffic:?} | {instances} | {} | {:.2} | {:.1} | {:.0} | {:.1} |",
                run.life, found.worst, found.under, found.calls, found.local
            );
        }
    }
}
