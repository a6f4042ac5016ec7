//! The suite that every store passes: the same question gets the same answer, wherever state lives.
//!
//! ```
//! use ratekeeper::testkit::{FakeClock, conformance};
//! use ratekeeper::{MemoryStore, Timestamp};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let clock = FakeClock::at(Timestamp::from_secs(1_761_884_055));
//! let store = MemoryStore::builder().clock(clock.clone()).build();
//! conformance::check(&conformance::Bench::new(&store, &clock)).await;
//! # }
//! ```

use std::sync::Arc;

use super::FakeClock;
use crate::algorithm::composite;
use crate::port::{Request, Store};
use crate::state::State;
use crate::{Cost, Decision, Key, Nanos, Plan, Quota, Rules, Timestamp};

/// A store to be examined, and a way to move its clock.
pub struct Bench<'a> {
    store: &'a dyn Store,
    now: Box<dyn Fn() -> Timestamp + Send + Sync + 'a>,
    advance: Box<dyn Fn(Nanos) + Send + Sync + 'a>,
    resolution: Nanos,
    several_plans: bool,
}

impl std::fmt::Debug for Bench<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bench").field("store", &self.store).finish_non_exhaustive()
    }
}

impl<'a> Bench<'a> {
    /// A store that goes by a fake clock.
    pub fn new(store: &'a dyn Store, clock: &'a FakeClock) -> Self {
        use crate::port::Clock;
        Self::with_time(store, || clock.now(), |span| clock.advance(span))
    }

    /// A store whose time is told and moved by functions.
    pub fn with_time(
        store: &'a dyn Store,
        now: impl Fn() -> Timestamp + Send + Sync + 'a,
        advance: impl Fn(Nanos) + Send + Sync + 'a,
    ) -> Self {
        let (now, advance) = (Box::new(now), Box::new(advance));
        Bench { store, now, advance, resolution: Nanos::from_nanos(1), several_plans: true }
    }

    /// The unit of the store's clock, if it is not the nanosecond.
    #[must_use]
    pub fn resolution(mut self, unit: Nanos) -> Self {
        self.resolution = unit;
        self
    }

    /// The store decides one plan at a time.
    #[must_use]
    pub fn one_plan_at_a_time(mut self) -> Self {
        self.several_plans = false;
        self
    }
}

/// Every algorithm, small and large, fast and slow.
const QUOTAS: [&str; 14] = [
    "10/m burst 5",
    "100/s",
    "7/m burst 3",
    "5/s burst 12 bucket",
    "100/m bucket",
    "3/s leaky",
    "1000/m burst 40 leaky",
    "6 per 10s fixed",
    "4 per 7s fixed grid",
    "9/minute fixed calendar",
    "8 per 10s sliding",
    "50/m sliding",
    "5 per 3s log",
    "20/m log",
];

/// Plans of several rules, in which each rule is at times the one that binds.
const PLANS: [&str; 4] = [
    "a=5/s burst 9; b=20/m",
    "a=5/s bucket; b=30/m fixed; c=12 per 20s sliding",
    "a=4/s leaky; b=10 per 7s log; c=40/m burst 15",
    "a=6 per 5s fixed; b=20/m fixed grid; c=100/h fixed calendar",
];

/// Examines the store; panics with what was asked, what was answered and what would have been right.
pub async fn check(bench: &Bench<'_>) {
    for (index, text) in QUOTAS.iter().enumerate() {
        let quota: Quota = text.parse().expect("a quota of the suite");
        random_walk(bench, Rules::Quota(&quota), &format!("quota {text}"), 40 + index as u64).await;
        waiting_is_exact(bench, &quota, &format!("wait {text}")).await;
    }
    let plans = PLANS.iter().enumerate().map(|(index, text)| {
        Arc::new(Plan::parse(&format!("plan{index}"), text).expect("a plan of the suite"))
    });
    let plans: Vec<Arc<Plan>> = plans.collect();
    for (index, plan) in plans.iter().enumerate() {
        random_walk(bench, Rules::Plan(plan), &format!("plan {plan}"), 90 + index as u64).await;
    }
    if bench.several_plans {
        random_walk(bench, Rules::Plans(&plans[..2]), "two plans", 190).await;
        random_walk(bench, Rules::Plans(&plans), "four plans", 191).await;
    }
    keys_do_not_share(bench).await;
    a_changed_quota_keeps_its_state(bench).await;
}

