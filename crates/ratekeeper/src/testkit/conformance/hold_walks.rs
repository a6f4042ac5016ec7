//! Random walks with holds: made, settled, cancelled, prolonged, repeated and forgotten, in any order.

use std::sync::Arc;

use super::bench::Bench;
use super::hold_model::HoldModel;
use super::random::Random;
use crate::port::{HoldAction, HoldChange, HoldId, HoldRequest, Plans, Request};
use crate::{Amounts, Key, Nanos, Plan, Rules};

/// The plans of a walk, by their names.
#[derive(Debug)]
pub(super) struct PlansOf<'a>(pub(super) &'a [Arc<Plan>]);

impl Plans for PlansOf<'_> {
    fn find(&self, name: &str) -> Option<Arc<Plan>> {
        self.0.iter().find(|plan| *plan.name() == name).cloned()
    }
}

/// A random sequence of holds and what becomes of them gets the answers of a list of holds.
pub(super) async fn hold_walk(bench: &Bench<'_>, plans: &[Arc<Plan>], name: &str, seed: u64) {
    let (key, known) = (Key::new(name).expect("a key of the suite"), PlansOf(plans));
    let (mut model, mut random) = (HoldModel::new(plans), Random::seeded(seed));
    let counts_tokens = plans.iter().any(|plan| plan.units().any(|unit| unit == "tokens"));
    let is_taken_by_holds = plans.iter().any(|plan| plan.has_places());
    let unit = bench.resolution.as_nanos();
    let mut ids: Vec<HoldId> = Vec::new();
    for step in 0..bench.share_of(300) {
        let now = (bench.now)();
        let what = format!("{name}, seed {seed}, step {step} at {}", now.as_nanos());
        let tokens = [("tokens", [1, 0, 5, 17, 40, 200][random.below(6)])];
        let units = if counts_tokens { &tokens[..] } else { &[] };
        let amounts = match random.below(4) {
            0 => Amounts::new([0, 2, 3][random.below(3)], units),
            _ => Amounts::of(units),
        };
        let request = Request::of(key, Rules::Plans(plans), amounts);
        let span = [1_000_000, 20_000_000, 3_000_000_000, 61_000_000_000][random.below(4)];
        let lease = Nanos::from_nanos((1_000_000 + random.next() % span).div_ceil(unit) * unit);
        // One of the latest, or one that never was.
        let id = match ids.len() {
            0 => HoldId::from_bits(u128::from(random.next())),
            len => ids[len - 1 - random.below(len.min(6))],
        };
        let action = match random.below(8) {
            0..=2 => HoldAction::Settle(amounts),
            3 => HoldAction::Settle(Amounts::UNSAID),
            4..=5 => HoldAction::Cancel,
            _ => HoldAction::Extend(lease),
        };
        match random.below(10) {
            0 => {
                let expected = model.peek(request, now);
                if is_taken_by_holds {
                    let found = bench.store.peek_each(request).await.expect(&what);
                    assert_eq!(found, expected, "peek of {amounts:?}: {what}");
                }
            }
            1 if !is_taken_by_holds => {
                model.debit(request, now);
                bench.store.debit(request).await.expect(&what);
            }
            2 if random.below(6) == 0 => {
                model.reset(now);
                bench.store.reset(request).await.expect(&what);
            }
            3..=5 => {
                let id = HoldId::from_bits(u128::from(random.next()) << 64 | u128::from(random.next()));
                let expected = model.hold(request, id, lease, now);
                let hold = HoldRequest { key, plans, amounts, id, lease };
                let found = bench.store.hold(hold).await.expect(&what);
                assert_eq!(found, expected, "hold of {amounts:?} for {lease:?}: {what}");
                if found.decision.allowed {
                    ids.push(id);
                }
            }
            _ => {
                let expected = model.change(id, action, now);
                let change = HoldChange { key, id, action, plans: &known };
                let found = bench.store.change_hold(change).await.expect(&what);
                assert_eq!(found, expected, "{action:?}: {what}");
            }
        }
        if random.below(3) == 0 {
            let longest =
                [unit * 1_000, 3_000_000, 300_000_000, 7_000_000_000, 40_000_000_000][random.below(5)];
            let span = random.next() % longest;
            (bench.advance)(Nanos::from_nanos(span - span % unit));
        }
    }
    // In the end every place is free again.
    let now = (bench.now)();
    for id in model.live() {
        let expected = model.change(id, HoldAction::Cancel, now);
        let change = HoldChange { key, id, action: HoldAction::Cancel, plans: &known };
        assert_eq!(bench.store.change_hold(change).await.expect(name), expected, "{name}: the last cancels");
    }
}
