//! Holds over scripts against those in memory: the same calls at the same time get the same answers.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use ratekeeper::port::{Clock, HoldAction, HoldChange, HoldId, HoldRequest, Plans, Request, Store};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Amounts, Key, MemoryStore, Nanos, OnLapse, Plan, Rules, Timestamp};
use tokio::runtime::Runtime;

use super::lua::{Keyspace, LuaServer};
use super::shapes::server_store;
use super::walks::{CaseCount, runtime, settings};
use crate::encoding::Encoding;
use crate::script::{ScriptLibrary, ScriptTime};
use crate::scripted::{RunScript, ScriptSettings, ScriptedStore};
use test_support::redis::server::Server;

/// The number of walks in Lua, for each encoding.
const WALKS: CaseCount = CaseCount { ordinary: 10, thorough: 80 };

/// The number of walks on each server, for each encoding.
const SERVER_WALKS: CaseCount = CaseCount { ordinary: 2, thorough: 40 };

/// When each walk begins.
const START: Timestamp = Timestamp::from_secs(1_761_912_000);

/// Every rate, as the end of a quota's text.
const RATES: [&str; 7] = ["", " bucket", " leaky", " fixed", " fixed grid", " sliding", " log"];

/// Some plans by name.
#[derive(Debug)]
struct SomePlans(Vec<Arc<Plan>>);

impl Plans for SomePlans {
    fn find(&self, name: &str) -> Option<Arc<Plan>> {
        self.0.iter().find(|plan| plan.name() == name).cloned()
    }
}

/// What happens on a walk. Holds are named by their place in the list of ids, modulo its length.
#[derive(Clone, Debug)]
enum HoldStep {
    Hold { plans: u8, requests: u64, tokens: u64, lease: u64 },
    Settle(usize, Option<u64>, Option<u64>),
    Cancel(usize),
    Extend(usize, u64),
    Peek { plans: u8, requests: u64, tokens: u64 },
    Debit { requests: u64, tokens: u64 },
    Reset { plans: u8 },
    Forward(u64),
}

fn amount() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 0_u64..6, 3 => 0_u64..120, 1 => 0..=i64::MAX.cast_unsigned()]
}

fn step() -> impl Strategy<Value = HoldStep> {
    let lease = || prop_oneof![3 => 1_u64..2_000, 2 => Just(60_000_u64), 1 => Just(86_400_000_u64)];
    let maybe = || prop::option::of(amount());
    prop_oneof![
        8 => (1_u8..8, amount(), amount(), lease())
            .prop_map(|(plans, requests, tokens, lease)| HoldStep::Hold { plans, requests, tokens, lease }),
        5 => (any::<usize>(), maybe(), maybe()).prop_map(|(id, requests, tokens)| HoldStep::Settle(id, requests, tokens)),
        3 => any::<usize>().prop_map(HoldStep::Cancel),
        2 => (any::<usize>(), lease()).prop_map(|(id, lease)| HoldStep::Extend(id, lease)),
        2 => (1_u8..8, amount(), amount())
            .prop_map(|(plans, requests, tokens)| HoldStep::Peek { plans, requests, tokens }),
        1 => (amount(), amount()).prop_map(|(requests, tokens)| HoldStep::Debit { requests, tokens }),
        1 => (1_u8..8).prop_map(|plans| HoldStep::Reset { plans }),
        5 => prop_oneof![0_u64..3_000_000, Just(60_000_000), Just(120_000_000)].prop_map(HoldStep::Forward),
    ]
}

/// A plan with what is in flight, one with rates of every kind, one with rules in shadow.
fn plans() -> impl Strategy<Value = Vec<Arc<Plan>>> {
    let rate = || prop::sample::select(RATES.to_vec());
    let refunds = prop_oneof![Just(0_u8), any::<u8>()];
    ([rate(), rate(), rate(), rate()], refunds).prop_map(|(rates, refunds)| plans_of(rates, refunds))
}

