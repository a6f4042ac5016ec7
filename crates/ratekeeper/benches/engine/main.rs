//! The engine against its peers, in one run: `cargo bench -p ratekeeper`.
//!
//! Times are medians of interleaved rounds and mean nothing by themselves; the ratios do. Every contender reads its
//! own default clock for every decision, looks up the same 20-byte keys in the same order, and allows everything,
//! but for the one key that is refused.

mod contender;
mod expiry;
mod memory;
mod refused;
mod table;
mod throughput;

fn main() {
    // A child measures its own memory: `engine --memory NAME`.
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "--memory") {
        return memory::child(args.get(at + 1).map_or("", String::as_str));
    }
    // One table alone: `cargo bench -p ratekeeper --bench engine -- refused`.
    if args.iter().any(|arg| arg == "refused") {
        return refused::run();
    }
    throughput::run();
    refused::run();
    memory::run();
    expiry::run();
}
