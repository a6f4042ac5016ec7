//! Charges that are judged together: scripts against the engine's functions, and many calls against one.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use ratekeeper::algorithm::Tenancy;
use ratekeeper::algorithm::composite::Asked;
use ratekeeper::port::{Charge, ChargeAction, ChargeForce, Judgment, Request, Store, Whole};
use ratekeeper::state::shared_name;
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Algorithm, Key, Name, Plan, Quota, Rule, Rules, StoreErrorKind, Timestamp};
use redis::Value;
use tokio::runtime::Runtime;

use super::draw::{self, DrawnCost, LAST_MICROS};
use super::lua::{Keyspace, LuaServer};
use super::model::{ModelCharge, StoreModel};
use super::shapes::{UsualOnly, link, server_store};
use super::walks::{CaseCount, runtime, settings};
use crate::encoding::Encoding;
use crate::error::RedisError;
use crate::link::Deadline;
use crate::script::{Script, ScriptCall, ScriptLibrary, ScriptTime};
use crate::scripted::{RunScript, ScriptedStore};
use test_support::cases::is_thorough;
use test_support::redis::server::Server;

/// The number of walks in Lua with charges of different keys, for each encoding.
const WALKS: CaseCount = CaseCount { ordinary: 20, thorough: 200 };

/// The same with charges that take several calls.
const WALKS_OF_SEVERAL_CALLS: CaseCount = CaseCount { ordinary: 10, thorough: 60 };

/// The number of walks on each server, for each encoding.
const SERVER_WALKS: CaseCount = CaseCount { ordinary: 3, thorough: 40 };

/// What one charge is drawn as.
#[derive(Clone, Debug)]
struct ChargeDraw {
    key: usize,
    /// Which of the plans, or, beyond them, which rule's quota the request brings.
    plan: usize,
    cost: DrawnCost,
    units: DrawnCost,
    action: ChargeAction,
    force: ChargeForce,
}

/// What happens on a walk.
#[derive(Clone, Debug)]
enum ChargeStep {
    Judge(Vec<ChargeDraw>, Whole),
    /// So many microseconds, or sixteenths of the longest period, go by.
    Go(i64, i64),
    Reset(usize, usize),
}

/// What a walk charges: plans, each with rules, of which some are in shadow or count something else.
type DrawnPlan = (Vec<(Quota, Quota)>, draw::DrawnSides);
type DrawnPlans = Vec<DrawnPlan>;

fn charge(keys: usize, plans: usize) -> impl Strategy<Value = ChargeDraw> {
    let action = prop_oneof![
        4 => Just(ChargeAction::Count),
        4 => Just(ChargeAction::Ignore),
        1 => Just(ChargeAction::GiveBack),
    ];
    let force = prop_oneof![
        3 => Just(ChargeForce::Alone),
        3 => Just(ChargeForce::Together),
        2 => Just(ChargeForce::Never),
    ];
    (0..keys, 0..=plans, draw::share(), draw::share(), action, force).prop_map(
        |(key, plan, cost, units, action, force)| ChargeDraw { key, plan, cost, units, action, force },
    )
}

fn step(keys: usize, most: usize, back: i64) -> impl Strategy<Value = ChargeStep> {
    let whole = prop_oneof![6 => Just(Whole::Open), 1 => Just(Whole::Passes), 1 => Just(Whole::Refused)];
    prop_oneof![
        6 => (prop::collection::vec(charge(keys, 3), 1..=most), whole)
            .prop_map(|(charges, whole)| ChargeStep::Judge(charges, whole)),
        3 => (0_i64..3, back..=20).prop_map(|(micros, parts)| ChargeStep::Go(micros, parts)),
        1 => (0..keys, 0_usize..3).prop_map(|(key, plan)| ChargeStep::Reset(key, plan)),
    ]
}

fn plans(algorithms: impl Fn(Algorithm) -> bool + Clone + 'static) -> impl Strategy<Value = DrawnPlans> {
    let fits = move |rules: &Vec<(Quota, Quota)>| rules.iter().all(|rule| algorithms(rule.0.algorithm()));
    let rules = draw::rules().prop_filter("algorithms", fits);
    prop::collection::vec((rules, draw::sides()), 3)
}

