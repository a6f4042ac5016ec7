//! Faults that these laws have found in the engine. Each test names its bug.

use ratekeeper::algorithm::{
    composite, fixed_window, leaky_bucket, sliding_log, sliding_window, token_bucket,
};
use ratekeeper::{Cost, Nanos, Quota, State, Timestamp};

use super::support::{Key, NOON, TICK, before};

fn key(quota: &str) -> Key {
    Key::fresh(quota.parse().unwrap())
}

/// A log that held more than a lowered quota allows refused even a cost of nothing.
#[test]
fn a_peek_at_an_overfull_log_is_allowed() {
    let mut key = key("5 per 10s log");
    assert!(key.take(5, NOON).allowed);
    key.quota = "3 per 10s log".parse().unwrap();
    let peek = key.take(0, NOON);
    assert_eq!((peek.allowed, peek.remaining, peek.retry_after), (true, 0, Some(Nanos::ZERO)));
}

/// Costs in a stored log that sum up to more than 2^64 wrapped, and so counted for nothing.
#[test]
fn the_costs_of_a_log_do_not_wrap() {
    let log: sliding_log::State = [(NOON, u64::MAX), (NOON + TICK, 2)].into_iter().collect();
    let mut key = key("5 per 10s log");
    key.state = Some(State::SlidingLog(log));
    assert_eq!(key.peek(0, NOON + TICK).remaining, 0);
}
