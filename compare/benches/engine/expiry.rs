//! The longest single call while a million keys expire and a million new ones come.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use ratekeeper::port::{Clock, Request, Store};
use ratekeeper::{Cost, Key, MemoryStore, Quota, Rules, Timestamp};

use crate::table;

const KEYS: usize = 1_000_000;

/// A clock that stands still until it is moved, in seconds.
#[derive(Debug)]
struct Standing(AtomicI64);

impl Clock for Standing {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(self.0.load(Ordering::Relaxed))
    }
}

pub(crate) fn run() {
    let clock = Arc::new(Standing(AtomicI64::new(1_000)));
    let store = MemoryStore::builder().max_keys(KEYS).clock(clock.clone()).build();
    let quota: Quota = "1/s".parse().expect("a quota");
    let mut longest = [("filling", 0.0f64), ("while 1 M keys expire", 0.0)];
    let mut over = [0usize; 2];
    for (phase, prefix) in ["old", "new"].iter().enumerate() {
        for number in 0..KEYS {
            let key = format!("{prefix}:{number}");
            let key = Key::new(&key).expect("a key");
            let start = Instant::now();
            let answer = store.acquire(Request::new(key, Rules::Quota(&quota), Cost::ONE)).now();
            let took = start.elapsed().as_secs_f64() * 1e6;
            assert!(matches!(answer, Ok(Ok(decision)) if decision.allowed));
            longest[phase].1 = longest[phase].1.max(took);
            over[phase] += usize::from(took > 1_000.0);
        }
        clock.0.fetch_add(2, Ordering::Relaxed);
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
