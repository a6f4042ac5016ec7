//! Every shape of script against the engine: all of up to three rules, or an even selection, and larger ones at random.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use ratekeeper::algorithm::Tenancy;
use ratekeeper::port::{Clock, Request, Store};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{
    Algorithm, Anchor, Calendar, CalendarUnit, Charged, Cost, Key, MemoryStore, Nanos, Plan, Quota, Rules,
    Timestamp, Zone,
};
use redis::Value;
use tokio::runtime::Runtime;

use super::draw::{self, ChargeAge, DrawnCost, DrawnSides, DrawnSpan, WalkStep};
use super::lua::{Keyspace, LuaServer};
use super::walks::{CaseCount, Walk, WalkTerms, expiry_fits, plan, runtime, settings};
use crate::encoding::Encoding;
use crate::error::RedisError;
use crate::link::{BreakerFactory, Link, LinkOptions, RedisAddress};
use crate::script::{RuleKind, Script, ScriptCall, ScriptLibrary, ScriptTime};
use crate::scripted::{RunScript, ScriptSettings, ScriptedStore};
use test_support::cases::is_thorough;
use test_support::redis::server::Server;

/// The number of plans of more than three rules, for each encoding.
const LARGE_PLANS: CaseCount = CaseCount { ordinary: 3, thorough: 20 };

/// A plan's rules, each with the quota that it may be changed to, when a walk begins, and its steps.
type DrawnWalk = (Vec<(Quota, Quota)>, Timestamp, Vec<WalkStep>, DrawnSides);

fn quota_of(kind: RuleKind) -> impl Strategy<Value = Quota> {
    let algorithm = match kind {
        RuleKind::Gcra => Algorithm::Gcra,
        RuleKind::TokenBucket => Algorithm::TokenBucket,
        RuleKind::LeakyBucket => Algorithm::LeakyBucket,
        RuleKind::Window => Algorithm::FIXED,
        RuleKind::Grid => Algorithm::FixedWindow(Anchor::Grid),
        RuleKind::Edges => {
            Algorithm::FixedWindow(Anchor::Calendar(Calendar::new(CalendarUnit::Day, Zone::UTC)))
        }
        RuleKind::SlidingWindow => Algorithm::SlidingWindow,
        RuleKind::SlidingLog => Algorithm::SlidingLog,
    };
    draw::quota_of(algorithm).prop_filter("of this kind", move |quota| RuleKind::of(quota) == Some(kind))
}

fn rules_of(kinds: &[RuleKind]) -> impl Strategy<Value = Vec<(Quota, Quota)>> + use<> {
    kinds.iter().map(|kind| (quota_of(*kind), quota_of(*kind))).collect::<Vec<_>>()
}

/// Every verb, on a key that is fresh, then charged, then spent; and some more steps.
fn steps() -> impl Strategy<Value = Vec<WalkStep>> {
    use WalkStep::{Back, Debit, Forward, Peek, Refund, Reset, Take, TakeUpTo, With};
    let units = DrawnCost::Units;
    let span = |parts| DrawnSpan { rule: 0, refill: true, parts, micros: 1 };
    let verbs = vec![
        Peek(units(1)),
        Take(units(1)),
        Peek(units(1)),
        Forward(span(1)),
        Take(units(1)),
        Refund(units(1), ChargeAge::Ago(span(0))),
        // At several instants, so that some leaves a log earlier than the rest.
        Take(units(1)),
        Forward(span(1)),
        TakeUpTo(units(1), DrawnCost::Part(8, 1)),
        Forward(span(1)),
        TakeUpTo(DrawnCost::Part(2, 1), DrawnCost::Part(3, 2)),
        TakeUpTo(DrawnCost::Part(16, 0), units(u64::MAX)),
        TakeUpTo(units(u64::MAX), units(u64::MAX)),
        TakeUpTo(units(1), units(u64::MAX)),
        TakeUpTo(DrawnCost::Part(1, 2), units(u64::MAX)),
        Take(units(1)),
        TakeUpTo(units(1), units(1)),
        Refund(units(2), ChargeAge::Ago(span(1))),
        Back(span(40)),
        Take(units(1)),
        TakeUpTo(units(0), units(3)),
        Debit(units(1)),
        Reset,
        Take(units(2)),
        With([0, 2, 1].map(units)),
        Debit(DrawnCost::Part(12, 0)),
        Take(units(0)),
        Refund(units(0), ChargeAge::Ago(span(0))),
        Debit(DrawnCost::Part(17, 1)),
        Take(units(1)),
        TakeUpTo(units(2), units(1)),
        Debit(units(i64::MAX.cast_unsigned())),
        Debit(units(u64::MAX)),
        Forward(span(20)),
        Take(units(1)),
        Debit(units(0)),
    ];
    prop::collection::vec(draw::step(), 4..12).prop_map(move |more| [verbs.clone(), more].concat())
}

