//! What is left is what can be had.

use proptest::prelude::*;

use ratekeeper::Algorithm;

use super::support::draw::{cost, stumbled};
use super::support::float::on_the_edge;

proptest! {
    #![proptest_config(test_support::cases::config(3_000))]

    /// `remaining` is how many requests of cost 1 pass right now, one after another: found by doing it. After each
    /// there is one less. (A leaky bucket adds to its level, and rounds: there, off the very edge.)
    #[test]
    fn as_many_as_remain_pass_one_after_another(walk in stumbled()) {
        prop_assume!(walk.key.quota.algorithm() != Algorithm::LeakyBucket || !on_the_edge(&walk));
        let (mut key, now) = (walk.key, walk.now);
        let remaining = key.peek(0, now).remaining;
        for left in (0..remaining).rev() {
            let decision = key.take(1, now);
            prop_assert!(decision.allowed, "with {} left", left + 1);
            prop_assert_eq!(decision.remaining, left);
        }
        prop_assert!(!key.take(1, now).allowed);
    }

    /// What remains passes at once too, and one more does not.
    #[test]
    fn all_that_remains_passes_at_once_and_one_more_does_not(walk in stumbled()) {
        prop_assume!(walk.key.quota.algorithm() != Algorithm::LeakyBucket || !on_the_edge(&walk));
        let remaining = walk.key.peek(0, walk.now).remaining;
        prop_assert!(!walk.key.clone().take(remaining + 1, walk.now).allowed);
        let all = walk.key.clone().take(remaining, walk.now);
        prop_assert_eq!((all.allowed, all.remaining), (true, 0));
    }

    /// `remaining` is never more than the limit, and less than it after a charge.
    #[test]
    fn never_more_remains_than_the_limit(walk in stumbled(), cost in cost()) {
        let mut key = walk.key;
        let decision = key.take(cost, walk.now);
        prop_assert_eq!(decision.limit, key.quota.burst());
        prop_assert!(decision.remaining <= decision.limit);
        prop_assert!(!decision.allowed || cost == 0 || decision.remaining < decision.limit);
    }

    /// A partial grant is exactly the lesser of the most that is wanted and what remains, and costs just that; if that is less
    /// than the least, it is the denial of the least.
    #[test]
    fn a_partial_grant_is_all_that_there_is(walk in stumbled(), least in cost(), most in cost()) {
        let (mut key, mut exact) = (walk.key.clone(), walk.key);
        let wanted = key.peek(0, walk.now).remaining.min(most).max(least);
        let (granted, decision) = key.take_up_to(least, most, walk.now);
        prop_assert_eq!(decision, exact.take(wanted, walk.now));
        prop_assert_eq!(&key.state, &exact.state);
        prop_assert_eq!(granted, if decision.allowed { wanted } else { 0 });
        prop_assert!(decision.allowed || wanted == least, "the least is refused, and nothing else");
    }

    /// What is granted is the most that passes: one more is refused, unless no more was wanted.
    #[test]
    fn one_more_than_was_granted_would_have_been_refused(walk in stumbled(), least in cost(), most in cost()) {
        prop_assume!(walk.key.quota.algorithm() != Algorithm::LeakyBucket || !on_the_edge(&walk));
        let (granted, decision) = walk.key.clone().take_up_to(least, most, walk.now);
        prop_assert!(granted <= most.max(least) && (granted >= least || !decision.allowed));
        let more = if decision.allowed { granted + 1 } else { least };
        prop_assert!(more > most.max(least) || !walk.key.clone().take(more, walk.now).allowed);
    }
}

/// A partial grant of everything empties the quota, however much is asked for.
#[test]
fn asking_for_everything_grants_the_capacity() {
    for quota in ["5/m", "5/m bucket", "5/m leaky", "5/m fixed", "5/m sliding", "5/m log"] {
        let mut key = super::support::Key::fresh(quota.parse().unwrap());
        let (granted, decision) = key.take_up_to(1, u64::MAX, super::support::NOON);
        assert_eq!((granted, decision.allowed, decision.remaining), (5, true, 0), "{quota}");
        assert_eq!(key.take_up_to(1, u64::MAX, super::support::NOON).0, 0, "{quota}");
    }
}
