//! Random histories of several instances over one store, with calls that are late, lost or forgotten: at every step, and
//! in every span of time, no more than is promised.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use ratekeeper::port::{Clock, Store};
use ratekeeper::{Algorithm, Decision, MemoryStore, Nanos, Plan, StoreError, Timestamp, TokioClock};
use test_support::cases::config;
use test_support::fake_store::{Fate, Trip, Verb};
use tokio::runtime::Handle;

use super::far_store::{FarStore, LOST_BACK, LOST_THERE, Node, leased_plan, request, request_of, settle};

/// Something that happens.
#[derive(Clone, Debug)]
enum Act {
    Advance(u64),
    /// So many requests of this cost, one after another.
    Ask {
        node: usize,
        key: usize,
        cost: u64,
        times: u8,
    },
    /// A demand that cannot be met, and then as much as that allows to be held.
    Hoard {
        node: usize,
    },
    Crash {
        node: usize,
    },
    Reset {
        node: usize,
    },
    /// What becomes of this instance's next call.
    Trip {
        node: usize,
        there: u64,
        back: u64,
        fate: u8,
    },
}

const NODES: usize = 10;

/// What histories are made of.
#[derive(Clone, Copy, Debug)]
struct Mix {
    life: u64,
    keys: usize,
    resets: u32,
}

fn act(mix: Mix) -> impl Strategy<Value = Act> {
    let Mix { life, keys, resets } = mix;
    let node = 0..NODES;
    let late = prop_oneof![4 => Just(0), 4 => 0..life / 10, 1 => 0..life * 2];
    prop_oneof![
        6 => prop_oneof![0..life / 8, Just(life / 4), Just(life - 1), Just(life), 0..life * 3].prop_map(Act::Advance),
        6 => (node.clone(), 0..keys, prop_oneof![3 => Just(1), 1 => 1..60_u64], 1..40_u8)
            .prop_map(|(node, key, cost, times)| Act::Ask { node, key, cost, times }),
        resets => node.clone().prop_map(|node| Act::Reset { node }),
        4 => node.clone().prop_map(|node| Act::Hoard { node }),
        1 => node.clone().prop_map(|node| Act::Crash { node }),
        3 => (node, late.clone(), late, 0..8_u8)
            .prop_map(|(node, there, back, fate)| Act::Trip { node, there, back, fate }),
    ]
}

/// One admission: when it was told.
#[derive(Clone, Copy, Debug)]
struct Admitted {
    key: usize,
    at: Timestamp,
    cost: u64,
}

/// Says what is wrong with these admissions, in the order of time: whether in some span there were more than is promised.
fn judge(plan: &Plan, admitted: &[Admitted]) -> Result<(), String> {
    let leasing = plan.leasing().unwrap();
    for rule in plan.rules() {
        let quota = rule.quota();
        let period = quota.period();
        match quota.algorithm() {
            Algorithm::FixedWindow(_) => {
                let window =
                    |at: Timestamp| at.as_nanos().div_euclid(i64::try_from(period.as_nanos()).unwrap());
                for same in admitted.chunk_by(|one, other| window(one.at) == window(other.at)) {
                    let sum: u64 = same.iter().map(|one| one.cost).sum();
                    if sum > quota.burst() {
                        return Err(format!("{sum} of {} in a window", quota.burst()));
                    }
                }
            }
            Algorithm::SlidingWindow => {
                let bound = 2 * quota.burst() + leasing.excess(quota) + 2;
                let (mut first, mut sum) = (0, 0);
                for one in admitted {
                    sum += one.cost;
                    while one.at.since(admitted[first].at) >= period {
                        sum -= admitted[first].cost;
                        first += 1;
                    }
                    if sum > bound {
                        return Err(format!("{sum} of {bound} in a span of one window"));
                    }
                }
            }
            _ => {
                let per_nano = quota.count() as f64 / period.as_nanos() as f64;
                let bound = quota.burst() as f64 + per_nano * leasing.life.as_nanos() as f64 + 1e-6;
                // The most, over all spans that end here, of what was admitted in them less what refilled.
                let (mut level, mut before) = (0.0_f64, Timestamp::EPOCH);
                for one in admitted {
                    level = (level - per_nano * one.at.since(before).as_nanos() as f64).max(0.0)
                        + one.cost as f64;
                    before = one.at;
                    if level > bound {
                        return Err(format!("{level} of {bound} beside what refilled, in some span"));
                    }
                }
            }
        }
    }
    Ok(())
}

/// Everything that was admitted, and what was wrong with an answer.
#[derive(Debug, Default)]
struct Seen {
    admitted: Vec<Admitted>,
    wrong: Option<String>,
}