/// All lists of one to three kinds.
fn small_shapes() -> impl Iterator<Item = Vec<RuleKind>> {
    let one = || RuleKind::ALL.into_iter();
    let two = one().flat_map(move |first| one().map(move |second| vec![first, second]));
    let three = two.clone().flat_map(move |pair| one().map(move |third| [&pair[..], &[third]].concat()));
    one().map(|kind| vec![kind]).chain(two).chain(three)
}

/// A selection of [`small_shapes`]: so many lists of three kinds. The first 8 have each kind in each of
/// the three places; 64 have each pair of kinds in each two of the three places, once.
fn selected_shapes(threes: usize) -> impl Iterator<Item = Vec<RuleKind>> {
    const KINDS: usize = RuleKind::ALL.len();
    let each = move |number: usize| {
        // An orthogonal array: lines over the field of 8 elements, in which `^` is addition.
        let (first, offset) = (number % KINDS, number / KINDS);
        let doubled = first << 1 ^ if first & 4 == 0 { 0 } else { 0b1011 };
        [first, doubled ^ offset, doubled ^ first ^ offset].map(|kind| RuleKind::ALL[kind])
    };
    (0..threes).map(move |number| each(number).to_vec())
}

/// Calls `walk` with a plan of each of these shapes and of each kind alone, with some larger plans, and for each kind with a quota
/// that requests bring.
fn each_shape(
    shapes: impl Iterator<Item = Vec<RuleKind>>,
    walk: impl Fn(Tenancy, DrawnWalk) -> Result<(), TestCaseError>,
) {
    let (plain, drawn) = (Just(DrawnSides::default()).boxed(), draw::sides().boxed());
    let in_shadow = Just(DrawnSides { shadow: u16::MAX, units: true }).boxed();
    let check = |kinds: &[RuleKind], tenancy, sides: &BoxedStrategy<DrawnSides>| {
        let strategy = (rules_of(kinds), draw::instant(), steps(), sides.clone());
        CaseCount::ONE.check(format_args!("{tenancy:?}, {kinds:?}"), &strategy, |drawn| walk(tenancy, drawn));
    };
    for (number, kinds) in shapes.enumerate() {
        check(&kinds, Tenancy::Own, if number % 2 == 0 { &plain } else { &drawn });
    }
    for kind in RuleKind::ALL {
        check(&[kind], Tenancy::Own, &plain);
        check(&[kind], Tenancy::Own, &in_shadow);
        check(&[kind], Tenancy::Shared, &plain);
        if is_thorough() {
            check(&[kind, kind], Tenancy::Shared, &plain);
        }
    }
    let kinds = prop::collection::vec(prop::sample::select(RuleKind::ALL.to_vec()), 4..=16);
    let large = kinds.prop_flat_map(|kinds| (rules_of(&kinds), draw::instant(), steps(), draw::sides()));
    LARGE_PLANS.check("a large plan", &large, |drawn| walk(Tenancy::Own, drawn));
}

/// No kind of rule is left to chance.
#[test]
fn selected_shapes_have_every_kind_in_every_place_and_next_to_every_other() {
    for (count, least) in [(8, 8), (64, 64)] {
        for places in [[0, 1], [1, 2], [0, 2]] {
            let mut pairs: Vec<[RuleKind; 2]> =
                selected_shapes(count).map(|kinds| places.map(|place| kinds[place])).collect();
            pairs.sort();
            pairs.dedup();
            assert_eq!(pairs.len(), least, "{places:?}");
            for kind in RuleKind::ALL {
                assert!((0..2).all(|place| pairs.iter().any(|pair| pair[place] == kind)), "{kind:?}");
            }
        }
    }
    assert!(selected_shapes(64).all(|kinds| small_shapes().any(|small| small == kinds)));
}

