//! Faults that these laws have found in the engine. Each test names its bug.

use ratekeeper::algorithm::{
    Tenancy, composite, fixed_window, leaky_bucket, sliding_log, sliding_window, token_bucket,
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

/// Near the end of time, windows and buckets promised a wait that no clock can tell the end of, or one at whose end
/// the cost was refused again. It is never, as GCRA has it.
#[test]
fn no_wait_is_promised_beyond_the_end_of_time() {
    for quota in [
        "1/m fixed",
        "1/m fixed grid",
        "1/m fixed calendar",
        "1/m sliding",
        "1/m log",
        "1/m bucket",
        "1/m leaky",
    ] {
        let mut key = key(quota);
        let now = before(Timestamp::MAX, Nanos::from_secs(3));
        assert!(key.take(1, now).allowed, "{quota}");
        assert_eq!(key.take(1, now).retry_after, None, "{quota}");
    }
}

/// From the beginning of time, a sum of waits that saturated was taken for the last instant, and promised. A sum that
/// comes to just that instant is still kept.
#[test]
fn a_wait_that_saturates_is_never() {
    let quota = Quota::per(1_u64, Quota::MAX_SPAN.as_duration());
    let quota = quota.algorithm(ratekeeper::Algorithm::SlidingWindow).build().unwrap();
    // A nanosecond into the slot after this one there is room.
    let last = Nanos::MAX.saturating_sub(Quota::MAX_SPAN).saturating_sub(TICK);
    for (late, retry) in [(0, Some(Nanos::MAX)), (1, None)] {
        let start = Timestamp::MIN + last + Nanos::from_nanos(late);
        let state = sliding_window::SlidingWindowState { previous: 0, current: 1, start };
        let shared = Tenancy::Shared;
        let mut view = sliding_window::SlidingWindowView::at(&quota, Some(state), Timestamp::MIN, shared);
        assert_eq!(ratekeeper::algorithm::take(&mut view, Cost::ONE).retry_after, retry, "{late}");
    }
}

/// A window that ends with the very last instant does end: at that instant the next one begins.
#[test]
fn a_wait_until_the_last_instant_is_kept() {
    for (quota, window) in [("1/m fixed", 60_000_000_000), ("1/m log", 60_000_000_001)] {
        let mut key = key(quota);
        let now = before(Timestamp::MAX, Nanos::from_nanos(window));
        assert!(key.take(1, now).allowed);
        assert_eq!(key.take(1, now).retry_after, Some(Nanos::from_nanos(window)), "{quota}");
        assert!(!key.peek(1, before(Timestamp::MAX, TICK)).allowed && key.peek(1, Timestamp::MAX).allowed);
    }
}

/// A stored number of tokens below zero locked the key out for as long as it would take to refill from there: for
/// ever, if it was low enough. It is a debt, of one burst at the most.
#[test]
fn fewer_than_no_tokens_are_a_debt_of_one_burst_at_the_most() {
    let mut key = key("10/s bucket");
    for (tokens, millis) in [(-1.0, 200), (-10.0, 1_100), (-10.5, 1_100), (-1e300, 1_100), (f64::MIN, 1_100)]
    {
        key.state = Some(State::TokenBucket(token_bucket::TokenBucketState { tokens, last: NOON }));
        assert!(key.peek(0, NOON).allowed);
        assert_eq!(key.take(1, NOON).retry_after, Some(Nanos::from_millis(millis)), "{tokens}");
    }
}

/// Costs in a stored log that sum up to more than 2^64 wrapped, and so counted for nothing.
#[test]
fn the_costs_of_a_log_do_not_wrap() {
    let log: sliding_log::SlidingLogState = [(NOON, u64::MAX), (NOON + TICK, 2)].into_iter().collect();
    let mut key = key("5 per 10s log");
    key.state = Some(State::SlidingLog(log));
    assert_eq!(key.peek(0, NOON + TICK).remaining, 0);
}

/// A state that holds nothing (a count of none, an entry that cost nothing, a bucket that is full under a lowered
/// quota) said that it equals a fresh key's, but kept the instant it was written at: after a step back of the clock
/// what was taken then counted from there.
#[test]
fn a_state_that_holds_nothing_has_no_say_in_when() {
    let later = NOON + Nanos::from_secs(30);
    let nothing = [
        ("5/m fixed", State::FixedWindow(fixed_window::FixedWindowState { count: 0, start: later })),
        ("5/m bucket", State::TokenBucket(token_bucket::TokenBucketState { tokens: 7.0, last: later })),
        ("5/m leaky", State::LeakyBucket(leaky_bucket::LeakyBucketState { level: 0.0, last: later })),
        ("5/m leaky", State::LeakyBucket(leaky_bucket::LeakyBucketState { level: -7.0, last: later })),
        (
            "5/m sliding",
            State::SlidingWindow(sliding_window::SlidingWindowState {
                previous: 0,
                current: 0,
                start: later,
            }),
        ),
        ("5/m log", State::SlidingLog([(later, 0)].into_iter().collect())),
    ];
    for (quota, state) in nothing {
        let (mut fresh, mut stored) = (key(quota), key(quota));
        stored.state = Some(state);
        assert_eq!(stored.peek(0, NOON).reset_after, Nanos::ZERO, "{quota}");
        assert_eq!(stored.take(2, NOON), fresh.take(2, NOON), "{quota}");
        assert_eq!(stored.state, fresh.state, "{quota}");
    }
}

/// At the very instant at which a slow bucket has room, `remaining` and the predicate rounded differently: the one
/// said 2 where the other refused 2, so that a partial grant of up to 2 was refused although 1 would have passed.
#[test]
fn what_remains_is_what_passes_to_the_last_bit() {
    for algorithm in ["bucket", "leaky"] {
        for count in 1..40_u64 {
            let mut key = key(&format!("{count} per 365days burst 64 {algorithm}"));
            key.take(64, NOON);
            for cost in 1..=64_u64 {
                let wait = key.peek(cost, NOON).retry_after.unwrap();
                for off in [0, 1, 2, 5, 10, 20, 50, 100] {
                    let now = NOON + wait + Nanos::from_nanos(off);
                    let remaining = key.peek(0, now).remaining;
                    assert!(key.peek(remaining, now).allowed, "{} {cost} +{off}", key.quota);
                    assert!(!key.peek(remaining + 1, now).allowed, "{} {cost} +{off}", key.quota);
                    assert_eq!(key.clone().take_up_to(1, 64, now).0, remaining);
                }
            }
        }
    }
}

/// The position of a rule is 16 bits wide, and the 65,536th rule overflowed it.
#[test]
fn more_rules_than_can_be_numbered_are_still_decided() {
    let quota: Quota = "10/s".parse().unwrap();
    let mut rules = vec![(quota, None); 70_000];
    rules[69_999].0 = "1/s".parse().unwrap();
    let (decision, _) = composite::try_acquire(&rules, Cost::new(2), NOON, Tenancy::Own).unwrap();
    assert_eq!((decision.allowed, decision.limit, decision.rule), (false, 1, u16::MAX));
}

/// Acquiring nothing charged nothing, but recounted a bucket's tokens, whose reset then was a nanosecond off that of a
/// peek.
#[test]
fn acquiring_nothing_is_a_peek_to_the_nanosecond() {
    for quota in ["4/m burst 1 bucket", "7/m burst 3 leaky"] {
        let mut key = key(quota);
        key.take(key.quota.burst(), NOON);
        for nanos in (0..15_000_000_000).step_by(1_234_567) {
            let now = NOON + Nanos::from_nanos(nanos);
            assert_eq!(key.take(0, now), key.peek(0, now), "{quota} after {nanos} ns");
        }
    }
}

/// After a step back of a day a drained quota waited for as long as its algorithm happened to say, a window for a whole
/// one more. What is cut off is cut off to one refill, or to one window: it begins now, or where the grid has it. The
/// slot of a sliding counter fades in the next one.
#[test]
fn a_drained_quota_waits_no_longer_after_a_step_back() {
    let waits = [
        ("10/s", 100_000_000),
        ("10/s bucket", 100_000_000),
        ("10/s leaky", 100_000_000),
        ("10/s fixed", 1_000_000_000),
        ("10/s fixed grid", 876_543_211),
        ("10/s sliding", 1_000_000_001),
        ("10/s log", 1_000_000_001),
    ];
    for (quota, nanos) in waits {
        let mut key = key(quota);
        assert!(key.take(10, NOON).allowed, "{quota}");
        let earlier = before(NOON, Nanos::from_secs(86_400));
        let denied = key.take(1, earlier);
        assert_eq!((denied.allowed, denied.remaining), (false, 0), "{quota}");
        assert_eq!(denied.retry_after, Some(Nanos::from_nanos(nanos)), "{quota}");
        assert!(key.take(1, earlier + Nanos::from_nanos(nanos)).allowed, "{quota}");
    }
}

/// An age that was short by a millisecond took a neighbour's entry of nearly a second later out of a log, and one's own
/// left the window soon after: 15 of 10 passed within a tenth of a second.
#[test]
fn an_age_that_is_a_little_short_takes_no_later_entry_out_of_a_log() {
    let millis = |millis| NOON + Nanos::from_millis(millis);
    for told in [0, 1, 899] {
        let mut key = key("10/s log");
        assert!(key.take(5, NOON).allowed && key.take(5, millis(900)).allowed);
        key.refund_of(5, millis(told), millis(950));
        assert_eq!(key.peek(0, millis(1_001)).remaining, 5, "told {told} ms");
    }
}