impl Seen {
    fn note(&mut self, key: usize, cost: u64, answer: Result<Decision, StoreError>) {
        let Ok(decision) = answer else { return };
        if decision.allowed && decision.charged_at().is_none() {
            self.wrong = Some(format!("nobody charged for {decision:?}"));
        } else if decision.allowed {
            self.admitted.push(Admitted { key, at: TokioClock.now(), cost });
        } else if decision.retry_after == Some(Nanos::ZERO) {
            self.wrong = Some("refused, and told to try at once".to_owned());
        }
    }
}

struct World {
    plan: Arc<Plan>,
    shared: Arc<MemoryStore>,
    nodes: Vec<Node>,
    seen: Arc<Mutex<Seen>>,
    forgets_age: bool,
    keys: usize,
    resets: Vec<Timestamp>,
}

impl World {
    fn new(plan: &Plan, keys: usize, forgets_age: bool) -> Self {
        let shared = Arc::new(MemoryStore::default());
        let mut world = World {
            plan: Arc::new(plan.clone()),
            shared,
            nodes: Vec::new(),
            seen: Arc::default(),
            forgets_age,
            keys,
            resets: Vec::new(),
        };
        world.nodes = (0..NODES).map(|_| world.node()).collect();
        world
    }

    fn node(&self) -> Node {
        let mut far = FarStore::new(&self.shared);
        if self.forgets_age {
            far.store = far.store.forgets_ages();
        }
        far.on_the_wire(|wire| wire.life = self.plan.leasing().unwrap().life.as_duration());
        Node::new(far)
    }

    /// Asks without waiting for the answer, which may be late. Lets what that has begun run on.
    async fn ask(&self, node: usize, key: usize, cost: u64) {
        let tasks = Handle::current().metrics();
        let before = tasks.num_alive_tasks();
        let node = &self.nodes[node];
        match node.leased.acquire(request_of(&self.plan, key, cost)).now() {
            Ok(answer) => self.seen.lock().unwrap().note(key, cost, answer),
            // An answer that is not ready has not begun.
            Err(_) => {
                let (node, plan, seen) = (node.clone(), Arc::clone(&self.plan), Arc::clone(&self.seen));
                tokio::spawn(async move {
                    let answer = node.leased.acquire(request_of(&plan, key, cost)).await;
                    seen.lock().unwrap().note(key, cost, answer);
                });
            }
        }
        // Most answers are ready and begin nothing: then there is nothing to wait for.
        if tasks.num_alive_tasks() > before {
            settle().await;
        }
    }

    async fn act(&mut self, act: Act) {
        match act {
            Act::Advance(nanos) => {
                tokio::time::advance(Duration::from_nanos(nanos)).await;
                settle().await;
            }
            Act::Ask { node, key, cost, times } => {
                for _ in 0..times {
                    self.ask(node, key, cost).await;
                }
            }
            Act::Hoard { node } => {
                let whole = self.plan.rules().iter().map(|rule| rule.quota().burst()).min().unwrap();
                let counts = self.nodes[node].leased.statistics();
                let warm = if counts.full + counts.short + counts.refused == 0 { 3 } else { 0 };
                for cost in [1, 1, 1].into_iter().take(warm).chain([whole, 1]) {
                    self.ask(node, 0, cost).await;
                }
            }
            Act::Crash { node } => {
                self.nodes[node].far.store.freeze();
                self.nodes[node] = self.node();
            }
            Act::Reset { node } => {
                let reset = self.nodes[node].leased.reset(request_of(&self.plan, 0, 1)).await;
                reset.unwrap();
                self.resets.push(TokioClock.now());
                settle().await;
            }
            Act::Trip { node, there, back, fate } => {
                let fate = match fate {
                    0 => LOST_THERE,
                    1 => LOST_BACK,
                    _ => Fate::Answered,
                };
                let (there, back) = (Duration::from_nanos(there), Duration::from_nanos(back));
                let trip = Trip { there, back, fate, ..Trip::default() };
                self.nodes[node].far.on_the_wire(|wire| wire.trips.push_back(trip));
            }
        }
    }

    /// Says what is wrong now: more could be spent at once than is promised, or tokens came from nowhere.
    async fn check(&self) -> Result<(), String> {
        if let Some(wrong) = self.seen.lock().unwrap().wrong.take() {
            return Err(wrong);
        }
        for node in &self.nodes {
            let most = node.far.on_the_wire(|wire| wire.most_in_the_air);
            // Of a key that was reset, a call of before may still be on its way.
            if most > 1 && self.keys == 1 && self.resets.is_empty() {
                return Err(format!("{most} calls for one key at once"));
            }
        }
        let leasing = self.plan.leasing().unwrap();
        let is_reset = self.resets.last().is_some_and(|reset| TokioClock.now().since(*reset) < leasing.life);
        let [only] = self.plan.rules() else { return Ok(()) };
        let quota = only.quota();
        if self.keys == 1 && !is_reset && !matches!(quota.algorithm(), Algorithm::SlidingWindow) {
            let left: u64 = self.nodes.iter().map(|node| node.leased.statistics().left).sum();
            let there = self.shared.peek(request(&self.plan, 0)).await.unwrap().remaining;
            let bound = quota.burst() + leasing.excess(quota);
            if there + left > bound {
                return Err(format!("{there} in the store and {left} held, of {bound}"));
            }
        }
        Ok(())
    }

