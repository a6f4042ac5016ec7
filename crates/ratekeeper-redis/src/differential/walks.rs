//! Random walks of script and engine side by side.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};
use ratekeeper::algorithm::Tenancy;
use ratekeeper::algorithm::composite::Asked;
use ratekeeper::port::{Request, Store};
use ratekeeper::state::{OnUnreadable, shared_name};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Charged, Cost, Key, Name, Nanos, Plan, Quota, Rule, Rules, Timestamp};
use tokio::runtime::Runtime;

use super::draw::{self, ChargeAge, DrawnCost, DrawnSides, DrawnSpan, LAST_MICROS, PlanVersion, WalkStep};
use super::lua::{Keyspace, LuaServer};
use super::model::StoreModel;
use super::shapes::server_store;
use crate::encoding::{Encoding, Encodings};
use crate::script::{Script, ScriptCall, ScriptLibrary, ScriptTime};
use crate::scripted::{ScriptSettings, ScriptedStore};
use test_support::cases::{config, is_thorough};
use test_support::redis::server::Server;

/// The number of walks for each encoding.
const WALKS: CaseCount = CaseCount { ordinary: 40, thorough: 400 };

/// The number of walks on each server, for each encoding.
const SERVER_WALKS: CaseCount = CaseCount { ordinary: 4, thorough: 60 };

/// The number of cases that a random test tries in an ordinary run and in a thorough one.
#[derive(Clone, Copy, Debug)]
pub(super) struct CaseCount {
    pub(super) ordinary: u32,
    pub(super) thorough: u32,
}

impl CaseCount {
    /// One case in any run.
    pub(super) const ONE: Self = CaseCount { ordinary: 1, thorough: 1 };

    /// Runs `test` on random cases, and panics at the first that fails, after printing the line that repeats it.
    ///
    /// Cases are not kept in a file: a failure worth keeping becomes a test that names its bug.
    pub(super) fn check<S: Strategy>(
        self,
        what: impl Display,
        strategy: &S,
        test: impl Fn(S::Value) -> Result<(), TestCaseError>,
    ) {
        let mut config = config(self.thorough);
        if !is_thorough() {
            // Stays zero if one case was named, which is all that is tried then.
            config.cases = config.cases.min(self.ordinary);
        }
        if let Err(error) = TestRunner::new(config).run(strategy, test) {
            panic!("{what}: {error}");
        }
    }
}

pub(super) fn settings(encoding: Encoding) -> ScriptSettings {
    ScriptSettings {
        prefix: "rl".into(),
        encodings: Encodings { usual: encoding, ..Encodings::default() },
        on_unreadable: OnUnreadable::Error,
        given: None,
    }
}

pub(super) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

pub(super) fn plan(quotas: impl Iterator<Item = Quota>) -> Arc<Plan> {
    let named = quotas.enumerate().map(|(index, quota)| (format!("r{index}").parse().unwrap(), quota));
    Arc::new(Plan::new("walk".parse().unwrap(), named).unwrap())
}

/// What rules count, beside requests.
const UNITS: [&str; 3] = ["u1", "u2", "u3"];

/// What requests are held to, as it changes on a walk.
pub(super) struct WalkTerms<'a> {
    rules: &'a [(Quota, Quota)],
    tenancy: Tenancy,
    sides: DrawnSides,
    other_quotas: bool,
    version: PlanVersion,
    /// Which of the quotas a request brings.
    brought: usize,
}

impl<'a> WalkTerms<'a> {
    pub(super) fn new(rules: &'a [(Quota, Quota)], tenancy: Tenancy) -> Self {
        let sides = DrawnSides::default();
        WalkTerms { rules, tenancy, sides, other_quotas: false, version: PlanVersion::Whole, brought: 0 }
    }

    /// Some rules are in shadow, or count other units.
    pub(super) fn with_sides(self, sides: DrawnSides) -> Self {
        WalkTerms { sides, ..self }
    }

    /// A rule as it stands in a plan, by the number that its name has.
    fn rule(&self, name: Name, quota: Quota) -> Rule {
        let number: usize = name.as_str()[1..].parse().unwrap();
        let rule = Rule::new(name, quota);
        let rule = match UNITS.get((number + 3) % 4).filter(|_| self.sides.units) {
            Some(unit) => rule.counting(unit.parse().unwrap()),
            None => rule,
        };
        if self.sides.shadow >> (number % 16) & 1 == 1 { rule.shadow() } else { rule }
    }

