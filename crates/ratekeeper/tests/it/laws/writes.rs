//! Who writes, and who does not.

use proptest::prelude::*;
use ratekeeper::algorithm::{self, AnyView, Tenancy, View};
use ratekeeper::{Algorithm, Cost, Reason};

use super::support::before;
use super::support::draw::{cost, span, stumbled};
use super::support::float::on_the_edge;

proptest! {
    #![proptest_config(test_support::cases::config(3_000))]

    /// A peek decides by the same predicate as an acquire, tells what is left as it is, and a cost of 0 is a peek: it
    /// always passes and never writes.
    #[test]
    fn a_peek_decides_the_same_and_changes_nothing(walk in stumbled(), cost in cost()) {
        prop_assume!(walk.key.quota.algorithm() != Algorithm::LeakyBucket || !on_the_edge(&walk));
        let (key, now) = (walk.key, walk.now);
        let (peeked, taken) = (key.peek(cost, now), key.clone().take(cost, now));
        prop_assert_eq!((peeked.allowed, peeked.retry_after), (taken.allowed, taken.retry_after));
        prop_assert_eq!(peeked.remaining, taken.remaining + if taken.allowed { cost } else { 0 });
        let nothing = algorithm::try_acquire(&key.quota, key.state.as_ref(), Cost::ZERO, now).unwrap();
        prop_assert_eq!(nothing.1, None, "a cost of nothing wrote");
        prop_assert!(nothing.0.allowed);
        prop_assert_eq!(nothing.0, key.peek(0, now));
    }

    /// A denial writes nothing, and changes no later answer. The one exception is a state that lies further ahead
    /// than a refill or window, which the denial cuts off.
    #[test]
    fn a_denial_writes_nothing(walk in stumbled(), cost in 1_u64..=13, back in span()) {
        let key = walk.key;
        for now in [walk.now, before(walk.now, back.under(&key.quota))] {
            let (decision, wrote) =
                algorithm::try_acquire(&key.quota, key.state.as_ref(), Cost::new(cost), now).unwrap();
            let repaired = AnyView::at(&key.quota, key.state.as_ref(), now, Tenancy::Own).unwrap().was_repaired();
            prop_assert_eq!(wrote.is_some(), decision.allowed || repaired);
            if !decision.allowed {
                let mut after = key.clone();
                after.state = wrote.or(after.state);
                prop_assert_eq!(after.peek(1, now), key.peek(1, now), "a denial changed what is left");
            }
        }
    }

    /// What an allowed charge writes is there: one less than before for each of its cost.
    #[test]
    fn an_allowed_request_is_charged_once(walk in stumbled(), cost in 1_u64..=13) {
        prop_assume!(walk.key.quota.algorithm() != Algorithm::LeakyBucket || !on_the_edge(&walk));
        let (mut key, now) = (walk.key, walk.now);
        let before = key.peek(0, now).remaining;
        let decision = key.take(cost, now);
        prop_assert_eq!(decision.allowed, cost <= before);
        prop_assert_eq!(key.peek(0, now).remaining, if decision.allowed { before - cost } else { before });
    }

    /// More than the capacity can never pass: denied, never to be retried, and what remains is unchanged.
    #[test]
    fn more_than_the_capacity_never_passes(walk in stumbled(), beyond in prop_oneof![1_u64..9, Just(u64::MAX)]) {
        let (mut key, now) = (walk.key, walk.now);
        let remaining = key.peek(0, now).remaining;
        let decision = key.take(key.quota.burst().saturating_add(beyond), now);
        prop_assert_eq!((decision.allowed, decision.retry_after), (false, None));
        prop_assert_eq!((decision.reason, decision.remaining), (Reason::NeverFits, remaining));
        prop_assert_eq!(key.peek(0, now).remaining, remaining);
    }

    /// A decision says why, and its fields agree with each other.
    #[test]
    fn the_fields_of_a_decision_agree(walk in stumbled(), cost in cost()) {
        let decision = walk.key.peek(cost, walk.now);
        let reason = match (decision.allowed, decision.retry_after) {
            (true, _) => Reason::WithinQuota,
            (false, Some(_)) => Reason::QuotaExceeded,
            (false, None) => Reason::NeverFits,
        };
        prop_assert_eq!(decision.reason, reason);
        prop_assert_eq!(decision.rule, 0);
        prop_assert_eq!(decision.allowed, cost <= decision.remaining);
        // A wait for room within the capacity is never longer than the wait for the whole of it.
        prop_assert!(decision.retry_after.is_none_or(|wait| wait <= decision.reset_after));
    }
}