#[test]
fn shapes_of_up_to_three_rules_decide_as_the_engine_does() {
    let (engine, runtime) = (Arc::new(LuaServer::new()), runtime());
    // The rules of a plan lie side by side in one text, and in a hash each.
    for (encoding, threes) in [(Encoding::Ascii, 64), (Encoding::Binary, 16)] {
        let library = ScriptLibrary::new(ScriptTime::Server);
        let store = ScriptedStore::new(Arc::clone(&engine), library, settings(encoding));
        let shapes: Vec<_> = match encoding {
            Encoding::Ascii if is_thorough() => small_shapes().collect(),
            _ => selected_shapes(threes).collect(),
        };
        each_shape(shapes.into_iter(), |tenancy, (rules, now, steps, sides)| {
            *engine.keyspace.lock().unwrap() = Keyspace::default();
            let set_time = |now| engine.keyspace.lock().unwrap().now = now;
            let mut walk = Walk { store: &store, set_time: &set_time, runtime: &runtime, now };
            let terms = WalkTerms::new(&rules, tenancy).with_sides(sides);
            walk.through(encoding, terms, &steps, |model, now| {
                expiry_fits(&mut engine.keyspace.lock().unwrap(), model, now)
            })
        });
    }
}

#[test]
fn shapes_decide_on_servers_as_the_engine_does() {
    let runtime = runtime();
    for encoding in [Encoding::Ascii, Encoding::Binary] {
        let clock = FakeClock::default();
        let mut library = ScriptLibrary::new(ScriptTime::Given);
        for server in Server::each() {
            // The scripts are the same for all servers.
            let store = ScriptedStore { library, ..server_store(&server, encoding, &clock) };
            let (store, walks) = (RefCell::new(store), Cell::new(0));
            let shapes = selected_shapes(if is_thorough() { 64 } else { 8 });
            each_shape(shapes, |tenancy, (rules, now, steps, sides)| {
                let mut store = store.borrow_mut();
                // Keys of its own.
                store.settings.prefix = format!("{encoding:?}{}", walks.replace(walks.get() + 1));
                let terms = WalkTerms::new(&rules, tenancy).with_sides(sides);
                walk_on(&*store, &clock, &runtime, encoding, terms, now, &steps)
            });
            library = store.into_inner().library;
        }
    }
}

/// Every order of four plans.
fn orders() -> impl Iterator<Item = [usize; 4]> {
    let all = (0..256).map(|number: usize| [number / 64, number / 16 % 4, number / 4 % 4, number % 4]);
    all.filter(|order| (0..4).all(|plan| order.contains(&plan)))
}

/// Each order in which a client named its plans was a script of its own, which the server compiled and kept.
#[test]
fn plans_in_another_order_run_the_same_script_and_are_answered_in_theirs() {
    let (engine, runtime, clock) = (Arc::new(LuaServer::new()), runtime(), FakeClock::default());
    let mut settings = settings(Encoding::Ascii);
    settings.encodings.of_plan.insert("p1".parse().unwrap(), Encoding::Binary);
    let store = ScriptedStore::new(Arc::clone(&engine), ScriptLibrary::new(ScriptTime::Server), settings);
    let memory = MemoryStore::builder().clock(clock.clone()).build();
    let texts = ["9/m", "a=8/m sliding; b=7/m bucket", "6/m fixed", "a=6/m; b=20/h burst 7 leaky"];
    let plans =
        texts.iter().enumerate().map(|(index, text)| Plan::parse(&format!("p{index}"), text).unwrap());
    let plans: Vec<Arc<Plan>> = plans.map(Arc::new).collect();
    for order in orders() {
        let plans = order.map(|plan| Arc::clone(&plans[plan]));
        let name = format!("{order:?}");
        let ask = |cost| Request::new(Key::new(&name).unwrap(), Rules::Plans(&plans), Cost::new(cost));
        let now = Timestamp::from_secs(1_761_912_000);
        clock.set(now);
        engine.keyspace.lock().unwrap().now = now;
        let both: [&dyn Store; 2] = [&store, &memory];
        for cost in [1, 3, 4, 1, 0] {
            let [found, expected] = both.map(|store| runtime.block_on(store.acquire(ask(cost))).unwrap());
            assert_eq!(found, expected, "{name}, {cost}");
        }
        let [found, expected] =
            both.map(|store| runtime.block_on(store.refund(ask(2), Charged::at(now))).unwrap());
        assert_eq!(found, expected, "{name}");
        for (least, most) in [(2, 9), (3, 3)] {
            let most = Cost::new(most);
            let [found, expected] =
                both.map(|store| runtime.block_on(store.acquire_up_to(ask(least), most)).unwrap());
            assert_eq!(found, expected, "{name}");
        }
        assert_eq!(both.map(|store| runtime.block_on(store.reset(ask(0))).unwrap()), [6, 6], "{name}");
    }
    assert_eq!(engine.scripts(), 6, "one for each verb, and one that looks for holds before a reset");
}