/// What the charges of a walk are held to.
struct ChargedPlans {
    plans: Vec<Plan>,
    quota: Quota,
}

impl ChargedPlans {
    fn new(drawn: &DrawnPlans) -> Self {
        let plan = |(index, (rules, sides)): (usize, &DrawnPlan)| {
            let rules = rules.iter().enumerate().map(|(number, (quota, _))| {
                let rule = Rule::new(format!("r{number}").parse().unwrap(), *quota);
                let rule = match number % 2 == 1 && sides.units {
                    true => rule.counting("u1".parse().unwrap()),
                    false => rule,
                };
                if sides.shadow >> number & 1 == 1 { rule.shadow() } else { rule }
            });
            Plan::new(format!("p{index}").parse().unwrap(), rules).unwrap()
        };
        let quota = drawn[0].0[0].1;
        ChargedPlans { plans: drawn.iter().enumerate().map(plan).collect(), quota }
    }

    fn rules(&self, plan: usize) -> Rules<'_> {
        self.plans.get(plan).map_or(Rules::Quota(&self.quota), Rules::Plan)
    }

    /// Returns true if a charge may come to the bound of a debt.
    fn is_bounded(&self, drawn: &ChargeDraw) -> bool {
        let is_large = |cost| matches!(cost, DrawnCost::Units(units) if units > 1 << 60);
        let quotas = self.named(drawn.plan).1;
        is_large(drawn.cost)
            || is_large(drawn.units)
            || quotas.iter().any(|(_, quota)| quota.algorithm() == Algorithm::Gcra || quota.burst() > 1 << 60)
    }

    fn named(&self, plan: usize) -> (Tenancy, Vec<(Name, Quota)>) {
        match self.plans.get(plan) {
            Some(plan) => {
                let rules = plan.rules().iter().map(|rule| (rule.name().clone(), *rule.quota()));
                (Tenancy::Own, rules.collect())
            }
            None => (Tenancy::Shared, vec![(shared_name(&self.quota).unwrap(), self.quota)]),
        }
    }
}

/// The states of all keys, by the key and the plan.
struct KeyModels<'p> {
    encoding: Encoding,
    plans: &'p ChargedPlans,
    states: BTreeMap<(usize, usize), StoreModel>,
}

impl KeyModels<'_> {
    fn of(&mut self, key: usize, plan: usize) -> &mut StoreModel {
        let (encoding, plans) = (self.encoding, self.plans);
        self.states.entry((key, plan)).or_insert_with(|| {
            let (tenancy, rules) = plans.named(plan);
            StoreModel::new(encoding, tenancy, rules)
        })
    }

    /// The law, word by word: first as if the whole passed, and then as it does.
    fn judge(&mut self, charges: &[(ChargeDraw, Vec<Asked>)], whole: Whole, now: Timestamp) -> Judgment {
        let as_they_were = self.states.clone();
        let mut over = Vec::new();
        for (drawn, asked) in charges {
            let charge = ModelCharge { asked, action: drawn.action, passes: true, over: None };
            over.push(self.of(drawn.key, drawn.plan).charge(charge, now).1);
        }
        let passes = whole.passes(charges.iter().zip(&over).map(|((drawn, asked), rules)| {
            let binding = asked.iter().zip(rules).filter(|(asked, _)| asked.shadow_of.is_none());
            (drawn.force, binding.into_iter().any(|(_, is_over)| *is_over))
        }));
        self.states = as_they_were;
        let each = charges.iter().zip(&over).map(|((drawn, asked), over)| {
            let charge = ModelCharge { asked, action: drawn.action, passes, over: Some(over) };
            self.of(drawn.key, drawn.plan).charge(charge, now).0
        });
        Judgment { passes, each: each.collect() }
    }
}

