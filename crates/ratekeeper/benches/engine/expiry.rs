//! The longest single call while a million keys expire and a million new ones come.

use std::time::Instant;

use ratekeeper::port::{Request, Store};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Cost, Key, MemoryStore, Nanos, Quota, Rules, Timestamp};

use crate::table;

const KEYS: usize = 1_000_000;

pub(crate) fn run() {
    let clock = FakeClock::at(Timestamp::from_secs(1_000));
    let store = MemoryStore::builder().max_keys(KEYS).clock(clock.clone()).build();
    let quota: Quota = "1/s".parse().expect("a quota");
    let mut longest = [("filling", 0.0f64), ("while 1 M keys expire", 0.0)];
    let mut over = [0usize; 2];
    for (phase, prefix) in ["old", "new"].iter().enumerate() {
        for number in 0..KEYS {
            let key = format!("{prefix}:{number}");
            let key = Key::new(&key).expect("a key");
            let start = Instant::now();
            let answer = store.acquire(Request { key, rules: Rules::Quota(&quota), cost: Cost::ONE });
            let took = start.elapsed().as_secs_f64() * 1e6;
            assert!(answer.now().is_ok_and(|answer| answer.is_ok_and(|decision| decision.allowed)));
            longest[phase].1 = longest[phase].1.max(took);
            over[phase] += usize::from(took > 1_000.0);
        }
        clock.advance(Nanos::from_secs(2));
    }
    let mut rows = vec![vec!["1 M calls".to_string(), "longest call, µs".into(), "calls over 1 ms".into()]];
    rows.extend(
        longest
            .iter()
            .zip(over)
            .map(|((phase, took), over)| vec![(*phase).to_string(), format!("{took:.0}"), over.to_string()]),
    );
    table::print("Pauses (a busy machine adds its own)", &rows);
}