    /// The rules of now, by the names of their states.
    fn named(&self) -> Vec<(Name, Quota)> {
        let count = self.rules.len();
        let quota = |rule: usize| {
            let (one, other) = self.rules[rule % count];
            if self.other_quotas { other } else { one }
        };
        if self.tenancy == Tenancy::Shared {
            return vec![(shared_name(&quota(self.brought)).unwrap(), quota(self.brought))];
        }
        let name = |rule: usize| format!("r{rule}").parse().unwrap();
        match self.version {
            PlanVersion::Whole => (0..count).map(|rule| (name(rule), quota(rule))).collect(),
            PlanVersion::Reversed(skip) => {
                (0..count).rev().skip(skip % count).map(|rule| (name(rule), quota(rule))).collect()
            }
            PlanVersion::Shifted => (0..count).map(|rule| (name(rule), quota(rule + 1))).collect(),
        }
    }

    fn held_to(&self) -> WalkRules {
        match self.tenancy {
            Tenancy::Own => {
                let rules = self.named().into_iter().map(|(name, quota)| self.rule(name, quota));
                let plan = Plan::new("walk".parse().unwrap(), rules).unwrap();
                WalkRules::Plan(Arc::new(plan))
            }
            Tenancy::Shared => WalkRules::Quota(self.named()[0].1),
        }
    }
}

enum WalkRules {
    Plan(Arc<Plan>),
    Quota(Quota),
}

impl WalkRules {
    fn rules(&self) -> Rules<'_> {
        match self {
            WalkRules::Plan(plan) => Rules::Plan(plan),
            WalkRules::Quota(quota) => Rules::Quota(quota),
        }
    }
}

/// One side that answers, and the time it goes by.
pub(super) struct Walk<'a, S> {
    pub(super) store: &'a S,
    pub(super) set_time: &'a dyn Fn(Timestamp),
    pub(super) runtime: &'a Runtime,
    pub(super) now: Timestamp,
}

