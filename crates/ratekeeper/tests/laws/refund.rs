//! What is given back.

use proptest::prelude::*;
use ratekeeper::Cost;
use ratekeeper::algorithm;

use super::support::Key;
use super::support::draw::{cost, quota, span, start, stumbled};
use super::support::float::on_the_edge;

proptest! {
    #![proptest_config(super::support::cases(3_000))]

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

    /// A refund later than the charge, however much later, gives back no more than the capacity and leaves at
    /// least what there would have been.
    #[test]
    fn a_late_refund_gives_back_at_most_what_is_missing(walk in stumbled(), cost in 1_u64..=13, wait in span()) {
        prop_assume!(!on_the_edge(&walk));
        let mut key = walk.key;
        let later = walk.now + wait.under(&key.quota);
        let without = key.peek(0, later).remaining;
        if key.take(cost, walk.now).allowed {
            let after = key.refund(cost, later);
            prop_assert!(after.remaining <= after.limit);
            // A fixed window that began with the refunded request takes it along when it is forgotten: never fewer.
            prop_assert!(after.remaining >= without, "{} of {without}", after.remaining);
        }
    }

    /// A refund on a fresh key creates nothing.
    #[test]
    fn a_refund_on_a_fresh_key_creates_nothing(quota in quota(), now in start(), cost in prop_oneof![cost(), Just(u64::MAX)]) {
        let (decision, state) = algorithm::refund(&quota, None, Cost::new(cost), now).unwrap();
        prop_assert_eq!(state, None);
        prop_assert_eq!(decision, Key::fresh(quota).peek(0, now));
        prop_assert!(decision.reset_after.is_zero());
    }
}
