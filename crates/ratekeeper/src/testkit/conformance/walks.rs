//! Random walks: every verb in any order, on two keys.

use super::bench::Bench;
use super::random::Random;
use super::suite_model::{SuiteModel, takes};
use crate::algorithm::Tenancy;
use crate::port::{Request, Standing};
use crate::{Charged, Cost, Key, Nanos, Plan, Rules, StoreErrorKind, Timestamp};

/// How much a request takes, and of which units.
#[derive(Clone, Debug)]
struct DrawnAmounts<'a> {
    cost: Cost,
    units: Vec<(&'a str, u64)>,
}

/// One of the two keys of a walk, and what it has been charged.
struct WalkedKey<'a> {
    key: String,
    model: SuiteModel,
    charges: Vec<(DrawnAmounts<'a>, Timestamp)>,
}

/// A random sequence of every verb on two keys gets the answers of the pure algorithms.
pub(super) async fn random_walk(bench: &Bench<'_>, rules: Rules<'_>, name: &str, seed: u64) {
    let keys = [format!("{name}/one"), format!("{name}/other \u{1F512} {{%}}")];
    let mut keys = keys.map(|key| WalkedKey { key, model: SuiteModel::of(rules), charges: Vec::new() });
    let mut random = Random::seeded(seed);
    for step in 0..bench.share_of(250) {
        let WalkedKey { key, model, charges } = &mut keys[random.below(2)];
        let key = Key::new(key.as_str()).expect("a key of the suite");
        let amounts = draw_amounts(rules, &mut random);
        let request = Request { key, rules, cost: amounts.cost, units: &amounts.units };
        let now = (bench.now)();
        let what = format!("{name}, step {step}, {amounts:?} at {}", now.as_nanos());
        match random.below(15) {
            0 => {
                let found = bench.store.peek(request).await.expect(&what);
                assert_eq!(found, model.peek(&request, now).decision, "peek: {what}");
            }
            // Given back at once; right after a reset nobody could tell whether it was charged before or after.
            1 if model.last_reset < now => {
                let expected = model.refund(&request, now, now);
                let refunded = bench.store.refund(request, Charged::NOW).await.expect(&what);
                assert_eq!(refunded, expected, "refund: {what}");
            }
            // Given back late, each charge once, and in any order.
            2..=3 if !charges.is_empty() => {
                let (amounts, charged_at) = charges.swap_remove(random.below(charges.len()));
                // At the very instant of a reset nobody can tell which was first.
                if charged_at == model.last_reset {
                    continue;
                }
                let charged = match random.below(2) {
                    0 => Charged::at(charged_at),
                    _ => Charged::ago(now.since(charged_at)),
                };
                let request = Request { cost: amounts.cost, units: &amounts.units, ..request };
                let expected = model.refund(&request, charged_at, now);
                let refunded = bench.store.refund(request, charged).await.expect(&what);
                assert_eq!(
                    refunded,
                    expected,
                    "refund of {amounts:?} from {}: {what}",
                    charged_at.as_nanos()
                );
            }
            4 if random.below(4) == 0 => {
                let expected = model.reset(now);
                let found = bench.store.reset(request).await.expect(&what);
                // What quotas of requests share may be whole for one of them only: who gave it back cannot tell.
                let is_shared_and_given_back = rules.tenancy() == Tenancy::Shared && found == 1;
                assert!(
                    found == expected || is_shared_and_given_back,
                    "reset: {what}: {found}, not {expected}"
                );
                // A rule that has nothing to forget (one in shadow that was not charged, or one that was given back more than was
                // taken) need not be noted as forgotten.
                if expected < rules.len() as u64 {
                    charges.clear();
                }
            }
            5 if request.check_up_to().is_ok() => {
                let most = Cost::new([0, 1, 2, 4, 7, 50, 1_000_000, u64::MAX][random.below(8)]);
                let expected = model.take_up_to(&request, most, now);
                let grant = bench.store.acquire_up_to(request, most).await.expect(&what);
                assert_eq!(grant, expected, "up to {most}: {what}");
                // What is granted may come back in two parts, of which each ages by itself.
                let part = random.next().checked_rem(grant.granted.get()).unwrap_or(0);
                for cost in [part, grant.granted.get() - part].map(Cost::new) {
                    if cost != Cost::ZERO {
                        charges.push((DrawnAmounts { cost, units: Vec::new() }, grant.at));
                    }
                }
            }
            6 if random.below(2) == 0 => match bench.store.debit(request).await {
                Ok(found) => {
                    same(&found, &model.debit(&request, now), &format!("debit: {what}"));
                    charges.push((amounts, now));
                }
                Err(error) => assert_eq!(error.kind(), StoreErrorKind::Unsupported, "debit: {what}: {error}"),
            },
            7 => {
                let found = bench.store.peek_each(request).await.expect(&what);
                same(&found, &model.peek(&request, now), &format!("peek of each: {what}"));
            }
            8..=10 => {
                let expected = model.charge(&request, now);
                let found = bench.store.acquire_each(request).await.expect(&what);
                same(&found, &expected, &format!("acquire of each: {what}"));
                if expected.decision.allowed && takes(&request) {
                    charges.push((amounts, now));
                }
            }
            _ => {
                let expected = model.charge(&request, now).decision;
                let found = bench.store.acquire(request).await.expect(&what);
                assert_eq!(found, expected, "acquire: {what}");
                if expected.allowed && takes(&request) {
                    charges.push((amounts, now));
                }
            }
        }
        if random.below(3) == 0 {
            let unit = bench.resolution.as_nanos();
            let longest = [unit * 1_000, 300_000_000, 7_000_000_000, 70_000_000_000][random.below(4)];
            let span = random.next() % longest;
            (bench.advance)(Nanos::from_nanos(span - span % unit));
        }
    }
}

/// Draws how much is taken: of requests, and of every other unit that a rule counts, unless the plan assumes it.
fn draw_amounts<'a>(rules: Rules<'a>, random: &mut Random) -> DrawnAmounts<'a> {
    let cost = Cost::new([1, 1, 1, 0, 2, 3, 5, 1_000_000][random.below(8)]);
    let mut units: Vec<(&str, u64)> = Vec::new();
    for plan in rules.plans() {
        for unit in plan.units().filter(|unit| !unit.is_requests()) {
            let is_named = units.iter().any(|(named, _)| *unit == *named);
            let is_left_out = is_assumed(rules, unit.as_str()) && random.below(3) == 0;
            if !is_named && !is_left_out {
                units.push((unit.as_str(), [0, 1, 4, 9, 25, 70, 1_000_000][random.below(7)]));
            }
        }
    }
    DrawnAmounts { cost, units }
}

/// Returns true if every plan that counts this unit says how much to assume.
fn is_assumed(rules: Rules<'_>, unit: &str) -> bool {
    let counts = |plan: &&Plan| plan.units().any(|counted| *counted == *unit);
    rules.plans().filter(counts).all(|plan| plan.assumed().iter().any(|(assumed, _)| *assumed == *unit))
}

/// A store that knows no better than the decision tells nothing of each rule.
fn same(found: &Standing, expected: &Standing, what: &str) {
    assert_eq!(found.decision, expected.decision, "{what}");
    assert_eq!(found.forgiven, expected.forgiven, "forgiven: {what}");
    if !found.each.is_empty() {
        assert_eq!(found.each, expected.each, "{what}");
    }
}