impl<S: Store> Walk<'_, S> {
    /// Walks, and compares every answer; then what `check` has to say.
    pub(super) fn through(
        &mut self,
        encoding: Encoding,
        mut terms: WalkTerms<'_>,
        steps: &[WalkStep],
        check: impl Fn(&mut StoreModel, Timestamp) -> Result<(), TestCaseError>,
    ) -> Result<(), TestCaseError> {
        let mut model = StoreModel::new(encoding, terms.tenancy, terms.named());
        let (mut held_to, mut promised, mut charges) = (terms.held_to(), Nanos::ZERO, vec![self.now]);
        let mut with = [DrawnCost::Units(1); 3];
        for (number, step) in steps.iter().enumerate() {
            let burst = model.burst();
            let what = format!("step {number}, {step:?} at {}", self.now.as_nanos());
            let mut units = Vec::new();
            for (unit, cost) in UNITS.iter().zip(with) {
                let rules = held_to.rules();
                if rules.plans().flat_map(Plan::units).any(|counted| counted == *unit) {
                    units.push((*unit, cost.of(burst).min(Request::MOST)));
                }
            }
            let request = |cost| {
                let key = Key::new("who {%}").unwrap();
                Request { units: &units, ..Request::new(key, held_to.rules(), Cost::new(cost)) }
            };
            let asked = |cost| -> Vec<Asked> {
                let shares = request(cost).shares();
                shares.map(|share| Asked { cost: share.cost, shadow_of: share.shadow_of }).collect()
            };
            (self.set_time)(self.now);
            match step {
                WalkStep::Take(share) => {
                    let cost = share.of(burst);
                    let expected = model.take(&asked(cost), self.now);
                    let found = self.runtime.block_on(self.store.acquire_each(request(cost))).unwrap();
                    prop_assert_eq!(&found, &expected, "{}, cost {}", what, cost);
                    promised = expected.decision.retry_after.unwrap_or(Nanos::ZERO);
                    charges.extend(found.decision.charged_at());
                }
                WalkStep::Debit(share) => {
                    let cost = share.of(burst);
                    let expected = model.debit(&asked(cost), self.now);
                    let found = self.runtime.block_on(self.store.debit(request(cost))).unwrap();
                    prop_assert_eq!(&found, &expected, "{}, cost {}", what, cost);
                    promised = expected.decision.retry_after.unwrap_or(Nanos::ZERO);
                }
                WalkStep::With(others) => with = *others,
                // Only requests are granted in part.
                WalkStep::TakeUpTo(..) if !units.is_empty() => {}
                WalkStep::TakeUpTo(least, most) => {
                    let (least, most) = (least.of(burst), Cost::new(most.of(burst)));
                    let expected = model.take_up_to(Cost::new(least), most, &asked(least), self.now);
                    let found = self.store.acquire_up_to(request(least), most);
                    let found = self.runtime.block_on(found).unwrap();
                    prop_assert_eq!(found, expected, "{}, {} up to {}", what, least, most);
                    promised = expected.decision.retry_after.unwrap_or(Nanos::ZERO);
                    charges.extend(found.decision.charged_at());
                }
                WalkStep::Peek(share) => {
                    let cost = share.of(burst);
                    let found = self.runtime.block_on(self.store.peek_each(request(cost))).unwrap();
                    prop_assert_eq!(found, model.peek(&asked(cost), self.now), "{}, cost {}", what, cost);
                }
                WalkStep::Refund(share, age) => {
                    let cost = share.of(burst);
                    let span = |span| Nanos::from_nanos(self.measure(span, &model) * 1_000);
                    let charged = match age {
                        ChargeAge::Charge(which) => Charged::at(charges[which.index(charges.len())]),
                        ChargeAge::At(ago) => Charged::at(self.now.saturating_sub(span(*ago))),
                        ChargeAge::Ago(ago) => Charged::ago(span(*ago)),
                        ChargeAge::Any(nanos) if nanos % 2 == 0 => Charged::at(Timestamp::from_nanos(*nanos)),
                        ChargeAge::Any(nanos) => Charged::ago(Nanos::from_nanos(nanos.cast_unsigned())),
                    };
                    let expected = model.refund(&asked(cost), charged, self.now);
                    let found = self.runtime.block_on(self.store.refund(request(cost), charged)).unwrap();
                    prop_assert_eq!(found, expected, "{}, cost {}, {:?}", what, cost, charged);
                }
                WalkStep::Reset => {
                    let expected = model.reset(self.now);
                    let found = self.runtime.block_on(self.store.reset(request(1))).unwrap();
                    // Whether those of other quotas count is not the model's to know.
                    let fits =
                        if terms.tenancy == Tenancy::Own { found == expected } else { found >= expected };
                    prop_assert!(fits, "{what}: {found} instead of {expected}");
                }
                WalkStep::Forward(span) => self.go(self.measure(*span, &model).cast_signed()),
                WalkStep::Back(span) => self.go(-self.measure(*span, &model).cast_signed()),
                WalkStep::Wait { early } => {
                    let micros = promised.ceil_micros().min(LAST_MICROS.cast_unsigned());
                    self.go(micros.cast_signed() - i64::from(*early));
                    promised = Nanos::ZERO;
                }
                WalkStep::Change | WalkStep::Edit(_) => {
                    match step {
                        WalkStep::Edit(version) => {
                            (terms.version, terms.brought) = (*version, terms.brought + 1)
                        }
                        _ => terms.other_quotas = !terms.other_quotas,
                    }
                    (held_to, model.rules) = (terms.held_to(), terms.named());
                }
            }
            check(&mut model, self.now)?;
        }
        Ok(())
    }

    /// Returns how long a drawn span is under the model's rules, in microseconds.
    fn measure(&self, span: DrawnSpan, model: &StoreModel) -> u64 {
        let quota = &model.rules[span.rule % model.rules.len()].1;
        let measure = if span.refill { quota.refill_time() } else { quota.period() }.as_nanos();
        let nanos = u128::from(measure) * u128::from(span.parts) / 16;
        u64::try_from(nanos / 1_000).unwrap_or(0).min(LAST_MICROS.cast_unsigned()) + span.micros
    }

    fn go(&mut self, micros: i64) {
        let now = (self.now.as_nanos() / 1_000).saturating_add(micros);
        self.now = Timestamp::from_nanos(now.clamp(0, LAST_MICROS) * 1_000);
    }
}

/// What was just written expires once it is worthless: not before, and, if nobody else counts on it, within a
/// millisecond (for the largest spans, a part in 10^9).
pub(super) fn expiry_fits(
    keyspace: &mut Keyspace,
    model: &mut StoreModel,
    now: Timestamp,
) -> Result<(), TestCaseError> {
    for (key, millis) in keyspace.expiry.drain() {
        let text = String::from_utf8_lossy(&key);
        if text.ends_with("%reset") {
            continue;
        }
        let name = text.rsplit(':').next();
        let rule = model.rules.iter().position(|(rule, _)| Some(rule.as_str()) == name);
        let mut alone;
        let model = match (model.encoding, rule) {
            (Encoding::Binary, Some(rule)) => {
                alone = model.alone(rule);
                &mut alone
            }
            _ => &mut *model,
        };
        let whole = model.reset_after(now);
        // No script counts further than there is time.
        let least = whole.ceil_millis().clamp(1, 9_223_372_036_000);
        // Where the engine's time ends, the server's goes on.
        let is_cut_off = now + whole == Timestamp::MAX;
        // What was to live until some millisecond still does, however far into this one now is.
        let (least, most) = match model.has_others() {
            true => (least - 1, u64::MAX),
            false if is_cut_off => (least, u64::MAX),
            false => (least, least + 1 + least / 1_000_000_000),
        };
        let fits = (least..=most).contains(&millis);
        prop_assert!(fits, "{text}: {millis} ms for {whole:?}");
    }
    Ok(())
}