/// A pattern that could take a whole number apart in several ways tried all of them, of every bucket, before it gave up:
/// 150 ms of the server's time for five of nine digits each. For ten of them it would not end.
#[test]
fn a_text_of_many_buckets_that_has_one_rule_more_is_given_up_at_once() {
    let (engine, runtime) = (Arc::new(LuaServer::new()), runtime());
    let settings = settings(Encoding::Ascii);
    let store = ScriptedStore::new(Arc::clone(&engine), ScriptLibrary::new(ScriptTime::Server), settings);
    engine.keyspace.lock().unwrap().now = Timestamp::from_secs(1_761_912_000);
    let quota: Quota = "1000000000/h bucket".parse().unwrap();
    let left = [11, 10].map(|rules| {
        let plan = plan(std::iter::repeat_n(quota, rules));
        let request = Request::new(Key::new("k").unwrap(), Rules::Plan(&plan), Cost::ONE);
        runtime.block_on(store.acquire(request)).unwrap().remaining
    });
    assert_eq!(left, [999_999_999, 999_999_998]);
}

/// Runs scripts whose function for what is rare fails.
pub(super) struct UsualOnly {
    link: Link,
    /// The changed scripts, by the SHA-1 of what they were.
    changed: Mutex<HashMap<String, Arc<Script>>>,
}

impl UsualOnly {
    pub(super) fn new(link: Link) -> Self {
        UsualOnly { link, changed: Mutex::default() }
    }

    fn changed(&self, script: &Script) -> Arc<Script> {
        const RARE: &str = "local function rare()\n";
        let mut changed = self.changed.lock();
        let changed = changed.entry(script.sha1().to_owned()).or_insert_with(|| {
            let source = script.source().replace(RARE, &format!("{RARE}error('something rare')\n"));
            Arc::new(Script::new(source))
        });
        Arc::clone(changed)
    }
}

impl RunScript for UsualOnly {
    async fn run(&self, script: &Script, call: &ScriptCall) -> Result<Value, RedisError> {
        let script = self.changed(script);
        self.link.run(&script, call).await
    }
}

/// A usual state that took the way of the rare ones would be decided alike, and several times slower.
fn usual_states_need_nothing_rare(link: Link, encoding: Encoding) {
    let runtime = runtime();
    let mut store =
        ScriptedStore::new(UsualOnly::new(link), ScriptLibrary::new(ScriptTime::Server), settings(encoding));
    // As many of a kind as one match can capture.
    let texts = [
        ("2/h", 16),
        ("2/h bucket", 10),
        ("2/h leaky", 10),
        ("2/h fixed", 10),
        ("2/h sliding", 8),
        ("2 per 2h fixed grid", 10),
        ("2/month fixed calendar", 10),
    ];
    for (text, most) in texts {
        if text == "2 per 2h fixed grid" {
            // The server's time would come to an edge of these at some time.
            store.settings.given =
                Some(Arc::new(FakeClock::at(Timestamp::from_nanos(1_761_912_000_123_456_000))));
            store.library = ScriptLibrary::new(ScriptTime::Given);
        }
        for rules in [1, 2, most] {
            let plan = plan(std::iter::repeat_n(text.parse::<Quota>().unwrap(), rules));
            let key = format!("{text} {rules}");
            let asked = [Rules::Plan(&plan), Rules::Quota(plan.rules()[0].quota())].map(|rules| {
                let request = Request::new(Key::new(&key).unwrap(), rules, Cost::ONE);
                [(); 3].map(|()| runtime.block_on(store.acquire(request)).expect(&key).allowed)
            });
            assert_eq!(asked, [[true, true, false]; 2], "{encoding:?}, {key}: fresh, found, refused");
        }
    }
}