/// Walks with a store and the model side by side.
fn walk(
    store: &impl Store,
    runtime: &Runtime,
    encoding: Encoding,
    set_time: &dyn Fn(Timestamp),
    drawn: &(DrawnPlans, Timestamp, Vec<ChargeStep>),
    is_apart: bool,
) -> Result<(), TestCaseError> {
    let (drawn, start, steps) = drawn;
    let (plans, mut now) = (ChargedPlans::new(drawn), *start);
    let mut model = KeyModels { encoding, plans: &plans, states: BTreeMap::new() };
    let longest = drawn.iter().flat_map(|plan| &plan.0).map(|rule| rule.0.period().as_nanos()).max();
    let part = longest.unwrap_or(0) / 16_000;
    for (number, step) in steps.iter().enumerate() {
        set_time(now);
        match step {
            ChargeStep::Go(micros, parts) => {
                let by = i128::from(*parts) * i128::from(part) + i128::from(*micros);
                let at = i128::from(now.as_nanos() / 1_000) + by;
                let at = i64::try_from(at.clamp(0, LAST_MICROS.into())).unwrap();
                now = Timestamp::from_nanos(at * 1_000);
            }
            ChargeStep::Reset(key, plan) => {
                let name = format!("k{key}");
                let request = Request::new(Key::new(&name).unwrap(), plans.rules(*plan), 0.into());
                runtime.block_on(store.reset(request)).unwrap();
                model.of(*key, *plan).reset(now);
                // What is charged at this very instant would be taken for charged before.
                now = Timestamp::from_nanos((now.as_nanos() + 1_000).min(LAST_MICROS * 1_000));
            }
            ChargeStep::Judge(drawn, whole) => {
                let mut drawn = drawn.clone();
                let mut seen: Vec<(usize, usize, ChargeAction)> = Vec::new();
                drawn.retain(|one| {
                    let twins = seen.iter().filter(|(key, plan, _)| (*key, *plan) == (one.key, one.plan));
                    let has_ignored = twins.clone().any(|(.., action)| *action == ChargeAction::Ignore);
                    let is_kept = match is_apart {
                        true => twins.count() == 0,
                        // A debt is bounded. What is taken and given back again may have kept some of it out.
                        false => one.action != ChargeAction::Count || !has_ignored || !plans.is_bounded(one),
                    };
                    seen.push((one.key, one.plan, one.action));
                    is_kept
                });
                let names: Vec<String> = drawn.iter().map(|one| format!("k{}", one.key)).collect();
                let amounts: Vec<(u64, Vec<(&str, u64)>)> = drawn
                    .iter()
                    .map(|one| {
                        let rules = plans.rules(one.plan);
                        let burst = plans.named(one.plan).1.iter().map(|rule| rule.1.burst()).min().unwrap();
                        let counts = rules.plans().flat_map(Plan::units).any(|unit| unit == "u1");
                        let units = one.units.of(burst).min(Request::MOST);
                        (one.cost.of(burst), if counts { vec![("u1", units)] } else { Vec::new() })
                    })
                    .collect();
                let charges: Vec<Charge<'_>> = drawn
                    .iter()
                    .zip(&names)
                    .zip(&amounts)
                    .map(|((one, name), (cost, units))| {
                        let key = Key::new(name).unwrap();
                        let request =
                            Request { units, ..Request::new(key, plans.rules(one.plan), (*cost).into()) };
                        Charge { request, action: one.action, force: one.force }
                    })
                    .collect();
                let asked = drawn.iter().zip(&charges).map(|(one, charge)| {
                    let shares = charge.request.shares();
                    let asked = shares.map(|share| Asked { cost: share.cost, shadow_of: share.shadow_of });
                    (one.clone(), asked.collect())
                });
                let asked: Vec<(ChargeDraw, Vec<Asked>)> = asked.collect();
                let expected = model.judge(&asked, *whole, now);
                let found = runtime.block_on(store.charge(&charges, *whole));
                let found = found.map_err(|error| TestCaseError::fail(format!("step {number}: {error}")))?;
                for (place, (found, expected)) in found.each.iter().zip(&expected.each).enumerate() {
                    prop_assert_eq!(
                        found,
                        expected,
                        "step {}, charge {}: {:?}",
                        number,
                        place,
                        charges[place]
                    );
                }
                prop_assert_eq!(&found, &expected, "step {}: {:?}", number, charges);
            }
        }
    }
    Ok(())
}

/// A quota of every kind of rule, which two charges of one use up.
const EVERY_KIND: [&str; 8] = [
    "2/h",
    "2/h bucket",
    "2/h leaky",
    "2/h fixed",
    "2/h fixed grid",
    "2/day fixed calendar",
    "2/h sliding",
    "2/h log",
];