/// The plans with these rates. Those that have a bit in `refunds` give back what has lapsed.
fn plans_of([a, b, c, d]: [&str; 4], refunds: u8) -> Vec<Arc<Plan>> {
    let plan = |name: &str, texts: &[String], shadow: &[String]| {
        let [texts, shadow] = [texts, shadow].map(|texts| texts.iter().map(String::as_str));
        Plan::with_shadow(name, texts, shadow).unwrap()
    };
    let plans = [
        plan("llm", &[format!("60/m{a}"), format!("100 tokens/m{b}"), "4 concurrent".into()], &[]),
        plan("rates", &[format!("9 per 10s{c}"), format!("50 tokens per 7s{d}")], &[]),
        plan(
            "shadow",
            &[format!("200 tokens/m{d}"), "90 tokens concurrent".into()],
            &[format!("5/m{b}"), "2 concurrent".into()],
        ),
    ];
    let lapse = |at: usize| if refunds >> at & 1 == 1 { OnLapse::Refund } else { OnLapse::Keep };
    plans.into_iter().enumerate().map(|(at, plan)| Arc::new(plan.on_lapse(lapse(at)))).collect()
}

/// Every step at least once, with holds of every plan: settled, cancelled, prolonged, and left to lapse.
fn every_step() -> Vec<HoldStep> {
    use HoldStep::{Cancel, Debit, Extend, Forward, Hold, Peek, Reset, Settle};
    let hold = |requests, tokens, lease| Hold { plans: 7, requests, tokens, lease };
    let peek = Peek { plans: 7, requests: 1, tokens: 1 };
    vec![
        // No hold has this id.
        Cancel(0),
        hold(1, 20, 60_000),
        hold(2, 10, 60_000),
        hold(1, 5, 1_500),
        peek.clone(),
        Settle(1, Some(1), Some(25)),
        Settle(1, None, None),
        Cancel(2),
        Extend(3, 2_000),
        Forward(1_700_000),
        peek.clone(),
        Forward(400_000),
        Debit { requests: 2, tokens: 30 },
        peek.clone(),
        hold(6, 90, 60_000),
        Extend(3, 60_000),
        Reset { plans: 7 },
        peek.clone(),
        hold(1, 60, 1_000),
        hold(1, 60, 1_000),
        Forward(60_000_000),
        peek,
    ]
}

struct HoldWalk<'a, S> {
    store: &'a S,
    memory: &'a MemoryStore,
    clock: &'a FakeClock,
    runtime: &'a Runtime,
    plans: SomePlans,
    /// The bits of the first id: stores remember the holds of other walks.
    first_id: u128,
}