fn walks_in_lua(encoding: Encoding, tenancy: Tenancy) {
    let engine = Arc::new(LuaServer::new());
    let runtime = runtime();
    let store =
        ScriptedStore::new(Arc::clone(&engine), ScriptLibrary::new(ScriptTime::Server), settings(encoding));
    let steps = prop::collection::vec(draw::step(), 1..40);
    let strategy = (draw::rules(), draw::sides(), draw::instant(), steps);
    type Drawn = (Vec<(Quota, Quota)>, DrawnSides, Timestamp, Vec<WalkStep>);
    let walk = |(rules, sides, start, steps): Drawn| {
        *engine.keyspace.lock().unwrap() = Keyspace::default();
        let set_time = |now| engine.keyspace.lock().unwrap().now = now;
        let mut walk = Walk { store: &store, set_time: &set_time, runtime: &runtime, now: start };
        let terms = WalkTerms::new(&rules, tenancy).with_sides(sides);
        walk.through(encoding, terms, &steps, |model, now| {
            expiry_fits(&mut engine.keyspace.lock().unwrap(), model, now)
        })
    };
    WALKS.check(format_args!("{encoding:?}, {tenancy:?}"), &strategy, walk);
}

/// A denial that cuts off one rule wrote a bucket beside it that was full, under a smaller quota, as of when it was
/// found; the engine writes it as of now.
#[test]
fn a_full_bucket_beside_a_rule_that_is_cut_off_is_full_as_of_now() {
    let quota = |text: &str| text.parse::<Quota>().unwrap();
    let rules =
        [(quota("6/s burst 1"), quota("1/s")), (quota("1/s burst 1 bucket"), quota("1/s burst 2 bucket"))];
    let take = |units| WalkStep::Take(draw::DrawnCost::Units(units));
    let back = WalkStep::Back(DrawnSpan { rule: 0, refill: false, parts: 0, micros: 1 });
    let steps = [WalkStep::Change, take(1), WalkStep::Change, back, take(1), WalkStep::Change, take(0)];
    let (engine, runtime) = (Arc::new(LuaServer::new()), runtime());
    let settings = settings(Encoding::Ascii);
    let store = ScriptedStore::new(Arc::clone(&engine), ScriptLibrary::new(ScriptTime::Server), settings);
    let set_time = |now| engine.keyspace.lock().unwrap().now = now;
    let now = Timestamp::from_secs(1_761_912_000);
    let mut walk = Walk { store: &store, set_time: &set_time, runtime: &runtime, now };
    walk.through(Encoding::Ascii, WalkTerms::new(&rules, Tenancy::Own), &steps, |_, _| Ok(())).unwrap();
}

/// A log that has as many entries as it may: the last one takes what is debited, and moves.
#[test]
fn a_full_log_takes_debits_as_the_engine_does() {
    let quota = |text: &str| text.parse::<Quota>().unwrap();
    let forward = |micros| WalkStep::Forward(DrawnSpan { rule: 0, refill: false, parts: 0, micros });
    let debit = |units| WalkStep::Debit(DrawnCost::Units(units));
    let take = |units| WalkStep::Take(DrawnCost::Units(units));
    for bound in 1..5 {
        let quota = quota(&format!("{bound} per 10s log bound {bound}"));
        let mut steps = vec![take(1)];
        for step in 1..12 {
            steps.extend([forward(700_000 * (step % 3) + 1), debit(step % 4), take(1)]);
        }
        for encoding in [Encoding::Ascii, Encoding::Binary] {
            let (engine, runtime) = (Arc::new(LuaServer::new()), runtime());
            let library = ScriptLibrary::new(ScriptTime::Server);
            let store = ScriptedStore::new(Arc::clone(&engine), library, settings(encoding));
            let set_time = |now| engine.keyspace.lock().unwrap().now = now;
            let now = Timestamp::from_secs(1_761_912_000);
            let mut walk = Walk { store: &store, set_time: &set_time, runtime: &runtime, now };
            let rules = [(quota, quota)];
            walk.through(encoding, WalkTerms::new(&rules, Tenancy::Own), &steps, |_, _| Ok(())).unwrap();
        }
    }
}