/// Every action with every force in every whole, alone and beside a charge that another key cannot have; on a key that is
/// fresh, charged, spent and partly refilled. So no kind, action, force or whole depends on what is drawn.
fn every_charge(kind: &str) -> (DrawnPlans, Timestamp, Vec<ChargeStep>) {
    let quota: Quota = kind.parse().unwrap();
    let sides = |shadow| draw::DrawnSides { units: false, shadow };
    let plans = vec![
        (vec![(quota, quota)], sides(0)),
        // The first rule is in shadow, the second binds.
        (vec![(quota, quota); 2], sides(0b01)),
        (vec![(quota, quota)], sides(0)),
    ];
    let mut steps = Vec::new();
    for whole in [Whole::Open, Whole::Passes, Whole::Refused] {
        for force in [ChargeForce::Alone, ChargeForce::Together, ChargeForce::Never] {
            for action in [ChargeAction::Ignore, ChargeAction::Count, ChargeAction::GiveBack] {
                let charge = |key, plan, cost| ChargeDraw {
                    key,
                    plan,
                    cost: DrawnCost::Units(cost),
                    units: DrawnCost::Units(0),
                    action,
                    force,
                };
                for plan in 0..=3 {
                    steps.push(ChargeStep::Judge(vec![charge(0, plan, 1)], whole));
                }
                let never = ChargeDraw { action: ChargeAction::Ignore, ..charge(1, 0, 3) };
                steps.push(ChargeStep::Judge(vec![charge(0, 0, 1), never], whole));
            }
        }
        steps.extend([ChargeStep::Go(1, 4), ChargeStep::Reset(0, 1)]);
    }
    (plans, Timestamp::from_secs(1_761_912_000), steps)
}

/// Charges of different keys, at most as many as one script judges.
#[test]
fn scripts_judge_as_the_engine_does() {
    for encoding in [Encoding::Ascii, Encoding::Binary] {
        let (engine, runtime) = (Arc::new(LuaServer::new()), runtime());
        let library = ScriptLibrary::new(ScriptTime::Server);
        let store = ScriptedStore::new(Arc::clone(&engine), library, settings(encoding));
        let steps = prop::collection::vec(step(4, 4, -3), 1..16);
        let strategy = (plans(|_| true), draw::instant(), steps);
        let judge = |drawn| {
            *engine.keyspace.lock().unwrap() = Keyspace::default();
            let set_time = |now| engine.keyspace.lock().unwrap().now = now;
            walk(&store, &runtime, encoding, &set_time, &drawn, true)
        };
        for kind in EVERY_KIND {
            if let Err(error) = judge(every_charge(kind)) {
                panic!("{encoding:?}, {kind}: {error}");
            }
        }
        WALKS.check(format_args!("{encoding:?}"), &strategy, judge);
    }
}

/// A Lua whose keys lie in three slots.
struct Sharded(Arc<LuaServer>);

impl RunScript for Sharded {
    async fn run(&self, script: &Script, call: &ScriptCall) -> Result<Value, RedisError> {
        let slots: Vec<usize> = call.parts().take(call.keys()).map(|key| self.slot(key)).collect();
        assert!(slots.iter().all(|slot| *slot == slots[0]), "CROSSSLOT");
        self.0.run(script, call).await
    }

    fn slot(&self, key: &[u8]) -> usize {
        crate::link::slot_of(key) % 3
    }
}

/// Charges of equal keys, of keys in several slots, and more than one script judges: what several calls come to is what
/// one would. Not with buckets: what is taken of a double and given back may differ in its last digit. Nor with rules in
/// shadow, which are told as their own call found them.
#[test]
fn several_calls_judge_as_one_does() {
    let is_whole = |algorithm| !matches!(algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket);
    for encoding in [Encoding::Ascii, Encoding::Binary] {
        let (engine, runtime) = (Arc::new(LuaServer::new()), runtime());
        let library = ScriptLibrary::new(ScriptTime::Server);
        let store = ScriptedStore::new(Sharded(Arc::clone(&engine)), library, settings(encoding));
        let steps = prop::collection::vec(step(6, 14, 0), 1..12);
        let binding = plans(is_whole).prop_map(|mut plans| {
            plans.iter_mut().for_each(|plan| plan.1.shadow = 0);
            plans
        });
        let strategy = (binding, draw::instant(), steps);
        WALKS_OF_SEVERAL_CALLS.check(format_args!("{encoding:?}"), &strategy, |drawn| {
            *engine.keyspace.lock().unwrap() = Keyspace::default();
            let set_time = |now| engine.keyspace.lock().unwrap().now = now;
            walk(&store, &runtime, encoding, &set_time, &drawn, false)
        });
    }
}