impl<S: Store> HoldWalk<'_, S> {
    fn chosen(&self, bits: u8) -> Vec<Arc<Plan>> {
        self.plans
            .0
            .iter()
            .enumerate()
            .filter(|(at, _)| bits >> at & 1 == 1)
            .map(|(_, plan)| Arc::clone(plan))
            .collect()
    }

    fn through(&self, steps: &[HoldStep]) -> Result<(), TestCaseError> {
        let both: [&dyn Store; 2] = [self.store, self.memory];
        let key = Key::new("who").unwrap();
        let mut made = vec![HoldId::from_bits(7)];
        for (number, step) in steps.iter().enumerate() {
            let what = format!("step {number}, {step:?}");
            match step {
                HoldStep::Hold { plans, requests, tokens, lease } => {
                    let (plans, units) = (self.chosen(*plans), [("tokens", *tokens)]);
                    let id = HoldId::from_bits(self.first_id + number as u128);
                    let lease = Nanos::from_millis(*lease);
                    let amounts = Amounts::new(*requests, &units);
                    let hold = HoldRequest { key, plans: &plans, amounts, id, lease };
                    let [found, expected] =
                        both.map(|store| self.runtime.block_on(store.hold(hold)).unwrap());
                    prop_assert_eq!(&found, &expected, "{}", what);
                    if found.decision.allowed {
                        made.push(id);
                    }
                }
                HoldStep::Settle(id, requests, tokens) => {
                    let units: Vec<(&str, u64)> = requests
                        .map(|n| ("requests", n))
                        .into_iter()
                        .chain(tokens.map(|n| ("tokens", n)))
                        .collect();
                    self.change(made[*id % made.len()], HoldAction::Settle(Amounts::of(&units)), &what)?;
                }
                HoldStep::Cancel(id) => self.change(made[*id % made.len()], HoldAction::Cancel, &what)?,
                HoldStep::Extend(id, lease) => {
                    self.change(
                        made[*id % made.len()],
                        HoldAction::Extend(Nanos::from_millis(*lease)),
                        &what,
                    )?;
                }
                HoldStep::Peek { plans, requests, tokens } => {
                    let (plans, units) = (self.chosen(*plans), [("tokens", *tokens)]);
                    let request = Request::of(key, Rules::Plans(&plans), Amounts::new(*requests, &units));
                    let [found, expected] =
                        both.map(|store| self.runtime.block_on(store.peek_each(request)).unwrap());
                    prop_assert_eq!(&found, &expected, "{}", what);
                }
                HoldStep::Debit { requests, tokens } => {
                    let (plans, units) = (self.chosen(2), [("tokens", *tokens)]);
                    let request = Request::of(key, Rules::Plans(&plans), Amounts::new(*requests, &units));
                    let [found, expected] =
                        both.map(|store| self.runtime.block_on(store.debit(request)).unwrap());
                    prop_assert_eq!(&found, &expected, "{}", what);
                }
                HoldStep::Reset { plans } => {
                    let plans = self.chosen(*plans);
                    let request = Request::of(key, Rules::Plans(&plans), Amounts::UNSAID);
                    let counts = both.map(|store| self.runtime.block_on(store.reset(request)).unwrap());
                    prop_assert_eq!(counts[0], counts[1], "{}", what);
                }
                HoldStep::Forward(micros) => self.clock.advance(Nanos::from_nanos(micros * 1_000)),
            }
        }
        Ok(())
    }

    fn change(&self, id: HoldId, action: HoldAction<'_>, what: &str) -> Result<(), TestCaseError> {
        let both: [&dyn Store; 2] = [self.store, self.memory];
        let change = HoldChange { key: Key::new("who").unwrap(), id, action, plans: &self.plans };
        let [found, expected] = both.map(|store| self.runtime.block_on(store.change_hold(change)));
        match (found, expected) {
            (Ok(found), Ok(expected)) => {
                prop_assert_eq!(found, expected, "{}", what);
            }
            (Err(found), Err(expected)) => {
                prop_assert_eq!(found.to_string(), expected.to_string(), "{}", what)
            }
            (found, expected) => prop_assert!(false, "{what}: {found:?}, {expected:?}"),
        }
        Ok(())
    }
}

type DrawnHolds = (Vec<Arc<Plan>>, Vec<HoldStep>);

fn drawn() -> impl Strategy<Value = DrawnHolds> {
    (plans(), prop::collection::vec(step(), 1..60))
}

/// Two stores take turns, so that each must look up what the other has made.
#[derive(Debug)]
struct InTurn<S>([S; 2], AtomicUsize);

impl<R: RunScript> InTurn<ScriptedStore<R>> {
    /// Two stores, whose scripts are written once for all walks.
    fn new(mut store: impl FnMut() -> ScriptedStore<R>) -> RefCell<Self> {
        RefCell::new(InTurn([store(), store()], AtomicUsize::new(0)))
    }

    /// Walks from [`START`] on, beside a store in memory. `number` is that of the walk, none of which sees the holds of another.
    fn walk(
        &mut self,
        clock: &FakeClock,
        runtime: &Runtime,
        number: usize,
        (plans, steps): DrawnHolds,
    ) -> Result<(), TestCaseError> {
        // One walk is like another, whichever were before.
        self.1 = AtomicUsize::new(0);
        clock.set(START);
        let memory = MemoryStore::builder().clock(clock.clone()).build();
        let (plans, first_id) = (SomePlans(plans), (number as u128 + 1) << 32);
        HoldWalk { store: &*self, memory: &memory, clock, runtime, plans, first_id }.through(&steps)
    }
}

