//! Random concurrent histories on the store in memory: every algorithm and verb, threads whose clocks disagree.
//!
//! Each thread reads a clock of its own, which is set before every call to an instant of the test's choosing, before
//! or after what others have read: as if the thread had been put to sleep after it looked at the time. In the order
//! that is searched for, time does not go back: the store decides at the latest instant at which anything was changed.

use std::cell::Cell;
use std::fmt::Debug;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use ratekeeper::algorithm::{AnyView, Tenancy, View, composite};
use ratekeeper::port::{Clock, Grant, Request, Store};
use ratekeeper::{Charged, Cost, Decision, Key, MemoryStore, Nanos, Plan, Quota, Rules, State, Timestamp};

use crate::hostile::history::{Call, Sequential, Verdict, explain};
use test_support::bound::ALGORITHMS;
use test_support::cases::share;
use test_support::random::Random;

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

/// What every algorithm is tried at.
const RATE: &str = "4/s";

/// Plans of several rules: one may deny what the others have room for, or be whole and swept while another lives.
const SEVERAL: [&str; 4] = [
    "4/s; 7 per 3s bucket",
    "5 per 2s fixed; 4/s leaky",
    "4/s sliding; 9 per 5s log",
    "3/s log; 5 per 2s fixed grid; 8/m",
];

/// Histories under every quota and plan in a thorough run.
const HISTORIES: u32 = 250;

#[derive(Clone, Copy, Debug)]
enum Verb {
    Acquire,
    /// At an instant that is handed over.
    AcquireAt,
    /// In a batch: each is a call of its own, and somebody else may come between two of them.
    AcquireMany,
    AcquireUpTo(Cost),
    Peek,
    Refund(Charged),
    Reset,
    /// Of all shards, one after another: for each key a call of its own.
    Sweep,
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
    Granted(Grant),
    Forgotten(u64),
    Swept,
}

/// A rule's state of one key, as the pure algorithms see it.
#[derive(Clone, Debug, Default)]
struct Known {
    state: Option<State>,
    /// When something was last forgotten: what was charged until then is not given back.
    reset_at: Option<Timestamp>,
    /// From then on nothing that was charged before the reset has anything left to give back, and the store may forget that
    /// there was one. It does so when the next state of the shard is reset.
    reset_until: Option<Timestamp>,
}

/// A store that is asked one after another.
#[derive(Clone, Debug)]
struct Model<'q> {
    quotas: &'q [Quota],
    /// For each key, in the order of the rules.
    keys: [Vec<Known>; 2],
    /// The latest instant that each key's shard has seen.
    latest: [Timestamp; 2],
    /// Both keys lie in the same shard.
    together: bool,
    tenancy: Tenancy,
}

impl<'q> Model<'q> {
    fn new(quotas: &'q [Quota], tenancy: Tenancy, together: bool) -> Self {
        let fresh = || vec![Known::default(); quotas.len()];
        let (keys, latest) = ([fresh(), fresh()], [Timestamp::MIN; 2]);
        Model { quotas, keys, latest, together, tenancy }
    }

