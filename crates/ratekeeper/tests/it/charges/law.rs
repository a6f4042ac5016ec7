//! The store against the reference model: random plans, keys, equal keys, actions, forces and wholes, and a clock that moves both
//! ways.

use std::time::Duration;

use proptest::prelude::*;
use ratekeeper::port::{Charge, ChargeAction, ChargeForce, Judgment, Request, Store, Whole};
use ratekeeper::testkit::FakeClock;
use ratekeeper::testkit::model::{ChargeAnswer, ChargeModel, ModelAnswer};
use ratekeeper::{
    Algorithm, Anchor, Calendar, CalendarUnit, Cost, Decision, Key, MemoryStore, Name, Nanos, Plan, Quota,
    Rule, Rules, Timestamp, Zone,
};
use test_support::cases::config;

const KEYS: [&str; 4] = ["one", "two", "three", "four"];
const START: Timestamp = Timestamp::from_nanos(1_761_912_000_123_456_789);

/// One charge, by the numbers of its key and plan.
#[derive(Clone, Copy, Debug)]
struct Drawn {
    key: usize,
    plan: usize,
    cost: u64,
    action: ChargeAction,
    force: ChargeForce,
}

#[derive(Clone, Debug)]
struct Step {
    charges: Vec<Drawn>,
    whole: Whole,
    /// By how many nanoseconds the clock moves before it.
    moved: i64,
}

fn quota() -> impl Strategy<Value = Quota> {
    let algorithms = vec![
        Algorithm::Gcra,
        Algorithm::FIXED,
        Algorithm::FixedWindow(Anchor::Grid),
        Algorithm::FixedWindow(Anchor::Calendar(Calendar::new(CalendarUnit::Minute, Zone::UTC))),
        Algorithm::SlidingWindow,
        Algorithm::SlidingLog,
    ];
    let period = prop_oneof![Just(60_000_000_000), 50_u64..5_000_000_000];
    (prop::sample::select(algorithms), 1_u64..=9, 1_u64..=9, period, 0_u32..=2).prop_map(
        |(algorithm, count, burst, period, spare)| {
            let (burst, period) = match algorithm {
                Algorithm::Gcra => (burst, period),
                Algorithm::FixedWindow(Anchor::Calendar(_)) => (count, 60_000_000_000),
                _ => (count, period),
            };
            let bound = u32::try_from(count).unwrap() + spare;
            let quota = Quota::per(count, Duration::from_nanos(period)).burst(burst).algorithm(algorithm);
            quota.log_bound(bound).build().unwrap()
        },
    )
}

/// Plans of one to three rules, some in shadow; and each once more with other limits.
fn plans() -> impl Strategy<Value = Vec<Plan>> {
    let rule = (quota(), 1_u64..=9, any::<bool>());
    prop::collection::vec(prop::collection::vec(rule, 1..=3), 1..=3).prop_map(|drawn| {
        let plan = |index: usize, rules: &[(Quota, u64, bool)], changed: bool| {
            let rules = rules.iter().enumerate().map(|(rule, (quota, other, is_shadow))| {
                let count = if changed { *other } else { quota.count() };
                let burst = if quota.algorithm() == Algorithm::Gcra { quota.burst() } else { count };
                let period = Duration::from(quota.period());
                let bound = quota.log_bound().max(u32::try_from(count).unwrap());
                let quota = Quota::per(count, period).burst(burst).algorithm(quota.algorithm());
                let quota = quota.log_bound(bound).build().unwrap();
                let rule = Rule::new(Name::new(&format!("rule{rule}")).unwrap(), quota);
                if *is_shadow { rule.shadow() } else { rule }
            });
            Plan::new(Name::new(&format!("plan{index}")).unwrap(), rules).unwrap()
        };
        let all = drawn.iter().enumerate();
        all.flat_map(|(index, rules)| [plan(index, rules, false), plan(index, rules, true)]).collect()
    })
}

fn action() -> impl Strategy<Value = ChargeAction> {
    prop_oneof![
        3 => Just(ChargeAction::Count),
        4 => Just(ChargeAction::Ignore),
        1 => Just(ChargeAction::GiveBack),
    ]
}

fn force() -> impl Strategy<Value = ChargeForce> {
    prop_oneof![
        3 => Just(ChargeForce::Alone),
        2 => Just(ChargeForce::Together),
        1 => Just(ChargeForce::Never),
    ]
}

fn whole() -> impl Strategy<Value = Whole> {
    prop_oneof![4 => Just(Whole::Open), 1 => Just(Whole::Passes), 1 => Just(Whole::Refused)]
}

fn cost() -> impl Strategy<Value = u64> {
    prop_oneof![5 => Just(1_u64), 4 => 2_u64..=12, 2 => Just(0_u64), 1 => any::<u64>()]
}

