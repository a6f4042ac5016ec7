//! A snapshot contains what is held, and the answers of what has ended.

use ratekeeper::port::{HoldAction, HoldState};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Amounts, MemoryStore, Nanos, OnLapse, Timestamp};

use crate::support::Holds;

#[test]
fn what_is_held_survives_a_restart() {
    let clock = FakeClock::at(Timestamp::from_secs(1_000));
    let builder = || MemoryStore::builder().clock(clock.clone());
    let limits =
        "a=10 per 1000000s; b=100 tokens per 1000000s bucket; c=5 tokens per 1000000s log; d=4 concurrent";
    let holds = Holds::new(builder().build(), limits).on_lapse(OnLapse::Refund);
    let tokens = |amount| [("tokens", amount)];
    for id in 0..4 {
        assert!(holds.hold("k", id, Amounts::of(&tokens(1))).decision.allowed);
    }
    let ended = holds.outcome("k", 2, HoldAction::Settle(Amounts::of(&tokens(3))));
    let left = holds.left("k", Amounts::of(&tokens(1)));
    let store = builder().restore(&holds.store.snapshot()).unwrap();
    assert_eq!(store.statistics().keys, holds.store.statistics().keys);
    let restored = Holds { store, plans: holds.plans.clone() };
    assert_eq!(restored.left("k", Amounts::of(&tokens(1))), left);
    assert_eq!(
        restored.outcome("k", 2, HoldAction::Cancel).standing.unwrap().decision,
        ended.standing.unwrap().decision
    );
    for holds in [&holds, &restored] {
        assert_eq!(holds.change("other", 0, HoldAction::Cancel), HoldState::Gone);
        assert_eq!(holds.change("k", 0, HoldAction::Cancel), HoldState::Cancelled);
    }
    let left = holds.left("k", Amounts::of(&tokens(1)));
    assert_eq!((restored.left("k", Amounts::of(&tokens(1))), left[3]), (left, 2));
    clock.advance(Nanos::from_secs(60));
    for holds in [&holds, &restored] {
        // Three tokens of one hold are spent, and the others have lapsed: that is given back.
        assert_eq!(holds.left("k", Amounts::of(&tokens(1))), [9, 97, 2, 4]);
    }
    // Plans that only a snapshot remembers are written again.
    let again = builder().restore(&restored.store.snapshot()).unwrap();
    assert_eq!(again.len(), restored.store.len());
    let cut = restored.store.snapshot();
    assert!((0..cut.len()).step_by(7).all(|end| builder().restore(&cut[..end]).is_err()));
}