    fn meters(&self, key: usize, now: Timestamp) -> Vec<AnyView<'_>> {
        let rules = self.quotas.iter().zip(&self.keys[key]);
        rules.map(|(quota, known)| meter(quota, known.state.as_ref(), now, self.tenancy)).collect()
    }

    /// All of it from every rule, or nothing from any.
    fn acquire(&mut self, key: usize, cost: Cost, now: Timestamp) -> Decision {
        let mut meters = self.meters(key, now);
        let decision = composite::take_all(&mut meters, cost);
        if !decision.allowed || cost == Cost::ZERO {
            return decision;
        }
        let states: Vec<_> = meters.iter().map(AnyView::to_state).collect();
        for (known, state) in self.keys[key].iter_mut().zip(states) {
            known.state = state;
        }
        decision.charged(now)
    }

    /// As much as there is up to `most`; if that is less than the cost, the answer to the cost.
    fn acquire_up_to(&mut self, key: usize, cost: Cost, most: Cost, at: Timestamp) -> Grant {
        let left = self.meters(key, at).iter().map(View::remaining).min().unwrap();
        let cost = Cost::new(left.min(most.get()).max(cost.get()));
        let decision = self.acquire(key, cost, at);
        let granted = if decision.allowed { cost } else { Cost::ZERO };
        let meters = self.meters(key, at);
        let (next, ends) =
            (composite::look_all(&meters, Cost::ONE), meters.iter().filter_map(View::window_left).min());
        Grant { granted, decision, at, ends, next }
    }

    fn refund(
        &mut self,
        key: usize,
        cost: Cost,
        charged: Charged,
        now: Timestamp,
        observed: &Answer,
    ) -> Decision {
        let before = self.keys[key].clone();
        let decision = self.give_back(key, cost, charged, now);
        if *observed == Answer::Decided(decision) {
            return decision;
        }
        // Who wants back what was never charged may tell that a reset is forgotten.
        self.keys[key] = before;
        for known in &mut self.keys[key] {
            known.reset_at = known.reset_at.filter(|_| known.reset_until > Some(now));
        }
        self.give_back(key, cost, charged, now)
    }

    fn give_back(&mut self, key: usize, cost: Cost, charged: Charged, now: Timestamp) -> Decision {
        let charged_at = charged.instant(now);
        let is_known = |known: &Known| {
            let forgotten = known.reset_at.is_some_and(|reset_at| charged_at <= reset_at);
            known.state.is_some() && cost != Cost::ZERO && !forgotten
        };
        let mut meters = self.meters(key, now);
        for (view, known) in meters.iter_mut().zip(&self.keys[key]) {
            if is_known(known) {
                view.refund(cost, charged_at);
            }
        }
        let decision = composite::look_all(&meters, Cost::ZERO);
        let states: Vec<_> = meters.iter().map(AnyView::to_state).collect();
        for (known, state) in self.keys[key].iter_mut().zip(states) {
            if is_known(known) {
                known.state = state;
            }
        }
        decision
    }

    fn reset(&mut self, key: usize, now: Timestamp, observed: &Answer) -> u64 {
        let mut forgotten = 0;
        for (quota, known) in self.quotas.iter().zip(&mut self.keys[key]) {
            let reach = meter(quota, known.state.as_ref(), now, self.tenancy).reset_after();
            let mut is_live = !reach.is_zero();
            // What is whole under this quota may not be under a larger one that shares the state: the store may keep
            // it for a while, and count it.
            is_live |=
                self.tenancy == Tenancy::Shared && known.state.is_some() && *observed == Answer::Forgotten(1);
            known.state = None;
            if is_live {
                known.reset_at = Some(now);
                known.reset_until = known.reset_until.max(Some(now + reach));
            }
            forgotten += u64::from(is_live);
        }
        forgotten
    }
}

fn meter<'a>(quota: &'a Quota, state: Option<&'a State>, now: Timestamp, tenancy: Tenancy) -> AnyView<'a> {
    AnyView::at(quota, state, now, tenancy).unwrap()
}

impl Sequential for Model<'_> {
    type Question = Question;
    type Answer = Answer;

    fn ask(&mut self, question: &Question, observed: &Answer) -> Answer {
        let &Question { key, verb, cost, now } = question;
        let shard = if self.together { 0 } else { key };
        let now = now.max(self.latest[shard]);
        let answer = self.answer(key, verb, cost, now, observed);
        if Self::changes(question, &answer) {
            self.latest[shard] = now;
        }
        answer
    }

    /// Whoever only looks, or is refused, leaves no trace, not even of the time.
    fn changes(question: &Question, answer: &Answer) -> bool {
        match answer {
            Answer::Decided(_) if matches!(question.verb, Verb::Refund(_)) => true,
            Answer::Decided(decision) | Answer::Granted(Grant { decision, .. }) => {
                decision.charged_at().is_some()
            }
            Answer::Forgotten(_) | Answer::Swept => true,
        }
    }
}

