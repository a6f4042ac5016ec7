//! No input, however extreme, panics, wraps, or turns a limit off.

use proptest::prelude::*;
use ratekeeper::quota::QuotaErrorKind;
use ratekeeper::testkit::model::Model;
use ratekeeper::{Algorithm, Anchor, Calendar, CalendarUnit, Cost, Nanos, Quota, Timestamp, Zone};

use super::support::draw::algorithms;
use super::support::{Key, TICK, before, same};

/// Numbers about every edge of 64 bits, and any other.
fn number() -> impl Strategy<Value = u64> {
    let edges = vec![
        1,
        2,
        3,
        60,
        1_000,
        65_536,
        1_000_000_000,
        1 << 31,
        1 << 32,
        (1 << 32) + 1,
        (1 << 53) - 1,
        1 << 53,
        (1 << 53) + 1,
        1 << 62,
        (1 << 63) - 1,
        1 << 63,
        u64::MAX - 1,
        u64::MAX,
    ];
    prop_oneof![3 => prop::sample::select(edges), 1 => any::<u64>(), 1 => 1_u64..100]
}

/// Every quota that can be built, with the edges of what can.
pub(crate) fn extreme_quota() -> impl Strategy<Value = Quota> {
    let every = prop::sample::select(algorithms());
    (every, number(), number(), number()).prop_filter_map("refused", |(algorithm, count, period, burst)| {
        let period = match algorithm {
            Algorithm::FixedWindow(Anchor::Calendar(calendar)) => calendar.unit().nominal(),
            _ => Nanos::from_nanos(period.min(i64::MAX.cast_unsigned())),
        };
        let mut quota = Quota::per(count.min(period.as_nanos()), period.as_duration())
            .algorithm(algorithm)
            .log_bound(u32::MAX);
        if matches!(algorithm, Algorithm::Gcra | Algorithm::TokenBucket | Algorithm::LeakyBucket) {
            // The greatest burst that still refills in time, or less.
            let emission = period.as_nanos().div_ceil(count.min(period.as_nanos()).max(1)).max(1);
            quota = quota.burst(burst.min(i64::MAX.cast_unsigned() / emission));
        }
        quota.build().ok()
    })
}

/// Instants at and about both ends of time, the epoch, and any other.
pub(crate) fn instant() -> impl Strategy<Value = Timestamp> {
    let edges = vec![i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX, i64::MAX / 2, i64::MIN / 2];
    let off = -2_000_000_000_i64..2_000_000_000;
    prop_oneof![
        2 => prop::sample::select(edges.clone()),
        2 => (prop::sample::select(edges), off).prop_map(|(edge, off)| edge.saturating_add(off)),
        1 => any::<i64>(),
    ]
    .prop_map(Timestamp::from_nanos)
}

/// What must hold of every answer, whatever was asked.
pub(crate) fn sane(key: &Key, cost: u64, now: Timestamp) -> Result<(), TestCaseError> {
    let mut key = key.clone();
    let before_it = key.peek(0, now).remaining;
    let decision = key.take(cost, now);
    prop_assert_eq!(decision.limit, key.quota.burst());
    prop_assert!(decision.remaining <= decision.limit);
    prop_assert_eq!(decision.allowed, cost <= before_it, "{} of {}", cost, before_it);
    prop_assert!(cost <= decision.limit || decision.retry_after.is_none());
    if let (false, Some(wait)) = (decision.allowed, decision.retry_after) {
        prop_assert!(wait > Nanos::ZERO && wait <= Timestamp::MAX.since(now), "{wait:?} at {now:?}");
        prop_assert!(key.peek(cost, now + wait).allowed, "{wait:?} is not enough");
        prop_assert!(!key.peek(cost, before(now + wait, TICK)).allowed, "{wait:?} is more than needed");
    }
    // A limit that is off would let everything pass for ever. Another full charge at the same instant is one too many.
    if decision.allowed && cost > 0 {
        prop_assert!(!key.take(decision.limit, now).allowed, "all of it passed, and {cost} before");
    }
    Ok(())
}

