//! Keys that are refused all the time: those refusals take no lock, and nobody can tell.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use ratekeeper::port::{Grant, Request, Store};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Charged, Cost, Decision, Key, MemoryStore, Nanos, Plan, Quota, Rules, Timestamp};

use test_support::cases::each_seed;
use test_support::random::Random;

const START: Timestamp = Timestamp::from_secs(1_761_884_055);

fn request<'a>(key: &'a str, rules: Rules<'a>, cost: u64) -> Request<'a> {
    Request::new(Key::new(key).unwrap(), rules, Cost::new(cost))
}

/// Whoever is refused finds out at once that the time has come: in each tick one of all requests passes, no more and no less.
#[test]
fn one_passes_in_every_tick() {
    const THREADS: usize = 8;
    let clock = FakeClock::at(START);
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let plan = Plan::parse("p", "1/s").unwrap();
    let (barrier, passed) = (Barrier::new(THREADS), AtomicU64::new(0));
    let hammer = |leads: bool| {
        for tick in 1..=200 {
            barrier.wait();
            for _ in 0..50 {
                let asked = request("hot", Rules::Plan(&plan), 1);
                let decision = store.acquire(asked).now().unwrap().unwrap();
                passed.fetch_add(decision.allowed.into(), Ordering::SeqCst);
                let wait = if decision.allowed { Nanos::ZERO } else { Nanos::from_secs(1) };
                assert_eq!(decision.retry_after, Some(wait));
            }
            barrier.wait();
            assert_eq!(passed.load(Ordering::SeqCst), tick);
            barrier.wait();
            if leads {
                clock.advance(Nanos::from_secs(1));
            }
        }
    };
    thread::scope(|scope| {
        for number in 0..THREADS {
            scope.spawn(move || hammer(number == 0));
        }
    });
}

/// Under a smaller quota the state lies too far ahead, and whoever is refused cuts it off: also if refusals of it are read
/// without the lock, where nothing can be cut off. Otherwise it would be refused until the old quota has refilled.
#[test]
fn a_key_that_is_refused_is_cut_off_after_a_reload() {
    let clock = FakeClock::at(START);
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let [before, after] = ["a=1/h", "a=1/s"].map(|text| Plan::parse("p", text).unwrap());
    let ask = |plan| store.acquire(request("hot", Rules::Plan(plan), 1)).now().unwrap().unwrap();
    assert!(ask(&before).allowed);
    (0..40).for_each(|_| assert!(!ask(&before).allowed));
    let half = Nanos::from_millis(500);
    (0..40).for_each(|_| assert_eq!(ask(&after).retry_after, Some(Nanos::from_secs(1))));
    clock.advance(half);
    (0..40).for_each(|_| assert_eq!(ask(&after).retry_after, Some(half)));
    clock.advance(half);
    assert!(ask(&after).allowed && !ask(&after).allowed);
}

/// A store and its clock.
struct Asked {
    clock: FakeClock,
    store: MemoryStore,
}

const KEYS: [&str; 2] = ["one", "other"];

impl Asked {
    /// Two that are alike: keys that share a shard in one share it in the other, because a snapshot holds the seed.
    fn twins() -> [Self; 2] {
        let first = MemoryStore::builder().clock(FakeClock::at(START)).build().snapshot();
        [(); 2].map(|()| {
            let clock = FakeClock::at(START);
            let builder = MemoryStore::builder().max_keys(50).keep_keys(true).clock(clock.clone());
            Asked { clock, store: builder.restore(&first).unwrap() }
        })
    }