#[test]
fn ascii_scripts_decide_as_the_engine_does() {
    walks_in_lua(Encoding::Ascii, Tenancy::Own);
}

#[test]
fn binary_scripts_decide_as_the_engine_does() {
    walks_in_lua(Encoding::Binary, Tenancy::Own);
}

#[test]
fn ascii_scripts_decide_the_quotas_of_requests_as_the_engine_does() {
    walks_in_lua(Encoding::Ascii, Tenancy::Shared);
}

#[test]
fn binary_scripts_decide_the_quotas_of_requests_as_the_engine_does() {
    walks_in_lua(Encoding::Binary, Tenancy::Shared);
}

/// The same on real servers at the time that the test sets: their Lua, their `struct`, their keyspace.
#[test]
fn servers_decide_as_the_engine_does() {
    let runtime = runtime();
    for server in Server::each() {
        for encoding in [Encoding::Ascii, Encoding::Binary] {
            let (clock, walks) = (FakeClock::default(), Cell::new(0));
            let store = RefCell::new(server_store(&server, encoding, &clock));
            let steps = prop::collection::vec(draw::step(), 1..40);
            let strategy = (draw::rules(), draw::instant(), steps, draw::sides(), 0..3_u8);
            let walk = |(rules, start, steps, sides, tenancy): DrawnServerWalk| {
                let mut store = store.borrow_mut();
                // Keys of its own.
                store.settings.prefix = format!("{encoding:?}{}", walks.replace(walks.get() + 1));
                let set_time = |now| clock.set(now);
                let tenancy = if tenancy == 0 { Tenancy::Shared } else { Tenancy::Own };
                let terms = WalkTerms::new(&rules, tenancy).with_sides(sides);
                let mut walk = Walk { store: &*store, set_time: &set_time, runtime: &runtime, now: start };
                walk.through(encoding, terms, &steps, |_, _| Ok(()))
            };
            SERVER_WALKS.check(format_args!("{encoding:?}"), &strategy, walk);
        }
    }
}

type DrawnServerWalk = (Vec<(Quota, Quota)>, Timestamp, Vec<WalkStep>, DrawnSides, u8);

#[tokio::test]
async fn scripts_in_lua_conform() {
    use ratekeeper::testkit::conformance::{Bench, check};
    for encoding in [Encoding::Ascii, Encoding::Binary] {
        let engine = Arc::new(LuaServer::new());
        let clock = FakeClock::at(Timestamp::from_nanos(1_761_884_055_342_794_000));
        let settings = ScriptSettings { given: Some(Arc::new(clock.clone())), ..settings(encoding) };
        let store = ScriptedStore::new(Arc::clone(&engine), ScriptLibrary::new(ScriptTime::Given), settings);
        let bench = Bench::new(&store, &clock).resolution(Nanos::from_nanos(1_000));
        // Charges of one script: `several_calls_judge_as_one_does` has the rest.
        check(&bench.different_keys(8).one_step_in(if is_thorough() { 4 } else { 32 })).await;
    }
}

/// The packing that the scripts in Lua are given is the servers'.
#[test]
fn struct_is_the_servers() {
    let server = Server::redis();
    let script = "local upper, lower = struct.unpack('>I4I4', ARGV[1], 3)
        local integer = struct.unpack('>i8', ARGV[1], 3)
        local one, two = struct.unpack('<dd', ARGV[4], 9)
        return { struct.pack('>I4I4', upper, lower), struct.pack('>d', tonumber(ARGV[2])),
            string.format('%.17g', struct.unpack('>d', ARGV[3])), string.format('%.0f', upper),
            string.format('%.17g', integer), struct.pack('>i8', math.floor(integer / 4096)),
            string.format('%.17g', one), string.format('%.17g', two) }";
    let (engine, mut connection) = (LuaServer::new(), server.connection());
    for bits in [0, 1, 0x8000_0000, 0xffff_ffff_ffff_ffff, 0x1234_5678_9abc_def0_u64] {
        let number = f64::from_bits(bits >> 2);
        let mut call = ScriptCall::with_capacity(3, 64);
        call.arg(&[&[0, 0][..], &bits.to_be_bytes()].concat());
        call.arg(format!("{number:e}").as_bytes());
        call.arg(&number.to_be_bytes());
        call.arg(&[[0; 8], number.to_le_bytes(), 1.5_f64.to_le_bytes()].concat());
        let here = engine.eval(&Script::new(script.to_owned()), &call);
        let there: redis::Value = call.command("EVAL", script).query(&mut connection).unwrap();
        assert_eq!(here, there, "{bits:x}");
    }
}