impl Model<'_> {
    fn answer(&mut self, key: usize, verb: Verb, cost: Cost, now: Timestamp, observed: &Answer) -> Answer {
        match verb {
            Verb::Acquire | Verb::AcquireAt | Verb::AcquireMany => {
                Answer::Decided(self.acquire(key, cost, now))
            }
            Verb::AcquireUpTo(most) => Answer::Granted(self.acquire_up_to(key, cost, most, now)),
            Verb::Peek => Answer::Decided(composite::look_all(&self.meters(key, now), cost)),
            Verb::Refund(charged) => Answer::Decided(self.refund(key, cost, charged, now, observed)),
            Verb::Reset => Answer::Forgotten(self.reset(key, now, observed)),
            // What is dropped equals a fresh key's: nobody can tell, but that the shard's time has gone on.
            Verb::Sweep => Answer::Swept,
        }
    }
}

/// Requests in a batch.
const BATCH: usize = 3;

/// Asks the store itself; a batch has an answer to each of its requests.
fn ask(store: &MemoryStore, rules: Rules<'_>, &Question { key, verb, cost, now }: &Question) -> Vec<Answer> {
    NOW.set(now);
    let request = Request::new(Key::new(KEYS[key]).unwrap(), rules, cost);
    vec![match verb {
        Verb::Acquire => Answer::Decided(store.acquire(request).now().unwrap().unwrap()),
        Verb::AcquireAt => {
            NOW.set(Timestamp::MIN);
            Answer::Decided(store.acquire_at(request, now).unwrap())
        }
        Verb::AcquireMany => {
            let (requests, mut decisions) = ([request; BATCH], Vec::new());
            store.acquire_many(&requests, &mut decisions).now().unwrap().unwrap();
            return decisions.into_iter().map(|decision| Answer::Decided(decision.unwrap())).collect();
        }
        Verb::AcquireUpTo(most) => {
            Answer::Granted(store.acquire_up_to(request, most).now().unwrap().unwrap())
        }
        Verb::Peek => Answer::Decided(store.peek(request).now().unwrap().unwrap()),
        Verb::Refund(charged) => Answer::Decided(store.refund(request, charged).now().unwrap().unwrap()),
        Verb::Reset => Answer::Forgotten(store.reset(request).now().unwrap().unwrap()),
        Verb::Sweep => {
            store.sweep();
            return vec![Answer::Swept; KEYS.len()];
        }
    }]
}

/// What one thread will ask: its clock goes on, and is late now and then by up to three refills.
fn draw(random: &mut Random, calls: u64) -> Vec<Question> {
    let start = START;
    let mut elapsed = 0;
    let question = |_| {
        elapsed += random.below(300_000_000);
        let late = if random.once_in(3) { random.below(3_000_000_000) } else { random.below(1_000) };
        let now = (start + Nanos::from_nanos(elapsed)).saturating_sub(Nanos::from_nanos(late));
        let verb = match random.below(13) {
            0..=2 => Verb::Acquire,
            3..=4 => Verb::AcquireAt,
            5 => Verb::AcquireMany,
            6 => Verb::AcquireUpTo(Cost::new(random.below(9))),
            7..=8 => Verb::Peek,
            9..=10 => Verb::Refund(match random.below(3) {
                0 => Charged::NOW,
                1 => Charged::ago(Nanos::from_nanos(random.below(1_500_000_000))),
                _ => Charged::at(start + Nanos::from_nanos(random.below(1_500_000_000))),
            }),
            11 => Verb::Reset,
            _ => Verb::Sweep,
        };
        let key = usize::from(random.once_in(3));
        Question { key, verb, cost: Cost::new(random.below(4)), now }
    };
    (0..calls).map(question).collect()
}

/// When the clocks of all threads start.
const START: Timestamp = Timestamp::from_secs(1_761_884_055);

/// What is asked before the threads start, in turn: after so many questions some keys are refused all the time, and their
/// refusals take no lock any more.
fn before(many: u64) -> impl Iterator<Item = Question> {
    let keys = (0..many).map(|number| usize::from(number % 3 == 0));
    keys.map(|key| Question { key, verb: Verb::Acquire, cost: Cost::ONE, now: START })
}

