//! A snapshot contains what is held, and the answers of what has ended.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ratekeeper::port::{HoldAction, HoldState};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Amounts, MemoryStore, Nanos, OnLapse, Timestamp};

use crate::holds::support::Holds;
use test_support::cases::share;

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

/// More than is written under one lock: in slices, and answers in no order.
#[test]
fn thousands_of_holds_of_one_key_survive() {
    let clock = FakeClock::at(Timestamp::from_secs(1_000));
    let builder = || MemoryStore::builder().clock(clock.clone());
    let holds = Holds::new(builder().build(), "a=5000 per 1000000s; b=5000 concurrent");
    for id in 0..4_000 {
        clock.advance(Nanos::from_nanos(1));
        assert!(holds.hold("k", id, Amounts::UNSAID).decision.allowed);
    }
    for id in (0..4_000).step_by(3) {
        assert_eq!(holds.change("k", id, HoldAction::Settle(Amounts::UNSAID)), HoldState::Settled);
    }
    let mut store = builder().restore(&holds.store.snapshot()).unwrap();
    // And the next restart, though nobody has asked meanwhile.
    for _ in 0..2 {
        assert_eq!(store.live_hold_count(), holds.store.live_hold_count());
        assert_eq!(store.statistics().keys, holds.store.statistics().keys);
        store = builder().restore(&store.snapshot()).unwrap();
    }
    let restored = Holds { store, plans: holds.plans.clone() };
    assert_eq!(restored.left("k", Amounts::UNSAID), holds.left("k", Amounts::UNSAID));
    for id in 0..4_000 {
        let expected = if id % 3 == 0 { HoldState::Settled } else { HoldState::Cancelled };
        assert_eq!(restored.change("k", id, HoldAction::Cancel), expected, "{id}");
    }
}

/// A hold that was charged after the states were written must not be given back to them.
#[test]
fn a_snapshot_under_load_gives_nothing_back_that_was_not_paid() {
    /// Holds that were settled: what they were charged stays.
    const PAID: u64 = 5_000;
    let clock = FakeClock::at(Timestamp::from_secs(1_000));
    let builder = || MemoryStore::builder().max_keys(1_000_000).clock(clock.clone());
    let holds = Holds::new(builder().build(), "a=100000 per 10000000s; b=50000 concurrent");
    for id in 0..PAID {
        assert!(holds.hold("k", id.into(), Amounts::UNSAID).decision.allowed);
        holds.change("k", id.into(), HoldAction::Settle(Amounts::UNSAID));
    }
    let (is_done, next) = (AtomicBool::new(false), AtomicU64::new(PAID));
    let snapshots: Vec<Vec<u8>> = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut oldest = PAID;
            // What has ended is remembered: without an end of this, slow snapshots would make each other slower.
            while !is_done.load(Ordering::Relaxed) && next.load(Ordering::Relaxed) < PAID + 20_000 {
                for _ in 0..64 {
                    clock.advance(Nanos::from_nanos(1));
                    let id = next.fetch_add(1, Ordering::Relaxed);
                    assert!(holds.hold("k", id.into(), Amounts::UNSAID).decision.allowed);
                }
                // Some hundred are live at any time.
                while next.load(Ordering::Relaxed) - oldest > 256 {
                    holds.change("k", oldest.into(), HoldAction::Cancel);
                    oldest += 1;
                }
            }
        });
        let snapshots = (0..share(20)).map(|_| holds.store.snapshot()).collect();
        is_done.store(true, Ordering::Relaxed);
        snapshots
    });
    for snapshot in snapshots {
        let restored = Holds { store: builder().restore(&snapshot).unwrap(), plans: holds.plans.clone() };
        for hold in restored.store.live_holds() {
            assert_eq!(restored.change("k", hold.id.bits(), HoldAction::Cancel), HoldState::Cancelled);
        }
        let left = restored.left("k", Amounts::UNSAID);
        assert!(left[0] <= 100_000 - PAID, "{left:?}");
        assert_eq!(left[1], 50_000, "every hold was found");
    }
}

/// Takes holds from several threads, and a snapshot meanwhile, again and again. Each hold in it was paid for by a state in it.
/// The clock moves by so much before each of them: no lease ends meanwhile, however long it takes.
fn holds_are_paid_for(step: Nanos) {
    const LIMIT: u64 = 1_000_000;
    /// So many that they are written in slices, and no more than one key may have.
    const HOLDS: std::ops::Range<u64> = 20_000..60_000;
    let clock = FakeClock::at(Timestamp::from_secs(1_000));
    let builder = || MemoryStore::builder().max_keys(1_000_000).clock(clock.clone());
    for _ in 0..share(100) {
        let holds = Holds::new(builder().build(), "a=1000000 per 10000000s; b=60000 concurrent");
        let take = |id: u64| assert!(holds.hold("k", id.into(), Amounts::UNSAID).decision.allowed);
        (0..HOLDS.start).for_each(take);
        let (is_done, next) = (AtomicBool::new(false), AtomicU64::new(HOLDS.start));
        let snapshot = std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !is_done.load(Ordering::Relaxed) {
                        let id = next.fetch_add(1, Ordering::Relaxed);
                        if id >= HOLDS.end {
                            break;
                        }
                        clock.advance(step);
                        take(id);
                        std::thread::yield_now();
                    }
                });
            }
            let snapshot = holds.store.snapshot();
            is_done.store(true, Ordering::Relaxed);
            snapshot
        });
        let restored = Holds { store: builder().restore(&snapshot).unwrap(), plans: holds.plans.clone() };
        let paid = LIMIT - restored.left("k", Amounts::UNSAID)[0];
        assert_eq!(restored.store.live_hold_count() as u64, paid);
    }
}

/// Whoever waits for the lock while the states are copied has an older clock, and is charged at the latest instant that the
/// shard knows: the one at which the states were copied.
#[test]
fn every_hold_of_a_snapshot_under_load_was_paid_for() {
    holds_are_paid_for(Nanos::from_nanos(1));
}

#[test]
fn every_hold_was_paid_for_though_the_clock_stands_still() {
    holds_are_paid_for(Nanos::ZERO);
}
