//! What is given back.

use proptest::prelude::*;
use ratekeeper::algorithm;
use ratekeeper::{Algorithm, Cost, Nanos, Quota, State, Timestamp};

use super::support::draw::{cost, quota, quota_of, span, start, stumbled, walked};
use super::support::float::on_the_edge;
use super::support::{Key, NOON};

/// True for a window or slot that begins later: the clock has stepped back since.
fn begins_after(state: Option<&State>, now: Timestamp) -> bool {
    match state {
        Some(State::FixedWindow(state)) => state.start > now,
        Some(State::SlidingWindow(state)) => state.start > now,
        Some(State::SlidingLog(log)) => log.entries().any(|(at, _)| at > now),
        _ => false,
    }
}

/// The most that a quota admits in a span, both ends included.
fn most_within(quota: &Quota, span: Nanos) -> u64 {
    let (span, period) = (u128::from(span.as_nanos()), u128::from(quota.period().as_nanos()));
    let refilled = match quota.algorithm() {
        Algorithm::Gcra => span / u128::from(quota.emission_interval().as_nanos()),
        Algorithm::SlidingLog => u128::from(quota.burst()) * (span / (period + 1)),
        // One more for what ε forgives.
        _ => span * u128::from(quota.count()) / period + 1,
    };
    quota.burst().saturating_add(u64::try_from(refilled).unwrap_or(u64::MAX))
}

proptest! {
    #![proptest_config(test_support::cases::config(3_000))]

    /// A refund never lifts what remains above the capacity, and never lowers it.
    #[test]
    fn a_refund_never_exceeds_the_capacity(walk in stumbled(), cost in prop_oneof![cost(), Just(u64::MAX)]) {
        prop_assume!(!on_the_edge(&walk));
        let (mut key, now) = (walk.key, walk.now);
        let before = key.peek(0, now);
        let after = key.refund(cost, now);
        prop_assert!(before.remaining <= after.remaining && after.remaining <= after.limit);
        prop_assert!(after.remaining - before.remaining <= cost, "more came back than was given");
        // Recounting a bucket's tokens rounds the last bit, which may be a nanosecond's worth.
        let longest = before.reset_after.as_nanos() + (before.reset_after.as_nanos() >> 50) + 1;
        prop_assert!(after.reset_after.as_nanos() <= longest);
        prop_assert_eq!(after, key.peek(0, now), "the answer is that of the state which was written");
    }

    /// Giving back what was just taken restores what there was: at least as much remains as before, now and later.
    /// For algorithms on integers it is exactly as much.
    #[test]
    fn a_refund_of_what_was_taken_restores_it(walk in stumbled(), cost in 1_u64..=13, wait in span()) {
        prop_assume!(!on_the_edge(&walk));
        let (mut untouched, now) = (walk.key, walk.now);
        // A denial, so that a state which lies too far ahead has been cut off before the two are compared.
        untouched.take(u64::MAX, now);
        // Nor one whose window has yet to begin: what is charged now is not known to be charged in that.
        prop_assume!(!begins_after(untouched.state.as_ref(), now));
        let mut key = untouched.clone();
        if key.take(cost, now).allowed {
            key.refund(cost, now);
            let (before, after) = (untouched.peek(0, now), key.peek(0, now));
            prop_assert_eq!(after.remaining, before.remaining);
            if !matches!(key.quota.algorithm().word(), "bucket" | "leaky") {
                prop_assert_eq!(after, before);
                let later = now + wait.under(&key.quota);
                prop_assert_eq!(key.peek(0, later), untouched.peek(0, later));
            }
        }
    }

    /// A refund later than the charge, however much later, leaves no more than if it had never been charged, and no
    /// less than if it were not given back.
    #[test]
    fn a_late_refund_gives_back_at_most_what_was_charged(walk in walked(), cost in 1_u64..=13, wait in span()) {
        prop_assume!(!on_the_edge(&walk));
        let (untouched, mut key) = (walk.key.clone(), walk.key);
        let later = walk.now + wait.under(&key.quota);
        if key.take(cost, walk.now).allowed {
            let (kept, without) = (key.peek(0, later).remaining, untouched.peek(0, later).remaining);
            let after = key.refund_of(cost, walk.now, later).remaining;
            prop_assert!(kept <= after && after <= without, "{kept} <= {after} <= {without}");
        }
    }

    /// A late refund mints nothing: whatever is given back, when, and in however many parts, what was charged in any span, less
    /// what of that was given back within it, is no more than the quota lets pass in that span.
    #[test]
    fn with_refunds_of_any_age_no_span_admits_more_than_the_quota(
        quota in prop::sample::select(vec![
            Algorithm::Gcra, Algorithm::TokenBucket, Algorithm::LeakyBucket, Algorithm::SlidingLog,
        ]).prop_flat_map(quota_of),
        moves in prop::collection::vec((0_u8..6, cost(), span(), any::<prop::sample::Index>()), 1..40),
    ) {
        let mut key = Key::fresh(quota);
        let mut now = NOON;
        // When, how much, and what of it was given back when.
        let mut charges: Vec<(Timestamp, u64, Option<Timestamp>)> = Vec::new();
        for (kind, cost, span, index) in moves {
            match kind {
                0 | 1 => now = now + span.under(&quota),
                2 if charges.iter().any(|(.., back)| back.is_none()) => {
                    let mut open: Vec<_> = charges.iter_mut().filter(|(.., back)| back.is_none()).collect();
                    let at = index.index(open.len());
                    let (charged_at, cost, back) = &mut *open[at];
                    key.refund_of(*cost, *charged_at, now);
                    *back = Some(now);
                }
                _ => {
                    let cost = cost.max(1);
                    if key.take(cost, now).allowed {
                        // In two parts, each of which comes back by itself, or not.
                        let part = index.index(usize::try_from(cost).unwrap()) as u64;
                        charges.extend([(now, part, None), (now, cost - part, None)]);
                    }
                }
            }
        }
        for (start, ..) in &charges {
            for (end, ..) in charges.iter().filter(|(end, ..)| end >= start) {
                let within = charges.iter().filter(|(at, _, back)| {
                    (start..=end).contains(&at) && !back.is_some_and(|back| back <= *end)
                });
                let admitted: u64 = within.map(|(_, cost, _)| cost).sum();
                let most = most_within(&quota, end.since(*start));
                prop_assert!(admitted <= most, "{admitted} of {most} in {}", end.since(*start));
            }
        }
    }

    /// A refund on a fresh key creates nothing.
    #[test]
    fn a_refund_on_a_fresh_key_creates_nothing(quota in quota(), now in start(), cost in prop_oneof![cost(), Just(u64::MAX)]) {
        let (decision, state) = algorithm::refund(&quota, None, Cost::new(cost), now, now).unwrap();
        prop_assert_eq!(state, None);
        prop_assert_eq!(decision, Key::fresh(quota).peek(0, now));
        prop_assert!(decision.reset_after.is_zero());
    }
}
