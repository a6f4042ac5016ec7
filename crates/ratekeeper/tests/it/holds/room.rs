//! What holds take, and what happens when there is no room for one.

use ratekeeper::port::{HoldAction, HoldId, HoldRequest, HoldState, Request, Store};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Amounts, Cost, Key, MemoryStore, Nanos, Quota, Reason, Rules, Timestamp};

use crate::holds::support::Holds;
use test_support::cases::is_thorough;

fn clock() -> FakeClock {
    FakeClock::at(Timestamp::from_secs(1_000))
}

/// A full store refuses new holds, and forgets none that is live; answers make way, the oldest first.
#[test]
fn a_full_store_refuses_holds_and_forgets_none() {
    let clock = clock();
    let store = MemoryStore::builder().max_keys(10).clock(clock.clone()).build();
    let holds = Holds::new(store, "20 concurrent");
    let hold = |id| holds.hold("k", id, Amounts::UNSAID).decision;
    assert!((0..10).all(|id| hold(id).allowed));
    assert_eq!((hold(10).reason, holds.store.len()), (Reason::StoreFull, 10));
    assert_eq!(holds.left("k", Amounts::UNSAID), [0], "a peek says what a hold would");
    for id in [3, 4] {
        assert_eq!(holds.change("k", id, HoldAction::Cancel), HoldState::Cancelled);
    }
    assert_eq!(
        holds.change("k", 3, HoldAction::Cancel),
        HoldState::Cancelled,
        "there is room for its answer"
    );
    assert!(hold(11).allowed);
    assert_eq!(holds.change("k", 3, HoldAction::Cancel), HoldState::Gone, "the oldest answer has made way");
    assert_eq!(holds.change("k", 4, HoldAction::Cancel), HoldState::Cancelled);
    // A new key of another kind may have the place of an answer, too, once it is looked for again.
    clock.advance(Nanos::from_millis(10));
    let quota: Quota = "1/h".parse().unwrap();
    let request = Request::new(Key::new("other").unwrap(), Rules::Quota(&quota), Cost::ONE);
    assert!(holds.store.acquire(request).now().unwrap().unwrap().allowed);
    assert_eq!(holds.change("k", 4, HoldAction::Cancel), HoldState::Gone);
    assert_eq!(hold(12).reason, Reason::StoreFull);
    for id in [0, 1, 2, 5, 6, 7, 8, 9, 11] {
        assert_eq!(holds.change("k", id, HoldAction::Extend(Nanos::from_secs(5))), HoldState::Extended);
    }
    // What has lapsed makes room.
    clock.advance(Nanos::from_secs(5));
    assert!(hold(13).allowed);
    assert_eq!(holds.store.statistics().refused, 2);
}

/// No key has more than 65,536 holds, whatever its plan says.
#[test]
fn a_key_has_so_many_holds_and_no_more() {
    let holds = Holds::new(MemoryStore::builder().clock(clock()).build(), "1000000 concurrent");
    let hold = |id| holds.hold("k", id, Amounts::UNSAID).decision;
    let most = HoldRequest::MOST_OF_A_KEY as u128;
    assert!((0..most).all(|id| hold(id).allowed));
    let denied = hold(most);
    assert_eq!((denied.allowed, denied.reason, denied.retry_after), (false, Reason::AtCapacity, None));
    assert!(holds.hold("other", 0, Amounts::UNSAID).decision.allowed);
    assert_eq!(holds.change("k", 77, HoldAction::Cancel), HoldState::Cancelled);
    assert!(hold(most).allowed);
}

