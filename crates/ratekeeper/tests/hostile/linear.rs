//! Random concurrent histories on the store in memory: every algorithm and verb, threads whose clocks disagree.
//!
//! Each thread reads a clock of its own, which is set before every call to an instant of the test's choosing, before
//! or after what others have read: as if the thread had been put to sleep after it looked at the time. In the order
//! that is searched for, time does not go back: the store decides at the latest instant that it has been told.

use std::cell::Cell;
use std::fmt::Debug;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use ratekeeper::algorithm::{self, Meter, Tenancy, View};
use ratekeeper::port::{Clock, Request, Store};
use ratekeeper::{Charged, Cost, Decision, Key, MemoryStore, Nanos, Plan, Quota, Rules, State, Timestamp};

use crate::history::{Call, Sequential, Verdict, explain};
use crate::random::Random;

thread_local! {
    static NOW: Cell<Timestamp> = const { Cell::new(Timestamp::EPOCH) };
}

/// The clock of whichever thread reads it.
#[derive(Debug)]
struct OwnClock;

impl Clock for OwnClock {
    fn now(&self) -> Timestamp {
        NOW.get()
    }
}

/// Few keys, so that calls meet.
const KEYS: [&str; 2] = ["one", "other"];

const QUOTAS: [&str; 7] =
    ["4/s", "4/s bucket", "4/s leaky", "4/s fixed", "4/s fixed grid", "4/s sliding", "4/s log"];

/// Histories of every quota.
const HISTORIES: u64 = 250;

#[derive(Clone, Copy, Debug)]
enum Verb {
    Acquire,
    /// At an instant that is handed over.
    AcquireAt,
    /// In a batch: each is a call of its own, and somebody else may come between two of them.
    AcquireMany,
    AcquireUpTo,
    Peek,
    Refund(Charged),
    Reset,
}

#[derive(Clone, Copy, Debug)]
struct Question {
    key: usize,
    verb: Verb,
    cost: Cost,
    now: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
enum Answer {
    Decided(Decision),
    Granted(Cost, Decision),
    Forgotten(u64),
}

/// One key as the pure algorithms see it.
#[derive(Clone, Debug, Default)]
struct Known {
    state: Option<State>,
    /// When something was last forgotten: what was charged until then is not given back.
    reset_at: Option<Timestamp>,
}

/// A store that is asked one after another.
#[derive(Clone, Debug)]
struct Model<'q> {
    quota: &'q Quota,
    keys: [Known; 2],
    /// The latest instant that each key's shard has seen.
    latest: [Timestamp; 2],
    /// Both keys lie in the same shard.
    together: bool,
    tenancy: Tenancy,
}

impl<'q> Model<'q> {
    fn new(quota: &'q Quota, tenancy: Tenancy, together: bool) -> Self {
        Model { quota, keys: Default::default(), latest: [Timestamp::MIN; 2], together, tenancy }
    }

    fn acquire(&mut self, key: usize, cost: Cost, now: Timestamp) -> Decision {
        let known = &mut self.keys[key];
        let mut view = meter(self.quota, known.state.as_ref(), now, self.tenancy);
        let decision = algorithm::take(&mut view, cost);
        if !decision.allowed || cost == Cost::PEEK {
            return decision;
        }
        known.state = view.to_state();
        decision.charged(now)
    }

    /// As much as there is; if there is nothing, the answer to a cost of 1.
    fn acquire_up_to(&mut self, key: usize, cost: Cost, now: Timestamp) -> (Cost, Decision) {
        let left = meter(self.quota, self.keys[key].state.as_ref(), now, self.tenancy).remaining();
        let cost = if cost == Cost::PEEK { cost } else { Cost::new(cost.get().min(left.max(1))) };
        let decision = self.acquire(key, cost, now);
        (if decision.allowed { cost } else { Cost::PEEK }, decision)
    }