/// Grants of all that is asked for, of what there is and of nothing, on states that are found.
fn usual_grants_need_nothing_rare(link: Link, encoding: Encoding) {
    let clock = FakeClock::at(Timestamp::from_nanos(1_761_912_000_123_456_000));
    let settings = ScriptSettings { given: Some(Arc::new(clock.clone())), ..settings(encoding) };
    let (store, runtime) = (
        ScriptedStore::new(UsualOnly::new(link), ScriptLibrary::new(ScriptTime::Given), settings),
        runtime(),
    );
    let texts = [
        "1000/s",
        "1000/s bucket",
        "1000/s leaky",
        "1000/s fixed",
        "1000/s fixed grid",
        "1000/day fixed calendar",
        "1000/s sliding",
    ];
    // What they multiply is not exact as a double. In binary, instants so far ahead are rare by themselves.
    let long = ["1000 per 365days", "1000 per 365days sliding"];
    for text in texts.into_iter().chain(long.into_iter().filter(|_| encoding == Encoding::Ascii)) {
        let plan = plan(std::iter::once(text.parse::<Quota>().unwrap()));
        let take = |least, most| {
            let request = Request::new(Key::new(text).unwrap(), Rules::Plan(&plan), Cost::new(least));
            let grant = runtime.block_on(store.acquire_up_to(request, Cost::new(most)));
            grant.unwrap_or_else(|error| panic!("{encoding:?}, {text}: {error}")).granted.get()
        };
        assert_eq!([take(1, 700), take(1, 100), take(300, 300)], [700, 100, 0], "{encoding:?}, {text}");
        // Some has refilled, and a window may have ended.
        let period = plan.rules()[0].quota().period().as_nanos();
        clock.advance(Nanos::from_nanos(period / 16 * 19 + 12_345_000));
        let rest = [take(1, 100), take(1, 900)];
        assert!(rest[0] == 100 && (1..=900).contains(&rest[1]), "{encoding:?}, {text}: {rest:?}");
        assert_eq!(take(900, 900), 0, "{encoding:?}, {text}");
    }
}

#[test]
fn usual_states_are_read_and_written_in_one_go() {
    for encoding in [Encoding::Ascii, Encoding::Binary] {
        // On servers, whose hashes keep the order in which they are written.
        for server in Server::each() {
            usual_states_need_nothing_rare(link(&server), encoding);
            usual_grants_need_nothing_rare(link(&server), encoding);
        }
    }
}

/// A store on a real server, whose time a test gives.
pub(super) fn server_store(server: &Server, encoding: Encoding, clock: &FakeClock) -> ScriptedStore<Link> {
    let given: Option<Arc<dyn Clock>> = Some(Arc::new(clock.clone()));
    let settings = ScriptSettings { given, ..settings(encoding) };
    ScriptedStore::new(link(server), ScriptLibrary::new(ScriptTime::Given), settings)
}

/// How long a server may take: longer than any busy machine does.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn link(server: &Server) -> Link {
    let options =
        LinkOptions { command_timeout: PATIENCE, connect_timeout: PATIENCE, ..LinkOptions::default() };
    let address = RedisAddress::parse(&server.url()).unwrap();
    Link::open(&address, &options, BreakerFactory::default())
}

fn walk_on(
    store: &impl Store,
    clock: &FakeClock,
    runtime: &Runtime,
    encoding: Encoding,
    terms: WalkTerms<'_>,
    now: Timestamp,
    steps: &[WalkStep],
) -> Result<(), TestCaseError> {
    let set_time = |now| clock.set(now);
    Walk { store, set_time: &set_time, runtime, now }.through(encoding, terms, steps, |_, _| Ok(()))
}
