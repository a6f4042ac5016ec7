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

use ratekeeper::algorithm::{self, Meter, View};
use ratekeeper::port::{Clock, Request, Store};
use ratekeeper::{Cost, Decision, Key, MemoryStore, Nanos, Quota, Rules, State, Timestamp};

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
    Refund,
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
}

impl<'q> Model<'q> {
    fn new(quota: &'q Quota, together: bool) -> Self {
        Model { quota, keys: Default::default(), latest: [Timestamp::MIN; 2], together }
    }

    fn acquire(&mut self, key: usize, cost: Cost, now: Timestamp) -> Decision {
        let known = &mut self.keys[key];
        let (decision, changed) =
            algorithm::try_acquire(self.quota, known.state.as_ref(), cost, now).unwrap();
        if decision.allowed && cost != Cost::PEEK {
            known.state = changed;
        }
        decision
    }
}

impl Sequential for Model<'_> {
    type Question = Question;
    type Answer = Answer;

    fn ask(&mut self, &Question { key, verb, cost, now }: &Question) -> Answer {
        let shard = if self.together { 0 } else { key };
        let now = now.max(self.latest[shard]);
        self.latest[shard] = now;
        match verb {
            Verb::Acquire | Verb::AcquireAt | Verb::AcquireMany => {
                Answer::Decided(self.acquire(key, cost, now))
            }
            Verb::AcquireUpTo => {
                let known = &mut self.keys[key];
                let state = known.state.as_ref();
                let (granted, decision, changed) =
                    algorithm::try_acquire_up_to(self.quota, state, cost, now).unwrap();
                if granted != Cost::PEEK {
                    known.state = changed;
                }
                Answer::Granted(granted, decision)
            }
            Verb::Peek => {
                let view = Meter::at(self.quota, self.keys[key].state.as_ref(), now).unwrap();
                Answer::Decided(algorithm::look(&view, cost))
            }
            Verb::Refund => {
                let known = &mut self.keys[key];
                let mut view = Meter::at(self.quota, known.state.as_ref(), now).unwrap();
                view.refund(cost);
                let decision = algorithm::look(&view, Cost::PEEK);
                let changed = view.to_state();
                if known.state.is_some() && cost != Cost::PEEK {
                    known.state = changed;
                }
                Answer::Decided(decision)
            }
            Verb::Reset => {
                let known = &mut self.keys[key];
                let live = Meter::at(self.quota, known.state.as_ref(), now).unwrap().reset_after();
                known.state = None;
                Answer::Forgotten(u64::from(!live.is_zero()))
            }
        }
    }
}

/// Requests in a batch.
const BATCH: usize = 3;

/// Asks the store itself; a batch has an answer to each of its requests.
fn ask(store: &MemoryStore, quota: &Quota, &Question { key, verb, cost, now }: &Question) -> Vec<Answer> {
    NOW.set(now);
    let request = Request { key: Key::new(KEYS[key]).unwrap(), rules: Rules::Quota(quota), cost };
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
        Verb::Refund => Answer::Decided(store.refund(request).now().unwrap().unwrap()),
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
            9..=10 => Verb::Refund,
            _ => Verb::Reset,
        };
        let key = usize::from(random.once_in(3));
        Question { key, verb, cost: Cost::new(random.below(4)), now }
    };
    (0..calls).map(question).collect()
}

/// Asks from as many threads as there are lists, and returns the history.
fn run(quota: &Quota, questions: &[Vec<Question>], gap: u64) -> Vec<Call<Question, Answer>> {
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
            let (answers, returned) = (ask(&store, quota, &question), tick());
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
fn verdict(quota: &Quota, calls: &[Call<Question, Answer>]) -> Verdict {
    match explain(&Model::new(quota, false), calls) {
        Verdict::Impossible => explain(&Model::new(quota, true), calls),
        verdict => verdict,
    }
}

#[test]
fn every_history_is_one_after_another() {
    let mut wrong = Vec::new();
    for text in QUOTAS {
        let quota: Quota = text.parse().unwrap();
        let mut random = Random::new(11);
        let (mut impossible, mut shortest) = (0, None::<Vec<_>>);
        for _ in 0..HISTORIES {
            let threads = 3 + random.below(4);
            let questions: Vec<_> = (0..threads).map(|_| draw(&mut random, 4)).collect();
            let mut calls = run(&quota, &questions, random.below(50));
            match verdict(&quota, &calls) {
                Verdict::Explained => {}
                Verdict::Open => panic!("{text}: no end of the search: {calls:#?}"),
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
            wrong
                .push(format!("{text}: no order explains {impossible} of {HISTORIES} histories: {calls:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