    fn refund(&mut self, key: usize, cost: Cost, charged: Charged, now: Timestamp) -> Decision {
        let known = &mut self.keys[key];
        let mut view = meter(self.quota, known.state.as_ref(), now, self.tenancy);
        let charged_at = charged.instant(now);
        let forgotten = known.reset_at.is_some_and(|reset_at| charged_at <= reset_at);
        if known.state.is_none() || cost == Cost::PEEK || forgotten {
            return algorithm::look(&view, Cost::PEEK);
        }
        view.refund(cost, charged_at);
        let decision = algorithm::look(&view, Cost::PEEK);
        known.state = view.to_state();
        decision
    }

    fn reset(&mut self, key: usize, now: Timestamp, observed: &Answer) -> u64 {
        let known = &mut self.keys[key];
        let mut is_live = !meter(self.quota, known.state.as_ref(), now, self.tenancy).reset_after().is_zero();
        // What is whole under this quota may not be under a larger one that shares the state: the store may keep it
        // for a while, and count it.
        is_live |=
            self.tenancy == Tenancy::Shared && known.state.is_some() && *observed == Answer::Forgotten(1);
        known.state = None;
        if is_live {
            known.reset_at = Some(now);
        }
        u64::from(is_live)
    }
}

fn meter<'a>(quota: &'a Quota, state: Option<&'a State>, now: Timestamp, tenancy: Tenancy) -> Meter<'a> {
    Meter::at(quota, state, now, tenancy).unwrap()
}

impl Sequential for Model<'_> {
    type Question = Question;
    type Answer = Answer;

    fn ask(&mut self, &Question { key, verb, cost, now }: &Question, observed: &Answer) -> Answer {
        let shard = if self.together { 0 } else { key };
        let now = now.max(self.latest[shard]);
        // Whoever only looks leaves no trace, not even the time.
        if !matches!(verb, Verb::Peek) {
            self.latest[shard] = now;
        }
        match verb {
            Verb::Acquire | Verb::AcquireAt | Verb::AcquireMany => {
                Answer::Decided(self.acquire(key, cost, now))
            }
            Verb::AcquireUpTo => {
                let (granted, decision) = self.acquire_up_to(key, cost, now);
                Answer::Granted(granted, decision)
            }
            Verb::Peek => {
                let view = meter(self.quota, self.keys[key].state.as_ref(), now, self.tenancy);
                Answer::Decided(algorithm::look(&view, cost))
            }
            Verb::Refund(charged) => Answer::Decided(self.refund(key, cost, charged, now)),
            Verb::Reset => Answer::Forgotten(self.reset(key, now, observed)),
        }
    }
}

/// Requests in a batch.
const BATCH: usize = 3;

/// Asks the store itself; a batch has an answer to each of its requests.
fn ask(store: &MemoryStore, rules: Rules<'_>, &Question { key, verb, cost, now }: &Question) -> Vec<Answer> {
    NOW.set(now);
    let request = Request { key: Key::new(KEYS[key]).unwrap(), rules, cost };
    vec![match verb {
        Verb::Acquire => Answer::Decided(store.try_acquire(request).unwrap()),
        Verb::AcquireAt => {
            NOW.set(Timestamp::MIN);
            Answer::Decided(store.acquire_at(request, now).unwrap())
        }
        Verb::AcquireMany => {
            let (requests, mut decisions) = ([request; BATCH], Vec::new());
            store.acquire_many(&requests, &mut decisions).now().unwrap().unwrap();
            return decisions.into_iter().map(Answer::Decided).collect();
        }
        Verb::AcquireUpTo => {
            let grant = store.acquire_up_to(request).now().unwrap().unwrap();
            Answer::Granted(grant.granted, grant.decision)
        }
        Verb::Peek => Answer::Decided(store.peek(request).now().unwrap().unwrap()),
        Verb::Refund(charged) => Answer::Decided(store.refund(request, charged).now().unwrap().unwrap()),
        Verb::Reset => Answer::Forgotten(store.reset(request).now().unwrap().unwrap()),
    }]
}