impl<S: Store> InTurn<S> {
    fn next(&self) -> &S {
        &self.0[self.1.fetch_add(1, Ordering::Relaxed) % 2]
    }
}

impl<S: Store> Store for InTurn<S> {
    fn acquire<'a>(&'a self, request: Request<'a>) -> ratekeeper::port::Answer<'a, ratekeeper::Decision> {
        self.next().acquire(request)
    }

    fn acquire_up_to<'a>(
        &'a self,
        request: Request<'a>,
        most: ratekeeper::Cost,
    ) -> ratekeeper::port::Answer<'a, ratekeeper::port::Grant> {
        self.next().acquire_up_to(request, most)
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> ratekeeper::port::Answer<'a, ratekeeper::Decision> {
        self.next().peek(request)
    }

    fn peek_each<'a>(
        &'a self,
        request: Request<'a>,
    ) -> ratekeeper::port::Answer<'a, ratekeeper::port::Standing> {
        self.next().peek_each(request)
    }

    fn debit<'a>(&'a self, request: Request<'a>) -> ratekeeper::port::Answer<'a, ratekeeper::port::Standing> {
        self.next().debit(request)
    }

    fn hold<'a>(&'a self, hold: HoldRequest<'a>) -> ratekeeper::port::Answer<'a, ratekeeper::port::Standing> {
        self.next().hold(hold)
    }

    fn change_hold<'a>(
        &'a self,
        change: HoldChange<'a>,
    ) -> ratekeeper::port::Answer<'a, ratekeeper::port::HoldOutcome> {
        self.next().change_hold(change)
    }

    fn refund<'a>(
        &'a self,
        request: Request<'a>,
        charged: ratekeeper::Charged,
    ) -> ratekeeper::port::Answer<'a, ratekeeper::Decision> {
        self.next().refund(request, charged)
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> ratekeeper::port::Answer<'a, u64> {
        self.next().reset(request)
    }
}

#[test]
fn holds_in_lua_are_those_in_memory() {
    let runtime = runtime();
    for encoding in [Encoding::Ascii, Encoding::Binary] {
        let (engine, clock, walks) = (Arc::new(LuaServer::new()), FakeClock::default(), Cell::new(0));
        let stores = InTurn::new(|| {
            let given: Option<Arc<dyn Clock>> = Some(Arc::new(clock.clone()));
            let settings = ScriptSettings { given, ..settings(encoding) };
            ScriptedStore::new(Arc::clone(&engine), ScriptLibrary::new(ScriptTime::Given), settings)
        });
        let walk = |drawn| {
            *engine.keyspace.lock().unwrap() = Keyspace::default();
            let number = walks.replace(walks.get() + 1);
            stores.borrow_mut().walk(&clock, &runtime, number, drawn)
        };
        for (place, rate) in RATES.iter().enumerate() {
            // Every other one gives back what has lapsed.
            let refunds = if place % 2 == 0 { 0b111 } else { 0 };
            if let Err(error) = walk((plans_of([rate; 4], refunds), every_step())) {
                panic!("{encoding:?},{rate}: {error}");
            }
        }
        WALKS.check(format_args!("{encoding:?}"), &drawn(), walk);
    }
}

#[test]
fn holds_on_servers_are_those_in_memory() {
    let runtime = runtime();
    for server in Server::each() {
        for encoding in [Encoding::Ascii, Encoding::Binary] {
            let (clock, walks) = (FakeClock::default(), Cell::new(0));
            let stores = InTurn::new(|| server_store(&server, encoding, &clock));
            SERVER_WALKS.check(format_args!("{encoding:?}"), &drawn(), |drawn| {
                let (number, mut stores) = (walks.replace(walks.get() + 1), stores.borrow_mut());
                // Keys of its own.
                stores.0.iter_mut().for_each(|store| store.settings.prefix = format!("{encoding:?}{number}"));
                stores.walk(&clock, &runtime, number, drawn)
            });
        }
    }
}