/// A random sequence of every verb on two keys gets the answers of the pure algorithms.
async fn random_walk(bench: &Bench<'_>, rules: Rules<'_>, name: &str, seed: u64) {
    let keys = [format!("{name}/one"), format!("{name}/other \u{1F512} {{%}}")];
    let quotas: Vec<Quota> = rules.iter().map(|(_, quota)| *quota).collect();
    let mut models = keys.each_ref().map(|_| quotas.iter().map(|quota| (*quota, None)).collect::<Vec<_>>());
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    for step in 0..250 {
        let which = random.below(2);
        let (key, model) = (Key::new(&keys[which]).expect("a key of the suite"), &mut models[which]);
        let cost = Cost::new([1, 1, 1, 0, 2, 3, 5, 1_000_000][random.below(8)]);
        let request = Request { key, rules, cost };
        let now = (bench.now)();
        let what = format!("{name}, step {step}, cost {cost} at {}", now.as_nanos());
        match random.below(10) {
            0 => {
                let expected = composite::peek(model, cost, now).expect(&what);
                same(bench.store.peek(request).await.expect(&what), expected, &format!("peek: {what}"));
            }
            1 => {
                let (expected, states) = composite::refund(model, cost, now).expect(&what);
                same(bench.store.refund(request).await.expect(&what), expected, &format!("refund: {what}"));
                if cost != Cost::PEEK {
                    model.iter_mut().zip(states).for_each(|(rule, state)| rule.1 = state);
                }
            }
            2 if random.below(4) == 0 => {
                let live = model.iter().filter(|rule| {
                    composite::peek(std::slice::from_ref(rule), Cost::PEEK, now).expect(&what).reset_after
                        > Nanos::ZERO
                });
                let expected = live.count() as u64;
                assert_eq!(bench.store.reset(request).await.expect(&what), expected, "reset: {what}");
                model.iter_mut().for_each(|rule| rule.1 = None);
            }
            3 => {
                let left = composite::peek(model, Cost::PEEK, now).expect(&what).remaining;
                let wanted = Cost::new(cost.get().min(left.max(1)));
                let expected = charge(model, wanted, now);
                let grant = bench.store.acquire_up_to(request).await.expect(&what);
                same(grant.decision, expected, &format!("up to: {what}"));
                let granted = if expected.allowed { wanted } else { Cost::PEEK };
                assert_eq!(grant.granted, granted, "up to: {what}");
            }
            _ => {
                let expected = charge(model, cost, now);
                same(bench.store.acquire(request).await.expect(&what), expected, &format!("acquire: {what}"));
            }
        }
        if random.below(3) == 0 {
            let unit = bench.resolution.as_nanos();
            let longest = [unit * 1_000, 300_000_000, 7_000_000_000, 70_000_000_000][random.below(4)];
            let span = random.next() % longest;
            (bench.advance)(Nanos::from_nanos(span - span % unit));
        }
    }
}

fn charge(model: &mut [(Quota, Option<State>)], cost: Cost, now: Timestamp) -> Decision {
    let (decision, states) = composite::try_acquire(model, cost, now).expect("the suite's states fit");
    for (rule, state) in model.iter_mut().zip(states) {
        if state.is_some() {
            rule.1 = state;
        }
    }
    decision
}

fn same(found: Decision, expected: Decision, what: &str) {
    assert_eq!(found, expected, "{what}");
}

/// Waiting exactly `retry_after` and asking again succeeds; one unit of the clock earlier it fails.
async fn waiting_is_exact(bench: &Bench<'_>, quota: &Quota, name: &str) {
    let key = Key::new(name).expect("a key of the suite");
    let request = |cost| Request { key, rules: Rules::Quota(quota), cost: Cost::new(cost) };
    let burst = quota.burst();
    for cost in [1, burst, burst / 2 + 1] {
        let drained = bench.store.acquire_up_to(request(burst)).await.expect(name);
        assert!(drained.decision.allowed || drained.granted == Cost::PEEK, "{name}");
        let denied = bench.store.acquire(request(cost)).await.expect(name);
        assert!(!denied.allowed, "{name}: {denied:?}");
        let wait = denied.retry_after.expect("a cost within the capacity passes some day").as_nanos();
        let unit = bench.resolution.as_nanos();
        let wait = wait.div_ceil(unit) * unit;
        (bench.advance)(Nanos::from_nanos(wait - unit));
        let early = bench.store.acquire(request(cost)).await.expect(name);
        assert!(!early.allowed, "{name}: cost {cost} passed before its time: {early:?}");
        (bench.advance)(Nanos::from_nanos(unit));
        let there = bench.store.acquire(request(cost)).await.expect(name);
        assert!(there.allowed, "{name}: cost {cost} after waiting {wait} ns: {there:?}");
    }
}

/// What one key takes, no other key and no other plan misses.
async fn keys_do_not_share(bench: &Bench<'_>) {
    let quota: Quota = "3/h".parse().expect("a quota of the suite");
    let gold = Plan::parse("gold", "3/h").expect("a plan of the suite");
    let silver = Plan::parse("silver", "3/h").expect("a plan of the suite");
    let long = vec![b'k'; Key::MAX_LEN];
    let keys: [&[u8]; 6] = [b"share", b"shar", b"share ", b"SHARE", &[0xff, 0x00], &long];
    for key in keys {
        for rules in [Rules::Quota(&quota), Rules::Plan(&gold), Rules::Plan(&silver)] {
            let request =
                Request { key: Key::new(key).expect("a key of the suite"), rules, cost: Cost::new(3) };
            let fresh = bench.store.acquire(request).await.expect("an answer");
            assert!(fresh.allowed, "{request:?}: another key's or plan's state: {fresh:?}");
            let again = bench.store.acquire(request).await.expect("an answer");
            assert!(!again.allowed, "{request:?}: its own state is lost: {again:?}");
        }
    }
}

/// A quota may change on live state: it is kept, read under the new quota, and never refilled.
async fn a_changed_quota_keeps_its_state(bench: &Bench<'_>) {
    let changes = [
        ("10/h", "4/h"),
        ("10/h bucket", "4/h bucket"),
        ("10/h leaky", "4/h leaky"),
        ("10/h fixed", "4/h fixed"),
    ];
    for (before, after) in changes {
        let plan =
            |text: &str| Plan::parse("changing", &format!("rule={text}")).expect("a plan of the suite");
        let (old, new) = (plan(before), plan(after));
        let key = format!("changed {before}");
        let request = |plan, cost| Request {
            key: Key::new(&key).expect("a key of the suite"),
            rules: Rules::Plan(plan),
            cost: Cost::new(cost),
        };
        assert!(bench.store.acquire(request(&old, 10)).await.expect("an answer").allowed, "{before}");
        let lowered = bench.store.acquire(request(&new, 1)).await.expect("an answer");
        assert!(!lowered.allowed, "{before} → {after}: refilled by the change: {lowered:?}");
        assert_eq!(lowered.remaining, 0, "{before} → {after}");
    }
}

/// Xorshift: repeatable, and good enough to wander.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap_or(0)
    }
}
