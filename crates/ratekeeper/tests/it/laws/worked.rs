//! The worked answers of docs/semantics.md §4, row by row: exact values.

use ratekeeper::{Nanos, Quota, Timestamp};

use super::support::{Key, NOON};

const SECOND: u64 = 1_000_000_000;

/// A key under the quota that burst, count and period in seconds mean.
fn key(burst: i64, count: i64, period: i64) -> Key {
    Key::fresh(Quota::throttle(burst, count, period).unwrap())
}

fn at(nanos: u64) -> Timestamp {
    NOON + Nanos::from_nanos(nanos)
}

/// Row by row: allowed, remaining, retry after and reset after in nanoseconds; no retry is never.
fn expect(key: &mut Key, now: u64, cost: u64, answer: (bool, u64, Option<u64>, u64)) {
    let decision = key.take(cost, at(now));
    let nanos = |span: Nanos| span.as_nanos();
    let given =
        (decision.allowed, decision.remaining, decision.retry_after.map(nanos), nanos(decision.reset_after));
    assert_eq!(given, answer, "cost {cost} after {now} ns of {}", key.quota);
    assert_eq!(decision.limit, key.quota.burst());
}

/// 5, 10, 60: five pass, the sixth waits for one emission.
#[test]
fn five_of_burst_five_and_the_sixth() {
    let mut key = key(5, 10, 60);
    for taken in 1..=5 {
        expect(&mut key, 0, 1, (true, 5 - taken, Some(0), taken * 6 * SECOND));
    }
    expect(&mut key, 0, 1, (false, 0, Some(6 * SECOND), 30 * SECOND));
    expect(&mut key, 6 * SECOND - 1, 1, (false, 0, Some(1), 24 * SECOND + 1));
    expect(&mut key, 6 * SECOND, 1, (true, 0, Some(0), 30 * SECOND));
}

/// 10, 10, 60: a denial of 6 leaves the 5 that are there.
#[test]
fn a_denied_six_leaves_five() {
    let mut key = key(10, 10, 60);
    expect(&mut key, 0, 5, (true, 5, Some(0), 30 * SECOND));
    expect(&mut key, 0, 6, (false, 5, Some(6 * SECOND), 30 * SECOND));
    expect(&mut key, 0, 5, (true, 0, Some(0), 60 * SECOND));
}

/// 3, 7, 60: the emission interval of 8.571428571… s rounds up.
#[test]
fn a_rate_that_does_not_divide_the_minute() {
    let emission = 8_571_428_572;
    let mut key = key(3, 7, 60);
    for taken in 1..=3 {
        expect(&mut key, 0, 1, (true, 3 - taken, Some(0), taken * emission));
    }
    expect(&mut key, 8 * SECOND, 1, (false, 0, Some(571_428_572), 3 * emission - 8 * SECOND));
    expect(&mut key, 9 * SECOND, 1, (true, 0, Some(0), 4 * emission - 9 * SECOND));
}

/// 1, 1, 60: a burst of one limits to one.
#[test]
fn a_burst_of_one_limits_to_one() {
    let mut key = key(1, 1, 60);
    expect(&mut key, 0, 1, (true, 0, Some(0), 60 * SECOND));
    expect(&mut key, 0, 1, (false, 0, Some(60 * SECOND), 60 * SECOND));
}

/// 10, 60, 60: one, and at 8.9 s twelve more, of which exactly ten pass.
#[test]
fn a_rested_key_gets_its_burst_and_no_more() {
    let mut key = key(10, 60, 60);
    expect(&mut key, 0, 1, (true, 9, Some(0), SECOND));
    let rested = 8 * SECOND + 900_000_000;
    for taken in 1..=10 {
        expect(&mut key, rested, 1, (true, 10 - taken, Some(0), taken * SECOND));
    }
    for _ in 0..2 {
        expect(&mut key, rested, 1, (false, 0, Some(SECOND), 10 * SECOND));
    }
}

/// 1, 1, 60: a cost of nothing stores nothing, and takes nothing from whoever comes next.
#[test]
fn a_cost_of_nothing_stores_nothing() {
    let mut key = key(1, 1, 60);
    expect(&mut key, 0, 0, (true, 1, Some(0), 0));
    assert_eq!(key.state, None);
    expect(&mut key, 0, 1, (true, 0, Some(0), 60 * SECOND));
}

/// 5, 100, 60: ten of five can never be.
#[test]
fn more_than_the_burst_is_never() {
    let mut key = key(5, 100, 60);
    expect(&mut key, 0, 10, (false, 5, None, 0));
    assert_eq!(key.state, None);
}

/// 2000000000, 1, 99999999999: refused when the quota is built, by name.
#[test]
fn a_refill_beyond_the_bound_is_refused() {
    let error = Quota::throttle(2_000_000_000, 1, 99_999_999_999).unwrap_err();
    assert_eq!(error.field(), "period");
    assert!(error.remedy().contains("200 years"));
}

/// 4294967297, 1000000, 1: 2^32 + 1 is not 1.
#[test]
fn a_burst_of_more_than_32_bits_does_not_wrap() {
    let mut key = key(4_294_967_297, 1_000_000, 1);
    expect(&mut key, 0, 2, (true, 4_294_967_295, Some(0), 2_000));
}

/// The example that naive doubles get wrong: empty, 100 a second, 290 ms later, cost 29.
#[test]
fn twenty_nine_tokens_after_290_milliseconds() {
    for algorithm in ["bucket", "leaky"] {
        let mut key = Key::fresh(format!("100/s {algorithm}").parse().unwrap());
        assert!(key.take(100, NOON).allowed);
        assert!(!key.clone().take(29, at(289_999_999)).allowed, "{algorithm}");
        assert!(key.take(29, at(290_000_000)).allowed, "{algorithm}");
        assert_eq!(key.peek(0, at(290_000_000)).remaining, 0);
    }
}

/// An entry of a log exactly one window old still counts, and a nanosecond later does not; a fixed window is over at
/// its end; a counter has room as soon as any of the previous slot has faded.
#[test]
fn the_edges_of_the_windows() {
    for (quota, passes) in [
        ("1 per 10s log", 10 * SECOND + 1),
        ("1 per 10s fixed", 10 * SECOND),
        ("1 per 10s sliding", 10 * SECOND + 1),
    ] {
        let mut key = Key::fresh(quota.parse().unwrap());
        assert!(key.take(1, NOON).allowed);
        assert_eq!(key.take(1, NOON).retry_after, Some(Nanos::from_nanos(passes)), "{quota}");
        assert!(!key.peek(1, at(passes - 1)).allowed && key.peek(1, at(passes)).allowed, "{quota}");
    }
}