    /// Looks at everything, and asks again and again for what is refused.
    fn hammer(&self, all: &[Rules<'_>], random: &mut Random) {
        for (key, rules) in KEYS.iter().flat_map(|key| all.iter().map(move |rules| (key, rules))) {
            let asked = request(key, *rules, 1 + random.below(3));
            if !self.store.peek(asked).now().unwrap().unwrap().allowed {
                for _ in 0..random.below(60) {
                    assert!(!self.store.acquire(asked).now().unwrap().unwrap().allowed);
                }
            }
        }
    }

    fn ask(&mut self, step: &Step<'_>) -> Told {
        self.clock.set(step.now);
        let asked = request(KEYS[step.key], step.rules, step.cost);
        match step.verb {
            0..=9 => Told::Decided(self.store.acquire(asked).now().unwrap().unwrap()),
            10 => {
                let mut into = Vec::new();
                self.store.acquire_many(&[asked; 3], &mut into).now().unwrap().unwrap();
                Told::Many(into.into_iter().map(Result::unwrap).collect())
            }
            11 => Told::Granted(self.store.acquire_up_to(asked, Cost::new(3)).now().unwrap().unwrap()),
            12 | 13 => Told::Decided(self.store.peek(asked).now().unwrap().unwrap()),
            14 | 15 => {
                let charged = Charged::at(step.now.saturating_sub(Nanos::from_millis(step.cost * 300)));
                Told::Decided(self.store.refund(asked, charged).now().unwrap().unwrap())
            }
            16 => Told::Count(self.store.reset(asked).now().unwrap().unwrap()),
            17 => {
                // Which states are dropped when is not to be told apart, but time goes on for all.
                self.store.sweep();
                Told::Count(0)
            }
            18 => Told::Count(polled(self.store.forget(KEYS[step.key].as_bytes()))),
            // Others come and go.
            _ => {
                let others = (0..40).map(|number| format!("{number}"));
                let plan = Plan::parse("others", "1/s").unwrap();
                let ask = |name: String| {
                    let asked = request(&name, Rules::Plan(&plan), 1);
                    u64::from(self.store.acquire(asked).now().unwrap().unwrap().allowed)
                };
                Told::Count(others.map(ask).sum())
            }
        }
    }
}

/// Polls an answer until it is there.
fn polled(answer: ratekeeper::port::Answer<'_, u64>) -> u64 {
    let mut answer = std::pin::pin!(answer);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(count) = answer.as_mut().poll(&mut context) {
            return count.unwrap();
        }
    }
}

#[derive(Debug, PartialEq)]
enum Told {
    Decided(Decision),
    Granted(Grant),
    Many(Vec<Decision>),
    Count(u64),
}

#[derive(Debug)]
struct Step<'a> {
    key: usize,
    verb: u64,
    cost: u64,
    rules: Rules<'a>,
    now: Timestamp,
}

/// One store is looked at in between, and asked again and again for what it refuses; the other is not. All else they are asked alike, and
/// they answer alike: a plan of one rule, the same after a reload, two rules of which one is shared, quotas that share a
/// state; clocks that step back.
#[test]
fn refusals_leave_no_trace() {
    // None of them reaches more than a second further than another: such a state is cut off by who is refused.
    let plans = ["a=2/s", "a=2/s burst 3", "a=2/s; b=4 per 5s bucket"];
    let plans = plans.map(|text| Plan::parse("p", text).unwrap());
    let quotas: [Quota; 2] = ["2/s", "1 per 3s burst 2"].map(|text| text.parse().unwrap());
    let all: Vec<Rules<'_>> = plans.iter().map(Rules::Plan).chain(quotas.iter().map(Rules::Quota)).collect();
    each_seed(150, |seed| {
        let mut random = Random::new(seed);
        let [mut hammered, mut quiet] = Asked::twins();
        let mut wall = 0;
        for _ in 0..80 {
            wall += random.below(2) * random.below(400);
            let late = if random.once_in(5) { random.below(3_000) } else { 0 };
            let step = Step {
                key: usize::from(random.once_in(3)),
                verb: random.below(20),
                cost: random.below(4),
                rules: all[random.index(all.len())],
                now: (START + Nanos::from_millis(wall)).saturating_sub(Nanos::from_millis(late)),
            };
            let told = hammered.ask(&step);
            assert_eq!(told, quiet.ask(&step), "seed {seed}: {step:?}");
            hammered.hammer(&all, &mut random);
        }
    });
}
