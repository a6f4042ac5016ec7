//! What other limiters get wrong, as far as it concerns an engine. Each test names the fault.

use ratekeeper::algorithm::{Tenancy, composite};
use ratekeeper::{Cost, Nanos, Quota};

use super::support::{Key, NOON};

fn key(burst: i64, count: i64, period: i64) -> Key {
    Key::fresh(Quota::throttle(burst, count, period).unwrap())
}

/// Fault: a burst of 1 limits nothing.
#[test]
fn a_burst_of_one_denies_the_second_and_the_third() {
    let mut key = key(1, 1, 60);
    let answers = [(); 3].map(|()| key.take(1, NOON).allowed);
    assert_eq!(answers, [true, false, false]);
}

/// Fault: a key that has rested gets more than its burst, and `remaining` exceeds the limit.
#[test]
fn a_rested_key_gets_ten_of_ten() {
    let mut key = key(10, 60, 60);
    key.take(1, NOON);
    let later = NOON + Nanos::from_millis(8_600);
    let answers = [(); 30].map(|()| key.take(1, later));
    assert_eq!(answers.iter().filter(|answer| answer.allowed).count(), 10);
    assert!(answers.iter().all(|answer| answer.remaining < answer.limit));
}

/// Fault: a refill of centuries overflows, and the limiter dies for everybody.
#[test]
fn a_refill_of_centuries_is_an_error_and_no_panic() {
    assert!(Quota::throttle(2_000_000_000, 1, 99_999_999_999).is_err());
    assert!(Quota::throttle(i64::MAX, i64::MAX, i64::MAX).is_err());
    assert!(Quota::throttle(i64::MIN, i64::MIN, i64::MIN).is_err());
    assert!(key(1, 1, 60).take(1, NOON).allowed);
}

/// Fault: a cost of 0 is stored, and the key is denied for ever after.
#[test]
fn a_cost_of_nothing_denies_nobody() {
    let mut key = key(1, 1, 60);
    key.take(0, NOON);
    assert!(key.take(1, NOON).allowed);
}

/// Fault: denied with `retry_after 0`. In whole seconds, waits round up.
#[test]
fn a_denial_is_never_to_be_retried_at_once() {
    let mut key = key(3, 100, 60);
    let answers = [(); 4].map(|()| key.take(1, NOON));
    assert!(answers[..3].iter().all(|answer| answer.allowed));
    let retry = answers[3].retry_after.unwrap();
    assert_eq!((answers[3].allowed, retry.ceil_secs(), retry), (false, 1, Nanos::from_millis(600)));
}

/// Fault: a burst of 2^32 + 1 wraps to 1, and denies 2.
#[test]
fn a_large_burst_is_honoured() {
    assert!(key(4_294_967_297, 1, 1).take(2, NOON).allowed);
    assert!(Quota::throttle(4_294_967_297, 1, 60).is_err(), "beyond the bound: 8,000 years");
}

/// Fault: below a millisecond an emission interval rounds to nothing, and the limit is off.
#[test]
fn a_limit_of_more_than_a_thousand_a_second_holds() {
    for count in [2_000_i64, 999_999, 600_000_000, 1_000_000_000] {
        let mut key = key(3, count, 1);
        assert_eq!(key.drain(10, NOON), 3, "{count}/s");
        let emission = 1_000_000_000_u64.div_ceil(count.cast_unsigned());
        assert_eq!(key.take(1, NOON).retry_after, Some(Nanos::from_nanos(emission)), "{count}/s");
    }
}

/// Fault: `per_second(600_000_000)` admits 1e9 a second, for its interval of 1.67 ns was rounded down to 1.
#[test]
fn an_interval_that_is_no_whole_nanosecond_rounds_up() {
    let mut key = Key::fresh(Quota::per_second(600_000_000).burst(1).build().unwrap());
    let admitted = (0..1_000).filter(|nano| key.take(1, NOON + Nanos::from_nanos(*nano)).allowed).count();
    assert_eq!(admitted, 500);
}

/// Fault: chained limiters burn quota that a later one refuses, and a leaky secondary that of the primary.
#[test]
fn a_chain_burns_nothing_that_a_later_rule_refuses() {
    for second in ["1/h", "1/h bucket", "1/h leaky", "1/h fixed", "1/h sliding", "1/h log"] {
        let mut rules = vec![("5/h".parse().unwrap(), None), (second.parse().unwrap(), None)];
        for _ in 0..10 {
            let (_, wrote) = composite::try_acquire(&rules, Cost::ONE, NOON, Tenancy::Own).unwrap();
            for (rule, state) in rules.iter_mut().zip(wrote) {
                rule.1 = state.or(rule.1.take());
            }
        }
        let first = composite::peek(&rules[..1], Cost::ZERO, NOON, Tenancy::Own).unwrap();
        assert_eq!(first.remaining, 4, "{second}");
    }
}

/// Fault: a clock that steps back mints tokens.
#[test]
fn a_step_back_mints_nothing() {
    for quota in ["5/m", "5/m bucket", "5/m leaky", "5/m fixed", "5/m sliding", "5/m log"] {
        let mut key = Key::fresh(quota.parse().unwrap());
        assert_eq!(key.drain(9, NOON), 5);
        for back in [1, 30, 60, 61, 3_600, 86_400 * 365] {
            let earlier = NOON.saturating_sub(Nanos::from_secs(back));
            assert_eq!(key.clone().drain(9, earlier), 0, "{quota}, {back} s back");
        }
    }
}
