//! After the reset a key is a fresh one.

use proptest::prelude::*;
use ratekeeper::{Nanos, State};

use super::support::draw::{Walk, step, stumbled};
use super::support::{Key, TICK, before};

/// The state that a store would hold after looking at the key: none if it equals a fresh key's.
fn stored(key: &Key, now: ratekeeper::Timestamp) -> Option<State> {
    let mut key = key.clone();
    key.refund(0, now);
    key.state
}

proptest! {
    #![proptest_config(test_support::cases::config(3_000))]

    /// At `reset_after` from now the key behaves exactly as a fresh one on any continuation; one nanosecond earlier
    /// its state does not equal a fresh key's. The continuation moves forward in time: a clock that steps back behind
    /// the reset finds the state again if it is still there, and never one that was forgotten.
    #[test]
    fn after_the_reset_a_key_behaves_as_a_fresh_one(
        walk in stumbled(),
        continuation in prop::collection::vec(step(), 1..12),
    ) {
        let mut key = walk.key;
        // A denial may write (it repairs what lies too far ahead); let that be done before the promise is read.
        key.take(1, walk.now);
        let reset = key.peek(0, walk.now).reset_after;
        let then = walk.now + reset;
        prop_assert_eq!(stored(&key, then), None);
        prop_assert!(reset.is_zero() || stored(&key, before(then, TICK)).is_some(), "{} is more than needed", reset);
        let mut old = Walk { key: key.clone(), now: then, promised: Nanos::ZERO };
        let mut fresh = Walk { key: Key::fresh(key.quota), now: then, promised: Nanos::ZERO };
        for step in continuation {
            prop_assert_eq!(old.key.peek(1, old.now), fresh.key.peek(1, fresh.now));
            prop_assert_eq!(old.step(step), fresh.step(step));
            prop_assert_eq!(old.promised, fresh.promised);
        }
    }

    /// The capacity is whole again at the reset, and for a key that has been charged it is not there before: the
    /// charge itself is never ahead of its reset.
    #[test]
    fn the_reset_is_when_the_capacity_is_whole(walk in stumbled()) {
        let decision = walk.key.peek(0, walk.now);
        let whole = |at| walk.key.peek(0, at).remaining == decision.limit;
        prop_assert!(!decision.reset_after.is_zero() || whole(walk.now));
        let mut key = walk.key.clone();
        key.take(1, walk.now);
        let reset = key.peek(0, walk.now).reset_after;
        prop_assert_eq!(key.peek(0, walk.now + reset).remaining, decision.limit);
        prop_assert!(reset > Nanos::ZERO);
    }

    /// A reset forgets: the next request is a fresh key's.
    #[test]
    fn no_state_is_a_fresh_key(walk in stumbled()) {
        let fresh = Key::fresh(walk.key.quota).peek(1, walk.now);
        prop_assert_eq!((fresh.remaining, fresh.reset_after), (fresh.limit, Nanos::ZERO));
        prop_assert!(fresh.allowed);
    }
}
