//! The promised wait is exact.

use proptest::prelude::*;
use ratekeeper::Nanos;

use super::support::draw::{cost, stumbled};
use super::support::{TICK, before};

proptest! {
    #![proptest_config(test_support::cases::config(2_500))]

    /// Waiting exactly `retry_after` and asking again, alone, succeeds; one nanosecond earlier fails. On every
    /// algorithm, also when the clock has stepped back before.
    #[test]
    fn waiting_exactly_as_long_as_promised_succeeds_and_a_nanosecond_less_fails(
        mut walk in stumbled(),
        cost in cost(),
    ) {
        let (key, now) = (&mut walk.key, walk.now);
        let denied = key.take(cost, now);
        let fits = cost <= key.quota.burst();
        prop_assert!(fits || (!denied.allowed && denied.retry_after.is_none()));
        if denied.allowed {
            prop_assert_eq!(denied.retry_after, Some(Nanos::ZERO));
        } else if fits {
            let wait = denied.retry_after.unwrap();
            prop_assert!(wait > Nanos::ZERO, "denied, and yet nothing to wait for");
            let then = now + wait;
            prop_assert!(!key.clone().take(cost, before(then, TICK)).allowed, "{wait} is more than needed");
            prop_assert!(key.clone().take(cost, then).allowed, "{wait} is not enough");
            // Asking in between, and being denied, prolongs nothing.
            let between = now + Nanos::from_nanos(wait.as_nanos() / 2);
            let again = key.take(cost, between);
            prop_assert_eq!(again.retry_after, Some(then.since(between)));
            prop_assert!(key.take(cost, then).allowed);
        }
    }

    /// More time never hurts: what passes at one instant passes at every later one, and more is left by then.
    #[test]
    fn what_passes_now_passes_later(walk in stumbled(), cost in cost(), wait in super::support::draw::span()) {
        let later = walk.now + wait.under(&walk.key.quota);
        let (now, then) = (walk.key.peek(cost, walk.now), walk.key.peek(cost, later));
        prop_assert!(!now.allowed || then.allowed);
        prop_assert!(now.remaining <= then.remaining, "{} then {}", now.remaining, then.remaining);
        prop_assert!(walk.now + now.reset_after <= later + then.reset_after || then.reset_after.is_zero());
    }
}