proptest! {
    #![proptest_config(test_support::cases::config(2_000))]

    /// Any quota, any cost, any instants in any order: an answer that makes sense, and that of the model, which
    /// neither saturates nor wraps, wherever integers decide.
    #[test]
    fn extremes_are_answered_as_the_law_is_worded(
        quota in extreme_quota(),
        steps in prop::collection::vec((0_u8..7, number(), any::<bool>(), instant()), 1..8),
    ) {
        let integers = !matches!(quota.algorithm(), Algorithm::TokenBucket | Algorithm::LeakyBucket);
        let (mut key, mut model) = (Key::fresh(quota), Model::new(quota));
        for (kind, number, within, now) in steps {
            let cost = if within { number % (quota.burst() + 1) } else { number };
            sane(&key, cost, now)?;
            let (given, wanted) = match kind {
                0 => (key.refund(cost, now), model.refund(Cost::new(cost), now, now)),
                6 => {
                    let (debited, wanted) = (key.debit(cost, now), model.debit(Cost::new(cost), now));
                    prop_assert!(!integers || debited.1 == wanted.1, "{} {}", debited.1, wanted.1);
                    (debited.0, wanted.0)
                }
                1 => (key.peek(cost, now), model.peek(Cost::new(cost), now)),
                2 => {
                    let wanted = cost.min(key.peek(0, now).remaining);
                    let (granted, decision) = key.take_up_to(cost.min(1), cost, now);
                    prop_assert_eq!(granted, wanted);
                    (decision, model.try_acquire(Cost::new(if cost == 0 { 0 } else { granted.max(1) }), now))
                }
                _ => (key.take(cost, now), model.try_acquire(Cost::new(cost), now)),
            };
            if integers {
                same(given, wanted, now).map_err(TestCaseError::fail)?;
            }
        }
    }

    /// A quota is built, or refused with the field and the bound by name: any three numbers will do.
    #[test]
    fn any_three_integers_are_a_quota_or_an_error(burst in any::<i64>(), count in any::<i64>(), period in any::<i64>()) {
        match Quota::throttle(burst, count, period) {
            Ok(quota) => prop_assert!(Key::fresh(quota).take(1, Timestamp::EPOCH).allowed),
            Err(error) => {
                prop_assert_eq!(error.kind(), QuotaErrorKind::OutOfRange);
                prop_assert!(["max_burst", "count_per_period", "period"].contains(&error.field()));
            }
        }
    }
}

/// The largest of everything, at the last instants there are.
#[test]
fn the_bounds_themselves_are_honoured() {
    let longest = Quota::MAX_SPAN.as_duration();
    let largest = Quota::MAX_SPAN.as_nanos();
    let month = Calendar::new(CalendarUnit::Month, Zone::UTC);
    let per_month = || Quota::per(9, CalendarUnit::Month.nominal().as_duration());
    let quotas = [
        Quota::per_second(1_000_000_000).burst(largest),
        Quota::per(largest, longest),
        Quota::per(1, longest),
        Quota::per(1, longest).algorithm(Algorithm::TokenBucket),
        Quota::per_second(1_000_000).burst(1_u64 << 52).algorithm(Algorithm::TokenBucket),
        Quota::per_second(1_000_000).burst(1_u64 << 52).algorithm(Algorithm::LeakyBucket),
        Quota::per(largest, longest).algorithm(Algorithm::SlidingWindow),
        Quota::per(largest, longest).algorithm(Algorithm::FIXED),
        Quota::per(largest, longest).algorithm(Algorithm::FixedWindow(Anchor::Grid)),
        Quota::per(u32::MAX, longest).algorithm(Algorithm::SlidingLog).log_bound(u32::MAX),
        per_month().algorithm(Algorithm::FixedWindow(Anchor::Calendar(month))),
    ];
    for quota in quotas {
        let quota = quota.build().unwrap();
        for now in [Timestamp::MIN, Timestamp::EPOCH, Timestamp::MAX] {
            let mut key = Key::fresh(quota);
            let all = key.peek(0, now).remaining;
            assert!(all == quota.burst() || now == Timestamp::MAX, "{quota}");
            assert!(key.take(all, now).allowed, "{quota} at {now:?}");
            assert!(!key.take(1, now).allowed, "{quota} at {now:?}");
            assert!(!key.take(u64::MAX, now).allowed, "{quota} at {now:?}");
        }
    }
}
