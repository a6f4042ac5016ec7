//! What a lease comes to, in exact arithmetic: however extreme the quota, no product wraps, and no more is admitted beside
//! it than the share that was asked for.

use std::time::Duration;

use num_bigint::BigInt;
use num_rational::BigRational;
use proptest::prelude::*;
use ratekeeper::{Algorithm, Lease, Leasing, Nanos, NotLeased, Quota};

use super::extremes::extreme_quota;
use super::support::draw::quota;

fn whole(number: impl Into<BigInt>) -> BigRational {
    BigRational::from_integer(number.into())
}

/// Tokens per nanosecond, as the algorithm refills them.
fn rate(quota: &Quota) -> BigRational {
    match quota.algorithm() {
        Algorithm::Gcra => whole(1) / whole(quota.emission_interval().as_nanos()),
        _ => whole(quota.count()) / whole(quota.period().as_nanos()),
    }
}

fn lease() -> impl Strategy<Value = (Lease, Option<u32>)> {
    let share = (1_u32..=50).prop_map(|percent| (Lease::share(percent).unwrap(), Some(percent)));
    let time = (20_u64..=10_000).prop_map(|ms| (Lease::lasting(Duration::from_millis(ms)).unwrap(), None));
    prop_oneof![share, time]
}

/// Any quota, those at the edges, and those whose refill time is near the shortest that is leased.
fn any_quota() -> impl Strategy<Value = Quota> {
    let near = (1_u64..4_000_000_000, 1_u64..2_000_000_000).prop_flat_map(|(period, burst)| {
        let algorithms = vec![Algorithm::Gcra, Algorithm::TokenBucket, Algorithm::LeakyBucket];
        (prop::sample::select(algorithms), 1..=period).prop_map(move |(algorithm, count)| {
            let quota = Quota::per(count, Duration::from_nanos(period)).burst(burst);
            quota.algorithm(algorithm).build().unwrap()
        })
    });
    prop_oneof![quota(), extreme_quota(), near]
}

proptest! {
    #![proptest_config(test_support::cases::config(2_000))]

    /// A lease lasts the share of the exact refill time, rounded down, and 500 ms at most; or the time that was asked for. It
    /// is had if that is 20 ms or more, and at most half of the refill time.
    #[test]
    fn a_lease_lasts_what_exact_arithmetic_says(quota in any_quota(), (lease, percent) in lease()) {
        let refill = whole(quota.burst()) / rate(&quota);
        let ms = |millis: u64| whole(millis * 1_000_000);
        let exact = match percent {
            Some(percent) => (&refill * whole(percent) / whole(100)).min(ms(500)),
            None => ms(u64::try_from(text_millis(lease)).unwrap()),
        };
        let enough = match percent {
            // The refill time is counted in nanoseconds.
            Some(_) => (refill.floor() * whole(percent.unwrap()) / whole(100)).floor() >= ms(20),
            None => refill.floor() >= &exact + &exact,
        };
        let found = Leasing::of_quota(lease, &quota);
        match quota.algorithm() {
            Algorithm::SlidingLog => prop_assert_eq!(found, Err(NotLeased::Log)),
            _ if quota.burst() < 32 => {
                prop_assert_eq!(found, Err(NotLeased::SmallBurst { burst: quota.burst() }));
            }
            algorithm => match found {
                Ok(leasing) => {
                    prop_assert!(enough);
                    let life = whole(leasing.life.as_nanos());
                    prop_assert!(life <= exact && &exact - &life < whole(2), "{} of {}", life, exact);
                    prop_assert_eq!(leasing.most, quota.burst() / 8);
                    prop_assert_eq!(leasing.gives_back, algorithm != Algorithm::SlidingWindow);
                    let beside = whole(leasing.excess(&quota));
                    let exact = &rate(&quota) * &life;
                    if matches!(algorithm, Algorithm::FixedWindow(_)) {
                        prop_assert_eq!(beside, whole(0));
                    } else {
                        prop_assert_eq!(beside, exact.ceil());
                    }
                    // The promise: a share of the refill time is at most that share of the burst.
                    let share = whole(percent.unwrap_or(50)) / whole(100);
                    prop_assert!(exact <= share * whole(quota.burst()));
                }
                Err(NotLeased::ShortRefill { refill, least, .. }) => {
                    prop_assert!(!enough);
                    prop_assert!(refill < least);
                }
                Err(other) => prop_assert!(false, "{}", other),
            },
        }
    }

    /// How much refills in a span is what exact arithmetic says, as far as it can be told.
    #[test]
    fn what_refills_in_a_span_is_rounded_up(quota in any_quota(), span in any::<u64>()) {
        let exact = (rate(&quota) * whole(span)).ceil().min(whole(u64::MAX));
        let exact = if matches!(quota.algorithm(), Algorithm::FixedWindow(_)) { whole(0) } else { exact };
        prop_assert_eq!(whole(Leasing::refilled(&quota, Nanos::from_nanos(span))), exact);
    }
}

/// Returns the milliseconds of a lease that is a time, as its text has them.
fn text_millis(lease: Lease) -> u128 {
    let text = lease.to_string();
    match text.strip_suffix("ms") {
        Some(millis) => millis.parse().unwrap(),
        None => text.strip_suffix('s').unwrap().parse::<u128>().unwrap() * 1_000,
    }
}