fn steps(moves: impl Strategy<Value = i64>) -> impl Strategy<Value = Vec<Step>> {
    let charge = (0..KEYS.len(), 0_usize..6, cost(), action(), force())
        .prop_map(|(key, plan, cost, action, force)| Drawn { key, plan, cost, action, force });
    let step = (prop::collection::vec(charge, 1..6), whole(), moves)
        .prop_map(|(charges, whole, moved)| Step { charges, whole, moved });
    prop::collection::vec(step, 1..24)
}

fn moves() -> impl Strategy<Value = i64> {
    prop_oneof![4 => Just(0_i64), 2 => 0_i64..100, 2 => 0_i64..3_000_000_000, 1 => 0_i64..90_000_000_000]
}

fn charges<'a>(plans: &'a [Plan], drawn: &[Drawn]) -> Vec<Charge<'a>> {
    let charge = |drawn: &Drawn| {
        let (key, plan) = (Key::new(KEYS[drawn.key]).unwrap(), &plans[drawn.plan % plans.len()]);
        let request = Request::new(key, Rules::Plan(plan), Cost::new(drawn.cost));
        Charge { request, action: drawn.action, force: drawn.force }
    };
    drawn.iter().map(charge).collect()
}

/// Whether the store has answered as the model has.
fn same(
    charges: &[Charge<'_>],
    found: &Judgment,
    wanted: &(bool, Vec<ChargeAnswer>),
    now: Timestamp,
) -> Result<(), String> {
    let answer = |rule: &ModelAnswer| {
        let ModelAnswer { allowed, limit, remaining, retry_after, reset_after } = *rule;
        match allowed {
            true => Decision::allow(limit, remaining, reset_after),
            false => Decision::deny(limit, remaining, retry_after, reset_after),
        }
    };
    if found.passes != wanted.0 {
        return Err(format!("passes: {}, not {}", found.passes, wanted.0));
    }
    for (position, ((charge, found), wanted)) in charges.iter().zip(&found.each).zip(&wanted.1).enumerate() {
        let each: Vec<Decision> = wanted.each.iter().map(answer).collect();
        let shares: Vec<_> = charge.request.shares().collect();
        let binding = (0..).zip(&each).zip(&shares).filter(|(_, share)| share.shadow_of.is_none());
        let joined = binding.map(|((rule, each), _)| each.of_rule(rule)).reduce(Decision::join);
        let joined = joined.unwrap_or(Decision::allow(u64::MAX, u64::MAX, Nanos::ZERO));
        let joined = if wanted.is_charged { joined.charged(now) } else { joined };
        let rules = if shares.iter().any(|share| share.shadow_of.is_some()) { each } else { Vec::new() };
        if (found.decision, found.left_before, &found.rules) != (joined, wanted.left_before, &rules) {
            return Err(format!(
                "charge {position}: {found:#?}\nnot {joined:#?}, {}, {rules:#?}",
                wanted.left_before
            ));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(400))]

    /// Whatever is charged together, by itself or on top of its like, the store answers what the law's own words come to.
    #[test]
    fn the_store_judges_as_the_law_is_worded(plans in plans(), steps in steps(moves())) {
        let clock = FakeClock::at(START);
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let (mut model, mut now) = (ChargeModel::default(), START);
        for step in steps {
            let span = Nanos::from_nanos(step.moved.unsigned_abs());
            clock.advance(span);
            now = now + span;
            let charges = charges(&plans, &step.charges);
            let found = store.charge(&charges, step.whole).now().unwrap().unwrap();
            let wanted = model.charge(&charges, step.whole, now);
            if let Err(error) = same(&charges, &found, &wanted, now) {
                prop_assert!(false, "{step:#?}\n{error}");
            }
        }
    }

    /// So it does with a clock that steps back: for keys that are charged together it stands still then. A charge that is made
    /// with all the others keeps the time here.
    #[test]
    fn the_store_judges_as_the_law_is_worded_by_a_clock_that_steps_back(
        plans in plans(),
        steps in steps(prop_oneof![2 => moves(), 1 => -70_000_000_000_i64..0]),
    ) {
        let clock = FakeClock::at(START);
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let keeper = Plan::parse("time", "1000000/h fixed").unwrap();
        let (mut model, mut now, mut latest) = (ChargeModel::default(), START, Timestamp::MIN);
        for step in steps {
            now = match step.moved {
                back @ ..0 => now.saturating_sub(Nanos::from_nanos(back.unsigned_abs())),
                forward => now + Nanos::from_nanos(forward.unsigned_abs()),
            };
            clock.set(now);
            latest = latest.max(now);
            let mut charges = charges(&plans, &step.charges);
            let request = Request::new(Key::new("time").unwrap(), Rules::Plan(&keeper), Cost::ONE);
            charges.push(Charge { request, action: ChargeAction::Count, force: ChargeForce::Never });
            let found = store.charge(&charges, step.whole).now().unwrap().unwrap();
            let wanted = model.charge(&charges, step.whole, latest);
            if let Err(error) = same(&charges, &found, &wanted, latest) {
                prop_assert!(false, "{step:#?}\n{error}");
            }
        }
    }
}