/// What a key that is charged more than once in a whole that is refused is told, was judged without what was given back in
/// between: `4 fixed`, and ignore 2, give back 1, ignore 3 was over.
#[test]
fn what_is_given_back_between_two_charges_counts() {
    use ChargeAction::{Count, GiveBack, Ignore};
    let runs: [&[(ChargeAction, u64)]; 5] = [
        &[(Ignore, 2), (GiveBack, 1), (Ignore, 3)],
        &[(Ignore, 4), (GiveBack, 4), (Ignore, 1)],
        &[(Ignore, 3), (Count, 2), (GiveBack, 4), (Ignore, 3), (Ignore, 1)],
        &[(Count, 3), (Ignore, 1), (GiveBack, 2), (Count, 2), (Ignore, 1), (Count, 0)],
        &[(Ignore, 5), (Ignore, 4), (GiveBack, 9), (Count, 4), (Ignore, 0)],
    ];
    let runtime = runtime();
    for encoding in [Encoding::Ascii, Encoding::Binary] {
        for text in ["4/h", "4/h fixed", "4/h fixed grid", "4/h sliding", "4/h log"] {
            let quota: Quota = text.parse().unwrap();
            let sides = draw::DrawnSides { units: false, shadow: 0 };
            let plans = vec![(vec![(quota, quota)], sides); 3];
            for whole in [Whole::Refused, Whole::Open, Whole::Passes] {
                let judge = |run: &&[(ChargeAction, u64)]| {
                    let charges = run.iter().map(|(action, cost)| ChargeDraw {
                        key: 0,
                        plan: 0,
                        cost: DrawnCost::Units(*cost),
                        units: DrawnCost::Units(0),
                        action: *action,
                        force: ChargeForce::Alone,
                    });
                    ChargeStep::Judge(charges.collect(), whole)
                };
                let steps = runs.iter().map(judge).collect();
                let engine = Arc::new(LuaServer::new());
                let library = ScriptLibrary::new(ScriptTime::Server);
                let store = ScriptedStore::new(Sharded(Arc::clone(&engine)), library, settings(encoding));
                let set_time = |now| engine.keyspace.lock().unwrap().now = now;
                let drawn = (plans.clone(), Timestamp::from_secs(1_761_912_000), steps);
                if let Err(error) = walk(&store, &runtime, encoding, &set_time, &drawn, false) {
                    panic!("{encoding:?}, {text}, {whole:?}: {error}");
                }
            }
        }
    }
}

/// A server that takes its time for every call.
struct Slow(Arc<LuaServer>);

/// How long that is.
const EACH_CALL: Duration = Duration::from_millis(30);

impl RunScript for Slow {
    async fn run(&self, script: &Script, call: &ScriptCall) -> Result<Value, RedisError> {
        tokio::time::sleep(EACH_CALL).await;
        self.0.run(script, call).await
    }

    fn deadline(&self) -> Result<Option<Deadline>, RedisError> {
        Deadline::after(EACH_CALL * 10).map(Some)
    }
}

