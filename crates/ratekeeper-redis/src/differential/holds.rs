//! Holds over scripts against those in memory: the same calls at the same time get the same answers.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use proptest::test_runner::{TestCaseError, TestRunner};
use ratekeeper::port::{Clock, HoldAction, HoldChange, HoldId, HoldRequest, Plans, Request, Store};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Amounts, Key, MemoryStore, Nanos, OnLapse, Plan, Rules, Timestamp};
use tokio::runtime::Runtime;

use super::lua::LuaServer;
use super::shapes::server_store;
use super::support::server::Server;
use super::walks::{cases, runtime, settings};
use crate::encoding::Encoding;
use crate::script::{ScriptLibrary, ScriptTime};
use crate::scripted::{ScriptSettings, ScriptedStore};
use crate::thorough::share;

/// How many walks in Lua, for each encoding.
const WALKS: u32 = 400;

/// How many on a server, for each encoding.
const SERVER_WALKS: u32 = 40;

/// Some plans by name.
#[derive(Debug)]
struct SomePlans(Vec<Arc<Plan>>);

impl Plans for SomePlans {
    fn find(&self, name: &str) -> Option<Arc<Plan>> {
        self.0.iter().find(|plan| plan.name() == name).cloned()
    }
}

#[derive(Clone, Debug)]
enum HoldStep {
    Hold { plans: u8, requests: u64, tokens: u64, lease: u64 },
    Settle(Index, Option<u64>, Option<u64>),
    Cancel(Index),
    Extend(Index, u64),
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
        5 => (any::<Index>(), maybe(), maybe()).prop_map(|(id, requests, tokens)| HoldStep::Settle(id, requests, tokens)),
        3 => any::<Index>().prop_map(HoldStep::Cancel),
        2 => (any::<Index>(), lease()).prop_map(|(id, lease)| HoldStep::Extend(id, lease)),
        2 => (1_u8..8, amount(), amount())
            .prop_map(|(plans, requests, tokens)| HoldStep::Peek { plans, requests, tokens }),
        1 => (amount(), amount()).prop_map(|(requests, tokens)| HoldStep::Debit { requests, tokens }),
        1 => (1_u8..8).prop_map(|plans| HoldStep::Reset { plans }),
        5 => prop_oneof![0_u64..3_000_000, Just(60_000_000), Just(120_000_000)].prop_map(HoldStep::Forward),
    ]
}

/// A plan with what is in flight, one with rates of every kind, one with rules in shadow.
fn plans() -> impl Strategy<Value = Vec<Arc<Plan>>> {
    let word =
        || prop::sample::select(vec!["", " bucket", " leaky", " fixed", " fixed grid", " sliding", " log"]);
    let refunds = prop_oneof![Just(0_u8), any::<u8>()];
    (word(), word(), word(), word(), refunds).prop_map(|(a, b, c, d, refunds)| {
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
    })
}

struct HoldWalk<'a, S> {
    store: &'a S,
    memory: &'a MemoryStore,
    clock: &'a FakeClock,
    runtime: &'a Runtime,
    plans: SomePlans,
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
                    let id = HoldId::from_bits(1_000 + number as u128);
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
                    self.change(*id.get(&made), HoldAction::Settle(Amounts::of(&units)), &what)?;
                }
                HoldStep::Cancel(id) => self.change(*id.get(&made), HoldAction::Cancel, &what)?,
                HoldStep::Extend(id, lease) => {
                    self.change(*id.get(&made), HoldAction::Extend(Nanos::from_millis(*lease)), &what)?;
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
struct InTurn<S>([S; 2], std::sync::atomic::AtomicUsize);

impl<S: Store> InTurn<S> {
    fn next(&self) -> &S {
        &self.0[self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 2]
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
        let walk = |(plans, steps): DrawnHolds| {
            let (engine, clock) =
                (Arc::new(LuaServer::new()), FakeClock::at(Timestamp::from_secs(1_761_912_000)));
            let store = || {
                let given: Option<Arc<dyn Clock>> = Some(Arc::new(clock.clone()));
                let settings = ScriptSettings { given, ..settings(encoding) };
                ScriptedStore::new(Arc::clone(&engine), ScriptLibrary::new(ScriptTime::Given), settings)
            };
            let store = InTurn([store(), store()], Default::default());
            let memory = MemoryStore::builder().clock(clock.clone()).build();
            let plans = SomePlans(plans);
            HoldWalk { store: &store, memory: &memory, clock: &clock, runtime: &runtime, plans }
                .through(&steps)
        };
        if let Err(error) = TestRunner::new(cases(WALKS)).run(&drawn(), walk) {
            panic!("{encoding:?}: {error}");
        }
    }
}

#[test]
fn holds_on_servers_are_those_in_memory() {
    let runtime = runtime();
    for server in Server::each() {
        for encoding in [Encoding::Ascii, Encoding::Binary] {
            let mut runner = TestRunner::new(cases(1));
            for case in 0..share(SERVER_WALKS) {
                let (plans, steps) = drawn().new_tree(&mut runner).unwrap().current();
                let clock = FakeClock::at(Timestamp::from_secs(1_761_912_000));
                let store = || {
                    let mut store = server_store(&server, encoding, &clock);
                    store.settings.prefix = format!("{encoding:?}{case}");
                    store
                };
                let store = InTurn([store(), store()], Default::default());
                let memory = MemoryStore::builder().clock(clock.clone()).build();
                let shown = format!("{plans:?}\n{steps:?}");
                let plans = SomePlans(plans);
                let walk =
                    HoldWalk { store: &store, memory: &memory, clock: &clock, runtime: &runtime, plans };
                if let Err(error) = walk.through(&steps) {
                    panic!("{encoding:?}: {error}\n{shown}");
                }
            }
        }
    }
}
