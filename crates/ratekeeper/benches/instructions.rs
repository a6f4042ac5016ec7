//! Hot paths of the engine, for counting their instructions: `cargo xtask lint` does, with valgrind.
//!
//! Without arguments it lists the paths; `PATH CALLS` makes so many calls.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench may panic, and prints its list"
)]

use std::hint::black_box;
use std::sync::Arc;

use ratekeeper::port::{Request, Store};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Cost, Keeper, Key, MemoryStore, Plan, Quota, Registry, Rules, Timestamp};

const PATHS: [&str; 8] = [
    "store: allowed",
    "store: denied",
    "store: many keys",
    "store: batch of 16",
    "store: plan of two rules",
    "store: peek",
    "store: refund",
    "keeper: acquire",
];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let [path, calls] = args.as_slice() else { return PATHS.iter().for_each(|path| println!("{path}")) };
    run(path, calls.parse().unwrap());
}

fn run(path: &str, calls: usize) {
    // A clock that stands still: what reading the machine's costs is not counted.
    let store = MemoryStore::builder().clock(FakeClock::at(Timestamp::from_secs(1_000_000))).build();
    let plenty: Quota = "1000000000/s".parse().unwrap();
    let one: Quota = "1/day".parse().unwrap();
    let plan = Arc::new(Plan::parse("plan", "a=1000000000/s; b=1000000000/m").unwrap());
    let names: Vec<String> = (0..1_000).map(|number| format!("user:{number:012}")).collect();
    let keys: Vec<Key<'_>> = names.iter().map(|name| Key::new(name).unwrap()).collect();
    let ask = |key, rules| Request::new(key, rules, Cost::ONE);
    let hot = ask(keys[0], Rules::Quota(&plenty));
    match path {
        "store: allowed" => repeat(calls, |_| store.acquire(hot).now().is_ok()),
        "store: denied" => {
            let denied = ask(keys[1], Rules::Quota(&one));
            repeat(calls, |_| store.acquire(denied).now().is_ok());
        }
        "store: many keys" => {
            repeat(calls, |call| store.acquire(ask(keys[call % 1_000], Rules::Quota(&plenty))).now().is_ok());
        }
        "store: batch of 16" => {
            let requests: Vec<_> = keys[..16].iter().map(|key| ask(*key, Rules::Quota(&plenty))).collect();
            let mut answers = Vec::with_capacity(16);
            repeat(calls, |_| {
                answers.clear();
                store.acquire_many(&requests, &mut answers).now().is_ok()
            });
        }
        "store: plan of two rules" => {
            let planned = ask(keys[2], Rules::Plan(&plan));
            repeat(calls, |_| store.acquire(planned).now().is_ok());
        }
        "store: peek" => repeat(calls, |_| store.peek(hot).now().is_ok()),
        "store: refund" => {
            let charged = ratekeeper::Charged::at(Timestamp::from_secs(1_000_000));
            repeat(calls, |_| {
                let taken = store.acquire(hot).now().is_ok();
                taken & store.refund(hot, charged).now().is_ok()
            });
        }
        "keeper: acquire" => {
            let keeper = Keeper::new(store, Registry::new([Plan::parse("free", "1000000000/s").unwrap()]));
            repeat(calls, |_| keeper.acquire("user:42", "free", 1).now().is_ok());
        }
        unknown => panic!("{unknown}: no such path; without arguments the paths are listed"),
    }
}

fn repeat(calls: usize, mut call: impl FnMut(usize) -> bool) {
    for number in 0..calls {
        assert!(black_box(call(black_box(number))));
    }
}