/// What one thread will ask: its clock goes on, and is late now and then by up to three refills.
fn draw(random: &mut Random, calls: u64) -> Vec<Question> {
    let start = Timestamp::from_secs(1_761_884_055);
    let mut elapsed = 0;
    let question = |_| {
        elapsed += random.below(300_000_000);
        let late = if random.once_in(3) { random.below(3_000_000_000) } else { random.below(1_000) };
        let now = (start + Nanos::from_nanos(elapsed)).saturating_sub(Nanos::from_nanos(late));
        let verb = match random.below(12) {
            0..=2 => Verb::Acquire,
            3..=4 => Verb::AcquireAt,
            5 => Verb::AcquireMany,
            6 => Verb::AcquireUpTo,
            7..=8 => Verb::Peek,
            9..=10 => Verb::Refund(match random.below(3) {
                0 => Charged::NOW,
                1 => Charged::ago(Nanos::from_nanos(random.below(1_500_000_000))),
                _ => Charged::at(start + Nanos::from_nanos(random.below(1_500_000_000))),
            }),
            _ => Verb::Reset,
        };
        let key = usize::from(random.once_in(3));
        Question { key, verb, cost: Cost::new(random.below(4)), now }
    };
    (0..calls).map(question).collect()
}

/// Asks from as many threads as there are lists, and returns the history.
fn run(rules: Rules<'_>, questions: &[Vec<Question>], gap: u64) -> Vec<Call<Question, Answer>> {
    let store = MemoryStore::builder().max_keys(100).clock(OwnClock).build();
    let (barrier, ticks) = (Barrier::new(questions.len()), AtomicU64::new(0));
    let tick = || ticks.fetch_add(1, Ordering::SeqCst);
    let work = |questions: &Vec<Question>| {
        barrier.wait();
        let call = |&question: &Question| {
            for _ in 0..gap {
                std::hint::spin_loop();
            }
            let began = tick();
            let (answers, returned) = (ask(&store, rules, &question), tick());
            let call = move |answer| Call { question, answer, began, returned };
            answers.into_iter().map(call)
        };
        questions.iter().flat_map(call).collect::<Vec<_>>()
    };
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> =
            questions.iter().map(|questions| scope.spawn(move || work(questions))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

/// Whether an order explains the history: keys of different shards know nothing of each other's instants, and which
/// keys share a shard is the store's secret.
fn verdict(quota: &Quota, tenancy: Tenancy, calls: &[Call<Question, Answer>]) -> Verdict {
    match explain(&Model::new(quota, tenancy, false), calls) {
        Verdict::Impossible => explain(&Model::new(quota, tenancy, true), calls),
        verdict => verdict,
    }
}

/// Runs histories under every quota, which `rules` makes the rules of.
fn check(what: &str, rules: impl for<'a> Fn(&'a Quota, &'a Plan) -> Rules<'a>) {
    let mut wrong = Vec::new();
    for text in QUOTAS {
        let (quota, plan) = (text.parse().unwrap(), Plan::parse("plan", text).unwrap());
        let rules = rules(&quota, &plan);
        let mut random = Random::new(11);
        let (mut impossible, mut shortest) = (0, None::<Vec<_>>);
        for _ in 0..HISTORIES {
            let threads = 3 + random.below(4);
            let questions: Vec<_> = (0..threads).map(|_| draw(&mut random, 4)).collect();
            let mut calls = run(rules, &questions, random.below(50));
            match verdict(&quota, rules.tenancy(), &calls) {
                Verdict::Explained => {}
                Verdict::Open => panic!("{what} {text}: no end of the search: {calls:#?}"),
                Verdict::Impossible => {
                    impossible += 1;
                    calls.sort_by_key(|call| call.began);
                    if shortest.as_ref().is_none_or(|shortest| calls.len() < shortest.len()) {
                        shortest = Some(calls);
                    }
                }
            }
        }
        if let Some(calls) = shortest {
            let count = format!("{impossible} of {HISTORIES}");
            wrong.push(format!("{what} {text}: no order explains {count} histories: {calls:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_history_of_a_plan_is_one_after_another() {
    check("plan", |_, plan| Rules::Plan(plan));
}

#[test]
fn every_history_of_a_quota_is_one_after_another() {
    check("quota", |quota, _| Rules::Quota(quota));
}