/// Each of several calls had the time of a command for itself. The time is paused: nobody waits.
#[tokio::test(start_paused = true)]
async fn all_calls_together_have_the_time_of_one_command() {
    let engine = Arc::new(LuaServer::new());
    let library = ScriptLibrary::new(ScriptTime::Server);
    let store = ScriptedStore::new(Slow(Arc::clone(&engine)), library, settings(Encoding::Ascii)).shared();
    let plan = Plan::parse("p", "100/h fixed").unwrap();
    let request = Request::new(Key::new("twin").unwrap(), Rules::Plan(&plan), 1.into());
    let charge = Charge { request, action: ChargeAction::Count, force: ChargeForce::Alone };
    for (count, is_in_time) in [(9, true), (40, false)] {
        let began = tokio::time::Instant::now();
        let judged = store.charge(&vec![charge; count], Whole::Open).await;
        assert_eq!(judged.is_ok(), is_in_time, "{count}: {judged:?}");
        let error = judged.err().map(|error| error.kind());
        assert_eq!(error, (!is_in_time).then_some(StoreErrorKind::Timeout));
        assert!(began.elapsed() <= EACH_CALL * 10, "{count}: {:?}", began.elapsed());
    }
    // The task goes no further either, and gives back what it has counted.
    let mut pace = tokio::time::interval(EACH_CALL);
    for _ in 0..60 {
        pace.tick().await;
    }
    assert_eq!(store.peek(request).await.unwrap().remaining, 91, "the nine that were in time");
}

/// A refund of nothing was saved as a state that nobody had before.
#[test]
fn looks_write_nothing() {
    let runtime = runtime();
    for encoding in [Encoding::Ascii, Encoding::Binary] {
        let engine = Arc::new(LuaServer::new());
        let library = ScriptLibrary::new(ScriptTime::Server);
        let store = ScriptedStore::new(Arc::clone(&engine), library, settings(encoding));
        for text in
            ["9/h", "9/h bucket", "9/h leaky", "9/h fixed", "9/day fixed grid", "9/h sliding", "9/h log"]
        {
            let plan = Plan::parse("p", text).unwrap();
            let judge = |action, cost: u64| {
                let request = Request::new(Key::new("k").unwrap(), Rules::Plan(&plan), cost.into());
                let charge = Charge { request, action, force: ChargeForce::Alone };
                runtime.block_on(store.charge(&[charge], Whole::Open)).unwrap();
            };
            let written = || {
                let mut keyspace = engine.keyspace.lock().unwrap();
                (keyspace.keys.clone(), std::mem::take(&mut keyspace.expiry))
            };
            for is_known in [false, true] {
                if is_known {
                    judge(ChargeAction::Count, 2);
                }
                let (before, _) = written();
                for action in [ChargeAction::Count, ChargeAction::Ignore, ChargeAction::GiveBack] {
                    engine.keyspace.lock().unwrap().now = Timestamp::from_secs(1_761_912_000);
                    judge(action, 0);
                    assert_eq!(
                        written(),
                        (before.clone(), HashMap::new()),
                        "{encoding:?}, {text}, {action:?}"
                    );
                }
            }
            *engine.keyspace.lock().unwrap() = Keyspace::default();
        }
    }
}

/// The same on servers at the time that the test sets.
#[test]
fn servers_judge_as_the_engine_does() {
    let runtime = runtime();
    for server in Server::each() {
        for encoding in [Encoding::Ascii, Encoding::Binary] {
            let (clock, walks) = (FakeClock::default(), Cell::new(0));
            let store = RefCell::new(server_store(&server, encoding, &clock));
            let steps = prop::collection::vec(step(4, 6, -3), 1..16);
            let strategy = (plans(|_| true), draw::instant(), steps);
            SERVER_WALKS.check(format_args!("{encoding:?}"), &strategy, |drawn| {
                let mut store = store.borrow_mut();
                // Keys of its own.
                store.settings.prefix = format!("{encoding:?}{}", walks.replace(walks.get() + 1));
                walk(&*store, &runtime, encoding, &|now| clock.set(now), &drawn, true)
            });
        }
    }
}

