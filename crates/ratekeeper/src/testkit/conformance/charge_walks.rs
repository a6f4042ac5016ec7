//! Random walks with charges of several keys: every action, force and whole, in any order.

use super::bench::Bench;
use super::random::Random;
use super::suite_charges::SuiteCharges;
use crate::port::{Charge, ChargeAction, ChargeForce, Request, Whole};
use crate::{Amounts, Cost, Key, Nanos, Rules};

/// One charge that was drawn: of which key, under which rules, how much.
#[derive(Clone, Debug)]
struct DrawnCharge<'a> {
    key: usize,
    rules: Rules<'a>,
    cost: u64,
    units: Vec<(&'a str, u64)>,
    action: ChargeAction,
    force: ChargeForce,
}

/// A random sequence of charges gets the answers of the law.
pub(super) async fn charge_walk(bench: &Bench<'_>, rules: &[Rules<'_>], name: &str, seed: u64) {
    let keys: Vec<String> = (0..10).map(|key| format!("{name}/{key}")).collect();
    let (mut model, mut random) = (SuiteCharges::default(), Random::seeded(seed));
    let unit = bench.resolution.as_nanos();
    for step in 0..bench.share_of(200) {
        let drawn = draw(bench, rules, &mut random);
        let whole = match random.below(6) {
            0 => Whole::Passes,
            1 => Whole::Refused,
            _ => Whole::Open,
        };
        let charges: Vec<Charge<'_>> = drawn
            .iter()
            .map(|drawn| {
                let amounts = Amounts::new(drawn.cost, &drawn.units);
                let key = Key::new(keys[drawn.key].as_str()).expect("a key of the suite");
                let request = Request::of(key, drawn.rules, amounts);
                Charge { request, action: drawn.action, force: drawn.force }
            })
            .collect();
        let now = (bench.now)();
        // Long, and told only if something is wrong.
        let what = || format!("{name}, seed {seed}, step {step} at {}: {whole:?} {drawn:#?}", now.as_nanos());
        let expected = model.charge(&charges, whole, now);
        let charged = bench.store.charge(&charges, whole).await;
        let found = charged.unwrap_or_else(|error| panic!("{error}: {}", what()));
        assert_eq!(found, expected, "{}", what());
        if random.below(20) == 0 {
            // So that what was given back before the reset cannot be told from what was after.
            (bench.advance)(bench.resolution);
            let request = charges[0].request;
            model.reset(&request);
            bench.store.reset(request).await.unwrap_or_else(|error| panic!("{error}: {}", what()));
            (bench.advance)(bench.resolution);
        }
        if random.below(3) == 0 {
            let longest = [unit * 1_000, 300_000_000, 7_000_000_000, 70_000_000_000][random.below(4)];
            let span = random.next() % longest;
            (bench.advance)(Nanos::from_nanos(span - span % unit));
        }
    }
    // A look changes nothing, and tells what is there.
    let now = (bench.now)();
    for (key, rules) in keys.iter().flat_map(|key| rules.iter().map(move |rules| (key, *rules))) {
        let units: Vec<(&str, u64)> = named(rules).map(|unit| (unit, 0)).collect();
        let key = Key::new(key.as_str()).expect("a key of the suite");
        let request = Request { key, rules, cost: Cost::ZERO, units: &units };
        let look = [Charge { request, action: ChargeAction::Count, force: ChargeForce::Alone }];
        let expected = model.charge(&look, Whole::Open, now);
        assert_eq!(
            bench.store.charge(&look, Whole::Open).await.expect(name),
            expected,
            "{name}: the last look"
        );
    }
}

fn draw<'a>(bench: &Bench<'_>, rules: &[Rules<'a>], random: &mut Random) -> Vec<DrawnCharge<'a>> {
    let most = bench.most_charges.clamp(1, 10);
    let count = [1, 1, 2, 2, 3, 4, 5, 10][random.below(8)].min(most);
    // Few keys, so that they are asked for again, unless each is to be another.
    let mut keys: Vec<usize> = (0..10).collect();
    let mut drawn: Vec<DrawnCharge<'a>> = Vec::with_capacity(count);
    for _ in 0..count {
        let key = match bench.equal_keys {
            true => random.below(4),
            false => {
                let among = keys.len().min(most.max(4));
                keys.remove(random.below(among))
            }
        };
        let rules = rules[random.below(rules.len())];
        let cost = [1, 1, 1, 0, 2, 3, 5, 12, 1_000_000][random.below(9)];
        let units =
            named(rules).map(|unit| (unit, [0, 1, 4, 9, 25, 70, 1_000_000][random.below(7)])).collect();
        let action = match random.below(7) {
            0 => ChargeAction::GiveBack,
            1..=3 => ChargeAction::Count,
            _ => ChargeAction::Ignore,
        };
        let force = match random.below(6) {
            0 => ChargeForce::Never,
            1..=2 => ChargeForce::Together,
            _ => ChargeForce::Alone,
        };
        drawn.push(DrawnCharge { key, rules, cost, units, action, force });
    }
    drawn
}

/// Returns the units that a request under these rules names, beside requests.
fn named<'a>(rules: Rules<'a>) -> impl Iterator<Item = &'a str> {
    let units = rules.plans().flat_map(|plan| plan.units()).filter(|unit| !unit.is_requests());
    let mut names: Vec<&str> = units.map(|unit| unit.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter()
}
