//! What is held cannot be hoarded: in any span, what was charged and not given back is at most what the rate gives, and what may be
//! held.

use proptest::prelude::*;
use ratekeeper::port::{HoldAction, HoldState};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Amounts, MemoryStore, Nanos, Timestamp};

use crate::holds::support::Holds;
use test_support::cases::config;

#[derive(Clone, Debug)]
enum Move {
    Hold { tokens: u64, lease: u64 },
    Cancel(prop::sample::Index),
    Settle { which: prop::sample::Index, percent: u64 },
    Extend(prop::sample::Index),
    Wait(u64),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        4 => (1..40u64, 1..200u64).prop_map(|(tokens, lease)| Move::Hold { tokens, lease }),
        2 => any::<prop::sample::Index>().prop_map(Move::Cancel),
        1 => (any::<prop::sample::Index>(), 0..=100u64).prop_map(|(which, percent)| Move::Settle { which, percent }),
        1 => any::<prop::sample::Index>().prop_map(Move::Extend),
        2 => (1..6_000_000_000u64).prop_map(Move::Wait),
    ];
    prop::collection::vec(one, 1..150)
}

/// One hold: when it was charged, how much, what was given back.
struct Charge {
    at: Timestamp,
    estimate: u64,
    back: u64,
    is_live: bool,
}

proptest! {
    #![proptest_config(config(200))]

    /// For 10 tokens a second with a burst of 40, whoever holds, cancels and holds again.
    #[test]
    fn nobody_gets_more_than_the_rate_and_what_may_be_held(
        moves in moves(),
        algorithm in prop::sample::select(vec!["", "bucket", "leaky"]),
        own in prop::option::of(50..200u64),
    ) {
        let (rate, burst) = (10_u64, 40_u64);
        let clock = FakeClock::at(Timestamp::from_secs(1_000));
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let flight = own.map_or(String::new(), |own| format!("; {own} tokens concurrent"));
        let holds = Holds::new(store, &format!("{rate} tokens/s burst {burst} {algorithm}{flight}"));
        let most = own.unwrap_or(burst);
        let mut charges: Vec<Charge> = Vec::new();
        let now = || ratekeeper::port::Clock::now(&clock);
        for step in moves {
            match step {
                Move::Hold { tokens, lease } => {
                    let amounts = [("tokens", tokens)];
                    let id = charges.len() as u128;
                    let held = holds.hold_for("k", id, Amounts::of(&amounts), Nanos::from_secs(lease));
                    if held.decision.allowed {
                        charges.push(Charge { at: now(), estimate: tokens, back: 0, is_live: true });
                    }
                }
                Move::Wait(nanos) => clock.advance(Nanos::from_nanos(nanos)),
                Move::Cancel(which) | Move::Extend(which) | Move::Settle { which, .. } if !charges.is_empty() => {
                    let id = which.index(charges.len());
                    let charge = &mut charges[id];
                    let spent = match step {
                        Move::Settle { percent, .. } => charge.estimate * percent / 100,
                        _ => 0,
                    };
                    let amounts = [("tokens", spent)];
                    let state = match step {
                        Move::Extend(_) => holds.change("k", id as u128, HoldAction::Extend(Nanos::from_secs(100))),
                        Move::Settle { .. } => holds.change("k", id as u128, HoldAction::Settle(Amounts::of(&amounts))),
                        _ => holds.change("k", id as u128, HoldAction::Cancel),
                    };
                    match state {
                        HoldState::Settled | HoldState::Cancelled if charge.is_live => {
                            charge.back = charge.estimate - spent;
                            charge.is_live = false;
                        }
                        HoldState::Gone => charge.is_live = false,
                        _ => {}
                    }
                }
                _ => {}
            }
            for first in 0..charges.len() {
                let mut sum = 0;
                for charge in &charges[first..] {
                    sum += charge.estimate - charge.back;
                    let span = u128::from(charge.at.since(charges[first].at).as_nanos());
                    let refilled = u64::try_from(u128::from(rate) * span / 1_000_000_000).unwrap() + 1;
                    prop_assert!(sum <= burst + refilled + most, "{sum} of {burst} + {refilled} + {most}");
                }
            }
        }
    }
}
