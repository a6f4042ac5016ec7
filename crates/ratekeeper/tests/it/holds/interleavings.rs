//! A hold is ended once, whatever is done to it, in whatever order and however often.

use ratekeeper::port::{HoldAction, HoldState};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Amounts, MemoryStore, Nanos, OnLapse, Timestamp};

use crate::holds::support::Holds;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    Settle,
    Cancel,
    Extend,
    /// Time passes: more than the first lease, less than that of an extension.
    Wait,
}

/// All orders of these events.
fn orders(events: &[Event]) -> Vec<Vec<Event>> {
    if events.is_empty() {
        return vec![Vec::new()];
    }
    let firsts = 0..events.len();
    let orders = firsts.flat_map(|first| {
        let (mut rest, mut seen) = (events.to_vec(), &events[..first]);
        let event = rest.remove(first);
        // Two of a kind are one order.
        let is_new = !std::mem::take(&mut seen).contains(&event);
        let rest = if is_new { orders(&rest) } else { Vec::new() };
        rest.into_iter().map(move |order| [vec![event], order].concat())
    });
    orders.collect()
}

/// What is taken, spent and given back adds up after every order of two of everything: nothing is given back twice, nothing is
/// charged twice, and no place is lost.
#[test]
fn every_order_of_a_small_history_adds_up() {
    use Event::{Cancel, Extend, Settle, Wait};
    let all = orders(&[Settle, Settle, Cancel, Cancel, Extend, Wait, Wait]);
    assert_eq!(all.len(), 5_040 / 8);
    for on_lapse in [OnLapse::Keep, OnLapse::Refund] {
        let clock = FakeClock::at(Timestamp::from_secs(1_000));
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let holds =
            Holds::new(store, "9 per 1000000s; 100 tokens per 1000000s log; 2 concurrent").on_lapse(on_lapse);
        for (number, order) in all.iter().enumerate() {
            let key = format!("order {number}");
            let tokens = |amount| [("tokens", amount)];
            // Another hold stays, so that a place given back twice would show.
            assert!(
                holds.hold_for(&key, 7, Amounts::of(&tokens(10)), Nanos::from_secs(86_400)).decision.allowed
            );
            assert!(holds.hold(&key, 1, Amounts::of(&tokens(5))).decision.allowed);
            // What it was ended by, and what it has spent: tokens, requests.
            let (mut ended, mut spent, mut lease) = (None, (5, 1), 60);
            for event in order {
                let spends = tokens(8);
                let found = match event {
                    Wait => {
                        clock.advance(Nanos::from_secs(61));
                        lease = i64::max(lease - 61, 0);
                        if lease == 0 && ended.is_none() {
                            ended = Some(HoldState::Gone);
                            spent = if on_lapse == OnLapse::Keep { (5, 1) } else { (0, 0) };
                        }
                        continue;
                    }
                    Settle => holds.change(&key, 1, HoldAction::Settle(Amounts::of(&spends))),
                    Cancel => holds.change(&key, 1, HoldAction::Cancel),
                    Extend => holds.change(&key, 1, HoldAction::Extend(Nanos::from_secs(122))),
                };
                let expected = match (ended, event) {
                    (None, Extend) => {
                        lease = 122;
                        HoldState::Extended
                    }
                    (None, Settle) => {
                        (ended, spent) = (Some(HoldState::Settled), (8, 1));
                        HoldState::Settled
                    }
                    (None, _) => {
                        (ended, spent) = (Some(HoldState::Cancelled), (0, 0));
                        HoldState::Cancelled
                    }
                    (Some(_), Extend) => HoldState::Gone,
                    (Some(HoldState::Gone), _) => HoldState::Gone,
                    // Within the lease and a minute after.
                    (Some(state), _) => {
                        if found == HoldState::Gone && lease == 0 {
                            HoldState::Gone
                        } else {
                            state
                        }
                    }
                };
                assert_eq!(found, expected, "{on_lapse:?}, {event:?} of {order:?}");
            }
            let places = if ended.is_some() { 1 } else { 0 };
            let left = [8 - spent.1, 90 - spent.0, places];
            assert_eq!(holds.left(&key, Amounts::of(&tokens(1))), left, "{on_lapse:?}, {order:?}");
        }
        clock.advance(Nanos::from_secs(86_400));
        for number in 0..all.len() {
            assert_eq!(holds.left(&format!("order {number}"), Amounts::of(&[("tokens", 1)]))[2], 2);
        }
        assert!(holds.store.sweep() > 0);
    }
}