    /// Once nothing is on its way, every token that was granted is somewhere.
    async fn check_sums(&self) -> Result<(), String> {
        tokio::time::advance(Duration::from_secs(30)).await;
        for _ in 0..20 {
            settle().await;
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        for node in &self.nodes {
            let (counts, granted) = (node.leased.statistics(), node.far.store.told(Verb::AcquireUpTo));
            // What has ended stays where it is until somebody looks.
            node.leased.close().await;
            let closed = node.leased.statistics();
            if closed.spent + closed.returned + closed.burnt != granted {
                return Err(format!("{granted} were granted: {counts:?}, then {closed:?}"));
            }
        }
        Ok(())
    }
}

/// Runs a history, and says what was wrong first.
fn run(plan: &Plan, keys: usize, acts: &[Act], forgets_age: bool) -> Result<(), String> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut world = World::new(plan, keys, forgets_age);
        for (step, act) in acts.iter().enumerate() {
            world.act(act.clone()).await;
            world.check().await.map_err(|wrong| format!("step {step}, {act:?}: {wrong}"))?;
        }
        world.check_sums().await?;
        let mut admitted = std::mem::take(&mut world.seen.lock().unwrap().admitted);
        admitted.sort_by_key(|one| one.at);
        for key in 0..keys {
            let of_key: Vec<Admitted> = admitted.iter().copied().filter(|one| one.key == key).collect();
            // What others held at a reset they may spend for the life of a lease.
            let life = plan.leasing().unwrap().life;
            let is_apart = |one: &Admitted| {
                let mut resets = world.resets.iter().filter(|_| key == 0);
                !resets.any(|reset| *reset <= one.at && one.at.since(*reset) < life)
            };
            let epoch = |one: &Admitted| world.resets.iter().filter(|reset| **reset <= one.at).count();
            let apart: Vec<Admitted> = of_key.into_iter().filter(is_apart).collect();
            for same in apart.chunk_by(|one, other| key != 0 || epoch(one) == epoch(other)) {
                judge(plan, same)?;
            }
        }
        Ok(())
    })
}

fn holds_for(text: &str, lease: &str) {
    holds(text, lease, 1, 0, 200);
}

fn holds(text: &str, lease: &str, keys: usize, resets: u32, cases: u32) {
    let plan = leased_plan(text, lease);
    let life = plan.leasing().unwrap().life.as_nanos();
    let histories = proptest::collection::vec(act(Mix { life, keys, resets }), 1..300);
    let mut runner = TestRunner::new(config(cases));
    let outcome = runner.run(&histories, |acts| run(&plan, keys, &acts, false).map_err(TestCaseError::fail));
    outcome.unwrap();
}

#[test]
fn keys_that_are_reset() {
    holds("100/s burst 1000", "300ms", 1, 2, 120);
    holds("1000 per 2s fixed grid", "10%", 1, 2, 120);
}

/// More keys than places.
#[test]
fn keys_that_displace_each_other() {
    holds("100/s burst 1000", "300ms", 9, 0, 120);
    holds("1000 per 2s fixed grid", "10%", 9, 1, 120);
}

#[test]
fn gcra_that_refills_fast() {
    holds_for("1000/s", "10%");
}

#[test]
fn gcra_that_refills_slowly() {
    holds_for("10/s burst 1000", "500ms");
}

#[test]
fn a_token_bucket() {
    holds_for("100/s burst 1000 bucket", "300ms");
}

#[test]
fn a_leaky_bucket() {
    holds_for("100/s burst 400 leaky", "200ms");
}

#[test]
fn windows_on_a_grid() {
    holds_for("1000 per 2s fixed grid", "10%");
}

#[test]
fn a_sliding_window() {
    holds_for("1000 per 2s sliding", "10%");
}

#[test]
fn several_rules() {
    holds_for("1000/s; 900 per 2s fixed grid; 100/s burst 1000 bucket", "10%");
}

/// The proof stands on this: of what is given back late, what has refilled meanwhile stays behind.
#[test]
fn without_the_discount_tokens_are_minted() {
    let plan = leased_plan("100/s burst 1000", "500ms");
    let life = plan.leasing().unwrap().life.as_nanos();
    let mut acts = Vec::new();
    // Two halves pass on to each other what they do not spend, always as it ends.
    for round in 0..20 {
        let half = if round % 2 == 0 { 0..NODES / 2 } else { NODES / 2..NODES };
        acts.extend(half.map(|node| Act::Hoard { node }));
        acts.push(Act::Advance(life / 2));
    }
    assert_eq!(run(&plan, 1, &acts, false), Ok(()));
    let wrong = run(&plan, 1, &acts, true).unwrap_err();
    assert!(wrong.contains("held, of 1050"), "{wrong}");
}
