//! The engine against its peers, in one run: `cargo bench --manifest-path compare/Cargo.toml --bench engine`.
//!
//! Times are medians of interleaved rounds, with the least and the most, and mean nothing by themselves; the ratios do.
//! Every contender reads its own default clock for every decision, looks up the same 20-byte keys in the same order, and
//! allows everything, but for the one key that is refused. Names of tables as arguments run these alone: `… --bench engine -- keys growth`. With
//! `--processor-time` a thread's time is what a processor worked for it (Linux only): for a busy machine, and for contenders that
//! do not sleep.

mod charges;
mod contender;
mod expiry;
mod holds;
mod memory;
mod refused;
mod samples;
mod snapshots;
mod table;
mod throughput;

/// The tables, by the names that select them.
const TABLES: [(&str, fn()); 9] = [
    ("keys", throughput::many_keys),
    ("hot", throughput::hot_key),
    ("refused", refused::run),
    ("growth", throughput::growth),
    ("memory", memory::run),
    ("holds", holds::run),
    ("charges", charges::run),
    ("pauses", expiry::run),
    ("snapshots", snapshots::run),
];

#[expect(clippy::print_stdout, reason = "a bench prints")]
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    // A child measures its own memory: `engine --memory NAME`.
    if let Some(at) = args.iter().position(|arg| arg == "--memory") {
        return memory::child(args.get(at + 1).map_or("", String::as_str));
    }
    // Cargo adds options of its own, such as `--bench`.
    let wanted: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    let names = || TABLES.map(|(name, _)| name).join(", ");
    if let Some(unknown) = wanted.iter().find(|name| TABLES.iter().all(|(table, _)| table != *name)) {
        println!("no table is named `{unknown}`: there are {}", names());
        std::process::exit(2);
    }
    for (name, run) in TABLES {
        if wanted.is_empty() || wanted.iter().any(|wanted| *wanted == name) {
            run();
        }
    }
}