/// Asks from as many threads as there are lists, and returns the history.
fn run(rules: Rules<'_>, first: u64, questions: &[Vec<Question>], gap: u64) -> Vec<Call<Question, Answer>> {
    let store = MemoryStore::builder().max_keys(100).clock(OwnClock).build();
    before(first).for_each(|question| drop(ask(&store, rules, &question)));
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
            // The answers to a sweep are those of the keys' shards, all others are of the key that was asked for.
            let key = move |number| if matches!(question.verb, Verb::Sweep) { number } else { question.key };
            let call = move |(number, answer)| {
                let question = Question { key: key(number), ..question };
                Call { question, answer, began, returned }
            };
            answers.into_iter().enumerate().map(call)
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
fn verdict(quotas: &[Quota], tenancy: Tenancy, first: u64, calls: &[Call<Question, Answer>]) -> Verdict {
    let explain = |together| {
        let mut model = Model::new(quotas, tenancy, together);
        for question in before(first) {
            model.ask(&question, &Answer::Swept);
        }
        explain(&model, calls)
    };
    match explain(false) {
        Verdict::Impossible => explain(true),
        verdict => verdict,
    }
}

/// Runs histories under these rules, each after up to so many refusals, and tells of those that nothing explains.
fn check(rules: Rules<'_>, refusals: u64) -> Option<String> {
    let quotas: Vec<Quota> = rules.iter().map(|(_, quota)| *quota).collect();
    let mut random = Random::new(11);
    let (mut judged, mut impossible, mut shortest) = (0, 0, None::<Vec<_>>);
    let histories = share(HISTORIES);
    for _ in 0..histories {
        let threads = 3 + random.below(4);
        let questions: Vec<_> = (0..threads).map(|_| draw(&mut random, 4)).collect();
        let first = random.below(refusals + 1);
        let mut calls = run(rules, first, &questions, random.below(50));
        let verdict = verdict(&quotas, rules.tenancy(), first, &calls);
        judged += u32::from(!matches!(verdict, Verdict::Open));
        match verdict {
            // The more calls overlap, the more orders there are to try: how many is up to the scheduler.
            Verdict::Explained | Verdict::Open => {}
            Verdict::Impossible => {
                impossible += 1;
                calls.sort_by_key(|call| call.began);
                if shortest.as_ref().is_none_or(|shortest| calls.len() < shortest.len()) {
                    shortest = Some(calls);
                }
            }
        }
    }
    assert!(judged > 0, "{rules:?}: the search had no end for any history");
    let calls = shortest?;
    Some(format!("{rules:?}: no order explains {impossible} of {histories} histories: {calls:#?}"))
}

fn none(wrong: impl Iterator<Item = String>) {
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_history_of_a_plan_is_one_after_another() {
    let plan = |text: &str| Plan::parse("plan", text).unwrap();
    let plans = ALGORITHMS.iter().map(|algorithm| plan(&format!("{RATE} {algorithm}")));
    none(plans.filter_map(|plan| check(Rules::Plan(&plan), 0)));
}

#[test]
fn every_history_of_several_rules_is_one_after_another() {
    none(SEVERAL.iter().filter_map(|text| check(Rules::Plan(&Plan::parse("plan", text).unwrap()), 0)));
}

#[test]
fn every_history_of_a_quota_is_one_after_another() {
    let quotas = ALGORITHMS.iter().map(|algorithm| format!("{RATE} {algorithm}").parse().unwrap());
    none(quotas.filter_map(|quota: Quota| check(Rules::Quota(&quota), 0)));
}

/// Refusals of keys that are refused all the time are read without the lock, while others take, give back, reset and sweep:
/// every answer is one that somebody who held the lock could have got.
#[test]
fn every_history_of_a_key_that_is_refused_is_one_after_another() {
    let wrong = ["4/s", "4 per 3s", "2 per 5s"].into_iter().flat_map(|text| {
        let (plan, quota) = (Plan::parse("plan", text).unwrap(), text.parse().unwrap());
        [check(Rules::Plan(&plan), 120), check(Rules::Quota(&quota), 120)]
    });
    none(wrong.flatten());
}