/// Live holds take at most 96 bytes each, and give them back.
#[test]
fn a_live_hold_takes_96_bytes() {
    let holds_in_all = if is_thorough() { 1_000_000 } else { 125_000 };
    let clock = clock();
    let store = MemoryStore::builder().max_keys(2 * holds_in_all).clock(clock.clone()).build();
    let holds = Holds::new(store, "60000/m burst 2000000; 100000000 tokens/m; 5000 concurrent");
    let before = holds.store.statistics();
    for number in 0..holds_in_all {
        let key = format!("user:{}", number % 1_000);
        let id = (number as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        assert!(holds.hold(&key, id, Amounts::of(&[("tokens", 1_000)])).decision.allowed);
    }
    let full = holds.store.statistics();
    assert_eq!(full.keys, holds_in_all + 2_000, "a hold counts as one state");
    let each = (full.bytes - before.bytes) as f64 / holds_in_all as f64;
    assert!(each <= 96.0, "{each} bytes");
    clock.advance(Nanos::from_secs(3_600));
    assert_eq!(holds.store.sweep(), holds_in_all + 2_000);
    let after = holds.store.statistics();
    assert_eq!(after.keys, 0);
    // What is left are boxes for more than instants, one to a shard.
    assert!(after.bytes - before.bytes < 1 << 20, "{} bytes are left", after.bytes - before.bytes);
}

/// Kept keys are forgotten with what they hold, and a key that only holds is found.
#[test]
fn who_only_holds_is_forgotten_by_how_it_starts() {
    let store = MemoryStore::builder().keep_keys(true).clock(clock()).build();
    let holds = Holds::new(store, "2 concurrent");
    for key in ["gone/a", "gone/b", "here"] {
        assert!(holds.hold(key, 1, Amounts::UNSAID).decision.allowed);
    }
    assert_eq!(holds.change("gone/b", 1, HoldAction::Cancel), HoldState::Cancelled);
    holds.store.sweep();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let forgotten = runtime.block_on(holds.store.forget(b"gone/")).unwrap();
    assert_eq!((forgotten, holds.store.len()), (1, 1));
    for (key, left) in [("gone/a", 2), ("gone/b", 2), ("here", 1)] {
        assert_eq!(holds.left(key, Amounts::UNSAID), [left], "{key}");
    }
    assert_eq!(holds.change("gone/b", 1, HoldAction::Cancel), HoldState::Gone);
    assert_eq!(holds.change("here", 1, HoldAction::Cancel), HoldState::Cancelled);
}

/// An identifier that the key has in use is refused, live or ended; another key may have it.
#[test]
fn an_id_is_used_once() {
    let holds = Holds::new(MemoryStore::builder().clock(clock()).build(), "9 per 1000000s; 4 concurrent");
    assert!(holds.hold("k", 1, Amounts::UNSAID).decision.allowed);
    let again = || {
        let (key, id, lease) = (Key::new("k").unwrap(), HoldId::from_bits(1), HoldRequest::DEFAULT_LEASE);
        let hold = HoldRequest { key, plans: &holds.plans, amounts: Amounts::UNSAID, id, lease };
        holds.store.hold(hold).now().unwrap().unwrap_err().to_string()
    };
    assert!(again().starts_with("id: 00000000000000000000000000000001; the key has"), "{}", again());
    assert_eq!(holds.left("k", Amounts::UNSAID), [8, 3]);
    assert_eq!(holds.change("k", 1, HoldAction::Cancel), HoldState::Cancelled);
    assert!(again().contains("choose another one"));
    assert_eq!(holds.left("k", Amounts::UNSAID), [9, 4]);
    assert!(holds.hold("other", 1, Amounts::UNSAID).decision.allowed);
}

/// However many a key has, those that end first are listed.
#[test]
fn few_of_many_holds_are_listed() {
    let clock = clock();
    let holds =
        Holds::new(MemoryStore::builder().clock(clock.clone()).build(), "a=9000/day; 9000 concurrent");
    for id in 0..5_000 {
        // Every other of another key, and the longest leases first.
        let (key, lease) = (["k", "other"][usize::from(id % 2 == 1)], Nanos::from_secs(10_000 - id));
        assert!(holds.hold_for(key, id.into(), Amounts::UNSAID, lease).decision.allowed);
    }
    assert_eq!(holds.change("k", 4_998, HoldAction::Cancel), HoldState::Cancelled);
    let listed = |most| holds.store.live_holds_of(Key::new("k").unwrap(), most);
    let ids: Vec<u128> = listed(3).iter().map(|hold| hold.id.bits()).collect();
    assert_eq!(ids, [4_996, 4_994, 4_992]);
    assert_eq!(listed(1)[0].estimates, [Some(1), Some(1)]);
    assert_eq!((listed(10_000).len(), listed(0).len()), (2_499, 0));
    assert_eq!(holds.store.live_hold_count(), 4_999);
    clock.advance(Nanos::from_secs(5_004));
    assert_eq!(listed(1)[0].id.bits(), 4_994, "the lease of another has ended");
}
