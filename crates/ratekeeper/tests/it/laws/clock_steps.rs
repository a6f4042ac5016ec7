//! The clock may step back: that neither mints nor locks out.

use proptest::prelude::*;
use ratekeeper::algorithm::{AnyView, SLACK, Tenancy, View};
use ratekeeper::{Algorithm, Anchor, Nanos, Quota, State, Timestamp};

use super::support::before;
use super::support::draw::{Step, Walk, cost, quota, span, start, stumbled, walked};

/// The latest instant that a state holds.
fn instant(state: &State) -> Timestamp {
    match state {
        State::Gcra(state) => state.tat,
        State::TokenBucket(state) => state.last,
        State::LeakyBucket(state) => state.last,
        State::FixedWindow(state) => state.start,
        State::SlidingWindow(state) => state.start,
        State::SlidingLog(state) => state.entries().last().unwrap().0,
        other => unreachable!("{other:?}"),
    }
}

/// The most that may pass while the clock has moved forward by `forward` in all, whatever it did in between:
/// in billionths.
fn bound(quota: &Quota, forward: u128, backs: u128, charges: u128) -> u128 {
    const WHOLE: u128 = 1_000_000_000;
    let (burst, period) = (u128::from(quota.burst()), u128::from(quota.period().as_nanos()));
    match quota.algorithm() {
        Algorithm::Gcra => burst * WHOLE + forward * WHOLE / u128::from(quota.emission_interval().as_nanos()),
        // ε is forgiven with each charge, and the doubles are good to as much again.
        Algorithm::TokenBucket | Algorithm::LeakyBucket => {
            burst * WHOLE + forward * u128::from(quota.count()) * WHOLE / period + 2 * charges
        }
        Algorithm::SlidingLog => burst * (1 + forward / (period + 1)) * WHOLE,
        Algorithm::FixedWindow(Anchor::FirstRequest) | Algorithm::SlidingWindow => {
            burst * (1 + forward / period) * WHOLE
        }
        // The first window may be nearly over, and a February is shorter than a month. The edge of a window lets all of
        // a limit pass, and a clock that steps back over it by more than a second comes by again.
        _ => burst * (2 + backs + forward * 30 / (period * 28)) * WHOLE,
    }
}

proptest! {
    #![proptest_config(test_support::cases::config(2_000))]

    /// Stepping back mints nothing: over any history no more passes than the time that the clock moved forward
    /// accounts for, as if it had stood still instead of stepping back.
    #[test]
    fn stepping_back_and_forth_mints_nothing(
        quota in quota(),
        start in start(),
        steps in prop::collection::vec(
            prop_oneof![
                5 => cost().prop_map(Step::Take),
                1 => (cost(), cost()).prop_map(|(least, most)| Step::TakeUpTo(least, most)),
                2 => span().prop_map(Step::Forward),
                2 => span().prop_map(Step::Back),
                2 => any::<bool>().prop_map(|early| Step::Wait { early }),
            ],
            1..60,
        ),
    ) {
        let mut walk = Walk::new(quota, start);
        let (mut taken, mut charges, mut forward, mut backs) = (0_u128, 0, 0_u128, 0);
        // The latest instant since the last step that counts: a stored one is no later, or was cut off by that step.
        let mut latest = start;
        for step in steps {
            let then = walk.now;
            let cost = walk.step(step);
            let far_back = latest.since(walk.now) > SLACK;
            backs += u128::from(far_back);
            latest = if far_back { walk.now } else { latest.max(walk.now) };
            taken += u128::from(cost);
            charges += u128::from(cost > 0);
            forward += u128::from(walk.now.since(then).as_nanos());
            let most = bound(&quota, forward, backs, charges);
            prop_assert!(taken * 1_000_000_000 <= most, "{taken} in {forward} ns");
        }
    }

    /// At an earlier instant there is never more to be had than at a later one: no use in turning the clock back.
    #[test]
    fn turning_the_clock_back_never_helps(walk in stumbled(), back in span(), cost in cost()) {
        let earlier = before(walk.now, back.under(&walk.key.quota));
        let (now, then) = (walk.key.peek(cost, walk.now), walk.key.peek(cost, earlier));
        prop_assert!(then.remaining <= now.remaining);
        prop_assert!(now.allowed || !then.allowed);
    }

    /// Nor does it lock out: however far the clock steps back, and be it to the beginning of time, every cost within
    /// the capacity passes after at most the time that it could take anyway with a debt, and one second more.
    #[test]
    fn however_far_back_the_lock_out_is_at_most_a_second_longer(
        walk in walked(),
        cost in 1_u64..=12,
        back in prop_oneof![
            span().prop_map(Some),
            Just(None),
        ],
        off in 0_u64..1_000_000,
    ) {
        let mut key = walk.key;
        let cost = cost.min(key.quota.burst());
        let now = match back {
            Some(span) => before(walk.now, span.under(&key.quota)),
            None => Timestamp::MIN + Nanos::from_nanos(off),
        };
        let denied = key.take(cost, now);
        let longest = key.longest().saturating_add(SLACK);
        // The doubles of a bucket are good to a few parts in 2^53.
        let longest = Nanos::from_nanos(longest.as_nanos() + (longest.as_nanos() >> 50) + 1);
        let wait = denied.retry_after.unwrap();
        prop_assert!(wait <= longest, "{wait} is longer than {longest}");
        let reset = key.peek(0, now).reset_after;
        prop_assert!(reset <= longest, "{reset} is longer than {longest}");
        prop_assert!(key.take(cost, now + wait).allowed || denied.allowed);
    }

    /// A stored instant is never replaced by an earlier one, unless it was cut off, or would be after the charge: then by
    /// the one of now.
    #[test]
    fn a_stored_instant_never_goes_back(walk in walked(), back in span(), cost in 1_u64..=12) {
        let mut key = walk.key;
        let now = before(walk.now, back.under(&key.quota));
        let Some(old) = key.state.clone() else { return Ok(()) };
        let quota = key.quota;
        let view = AnyView::at(&quota, Some(&old), now, Tenancy::Own).unwrap();
        if !view.was_repaired() && key.take(cost, now).allowed {
            let new = instant(key.state.as_ref().unwrap());
            let cut_off = walk.now.since(now) > SLACK && new == now;
            let kept = new >= instant(&old) || view.reset_after().is_zero() || cut_off;
            prop_assert!(kept, "{old:?} became {new:?}");
        }
    }

    /// What lies too far ahead is cut off once, and that write stays: the next denial at that instant writes nothing.
    #[test]
    fn a_repair_is_made_once(walk in walked(), years in 1_u64..200) {
        let mut key = walk.key;
        let now = before(walk.now, Nanos::from_secs(years * 31_536_000));
        key.take(u64::MAX, now);
        let repaired = key.state.clone();
        prop_assert!(!AnyView::at(&key.quota, repaired.as_ref(), now, Tenancy::Own).unwrap().was_repaired());
        key.take(u64::MAX, now);
        prop_assert_eq!(key.state, repaired);
    }
}