/// As many charges of each kind as one script judges: fresh, found, over, given back. None of it takes the way of what is rare.
#[test]
fn usual_charges_need_nothing_rare() {
    let texts = [
        "2/h",
        "2/h bucket",
        "2/h leaky",
        "2/h fixed",
        "2 per 2h fixed grid",
        "2/month fixed calendar",
        "2/h sliding",
    ];
    let runtime = runtime();
    for encoding in [Encoding::Ascii, Encoding::Binary] {
        let mut libraries = [ScriptTime::Server, ScriptTime::Given].map(ScriptLibrary::new);
        for server in Server::each() {
            for (library, is_given) in libraries.iter_mut().zip([false, true]) {
                let mut settings = settings(encoding);
                if is_given {
                    settings.given =
                        Some(Arc::new(FakeClock::at(Timestamp::from_nanos(1_761_912_000_123_456_000))));
                }
                let mut store = ScriptedStore::new(
                    UsualOnly::new(link(&server)),
                    ScriptLibrary::new(ScriptTime::Server),
                    settings,
                );
                // The scripts are the same for all servers.
                std::mem::swap(&mut store.library, library);
                // The server's time would come to an edge of these at some time.
                let has_edges = |text: &&&str| text.contains("grid") || text.contains("calendar");
                for text in texts.iter().filter(|text| has_edges(text) == is_given) {
                    let plan = Plan::parse("p", text).unwrap();
                    // One, a few, and as many as one script judges.
                    for count in (1..=8).filter(|count| is_thorough() || [1, 3, 8].contains(count)) {
                        let keys: Vec<String> =
                            (0..count).map(|key| format!("{text} {count} {key}")).collect();
                        let judge = |action| {
                            let charges: Vec<Charge<'_>> = keys
                                .iter()
                                .map(|key| {
                                    let request =
                                        Request::new(Key::new(key).unwrap(), Rules::Plan(&plan), 1.into());
                                    Charge { request, action, force: ChargeForce::Alone }
                                })
                                .collect();
                            let what = format!("{encoding:?}, {text}, {count} of them");
                            let judgment =
                                runtime.block_on(store.charge(&charges, Whole::Open)).expect(&what);
                            assert!(
                                judgment.each.iter().all(|told| told.decision.allowed == judgment.passes)
                            );
                            judgment.passes
                        };
                        use ChargeAction::{Count, GiveBack, Ignore};
                        let passed = [Ignore, Count, Ignore, Count, GiveBack, GiveBack, Ignore].map(judge);
                        assert_eq!(
                            passed,
                            [true, true, false, false, true, true, true],
                            "{encoding:?}, {text}"
                        );
                    }
                }
                std::mem::swap(&mut store.library, library);
            }
        }
    }
}

/// Every kind and number of charges is a script that a server takes: 200 locals and no more.
#[test]
fn as_many_charges_as_may_be_are_one_script() {
    let runtime = runtime();
    for encoding in [Encoding::Ascii, Encoding::Binary] {
        let engine = Arc::new(LuaServer::new());
        engine.keyspace.lock().unwrap().now = Timestamp::from_secs(1_761_912_000);
        let library = ScriptLibrary::new(ScriptTime::Server);
        let store = ScriptedStore::new(Arc::clone(&engine), library, settings(encoding));
        let mut scripts = 0;
        for text in ["9/h", "9/h bucket", "9/h leaky", "9/h fixed", "9/h fixed grid", "9/day fixed grid"]
            .into_iter()
            .chain(["9/h sliding", "9/h log"])
        {
            for rules in [1, 2, 4] {
                let all: Vec<String> = (0..rules).map(|rule| format!("r{rule}={text}")).collect();
                let plan = Plan::parse("p", &all.join("; ")).unwrap();
                // Beyond this many rules a script has no locals but those of one rule at a time.
                let few = 8 / rules;
                let edges = [few, few + 1, 8];
                for count in (1..=8).filter(|count| is_thorough() || edges.contains(count)) {
                    let keys: Vec<String> = (0..count).map(|key| format!("{text} {count} {key}")).collect();
                    let charges: Vec<Charge<'_>> = keys
                        .iter()
                        .zip(
                            [ChargeAction::Count, ChargeAction::Ignore, ChargeAction::GiveBack]
                                .iter()
                                .cycle(),
                        )
                        .map(|(key, action)| {
                            let request = Request::new(Key::new(key).unwrap(), Rules::Plan(&plan), 1.into());
                            Charge { request, action: *action, force: ChargeForce::Alone }
                        })
                        .collect();
                    let judgment = runtime.block_on(store.charge(&charges, Whole::Open)).unwrap();
                    assert!(judgment.passes);
                    scripts += 1;
                    assert_eq!(engine.scripts(), scripts, "{encoding:?}, {count} of {rules} {text}");
                }
            }
        }
    }
}
