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

use super::fake_clock::FakeClock;
use crate::algorithm::{Tenancy, composite};
use crate::port::{Request, Store};
use crate::{Charged, Cost, Decision, Key, Nanos, Plan, Quota, Rules, State, StoreErrorKind, Timestamp};

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
    /// Returns a bench for a store that goes by a fake clock.
    pub fn new(store: &'a dyn Store, clock: &'a FakeClock) -> Self {
        use crate::port::Clock;
        Self::with_time(store, || clock.now(), |span| clock.advance(span))
    }

    /// Returns a bench for a store whose time is read and moved by functions.
    pub fn with_time(
        store: &'a dyn Store,
        now: impl Fn() -> Timestamp + Send + Sync + 'a,
        advance: impl Fn(Nanos) + Send + Sync + 'a,
    ) -> Self {
        let (now, advance) = (Box::new(now), Box::new(advance));
        Bench { store, now, advance, resolution: Nanos::from_nanos(1), several_plans: true }
    }

    /// Sets the unit of the store's clock, if it is not the nanosecond.
    #[must_use]
    pub fn resolution(mut self, unit: Nanos) -> Self {
        self.resolution = unit;
        self
    }

    /// Skips what needs several plans in one request, for a store that decides one plan at a time.
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
///
/// The store must be there for this alone: if it [forgets by prefix](Store::forget), it is emptied.
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
    keys_are_forgotten_by_how_they_start(bench).await;
    a_changed_quota_keeps_its_state(bench).await;
}

/// A key as the pure algorithms see it, and what it has been charged.
struct SuiteModel {
    rules: Vec<(Quota, Option<State>)>,
    tenancy: Tenancy,
    charges: Vec<(Cost, Timestamp)>,
    last_reset: Timestamp,
}

impl SuiteModel {
    fn of(rules: Rules<'_>) -> Self {
        SuiteModel {
            rules: rules.iter().map(|(_, quota)| (*quota, None)).collect(),
            tenancy: rules.tenancy(),
            charges: Vec::new(),
            last_reset: Timestamp::MIN,
        }
    }

    fn peek(&self, cost: Cost, now: Timestamp) -> Decision {
        composite::peek(&self.rules, cost, now, self.tenancy).expect("the suite's states fit")
    }

    fn charge(&mut self, cost: Cost, now: Timestamp) -> Decision {
        let (decision, states) =
            composite::try_acquire(&self.rules, cost, now, self.tenancy).expect("the suite's states fit");
        for (rule, state) in self.rules.iter_mut().zip(states) {
            if state.is_some() {
                rule.1 = state;
            }
        }
        if !decision.allowed || cost == Cost::ZERO {
            return decision;
        }
        self.charges.push((cost, now));
        decision.charged(now)
    }

    fn refund(&mut self, cost: Cost, charged_at: Timestamp, now: Timestamp) -> Decision {
        if cost == Cost::ZERO || charged_at <= self.last_reset {
            return self.peek(Cost::ZERO, now);
        }
        let (decision, states) = composite::refund(&self.rules, cost, charged_at, now, self.tenancy)
            .expect("the suite's states fit");
        self.rules.iter_mut().zip(states).for_each(|(rule, state)| rule.1 = state);
        decision
    }

    /// Returns how many states are worth something.
    fn reset(&mut self, now: Timestamp) -> u64 {
        self.last_reset = now;
        let states = self.rules.iter_mut().map(|rule| {
            let rule_alone = std::slice::from_ref(&*rule);
            let left = composite::peek(rule_alone, Cost::ZERO, now, self.tenancy);
            rule.1 = None;
            u64::from(left.expect("the suite's states fit").reset_after > Nanos::ZERO)
        });
        states.sum()
    }
}

/// A random sequence of every verb on two keys gets the answers of the pure algorithms.
async fn random_walk(bench: &Bench<'_>, rules: Rules<'_>, name: &str, seed: u64) {
    let keys = [format!("{name}/one"), format!("{name}/other \u{1F512} {{%}}")];
    let mut models = [SuiteModel::of(rules), SuiteModel::of(rules)];
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    for step in 0..250 {
        let which = random.below(2);
        let (key, model) = (Key::new(&keys[which]).expect("a key of the suite"), &mut models[which]);
        let cost = Cost::new([1, 1, 1, 0, 2, 3, 5, 1_000_000][random.below(8)]);
        let request = Request { key, rules, cost };
        let now = (bench.now)();
        let what = format!("{name}, step {step}, cost {cost} at {}", now.as_nanos());
        match random.below(12) {
            0 => {
                let expected = model.peek(cost, now);
                same(bench.store.peek(request).await.expect(&what), expected, &format!("peek: {what}"));
            }
            // Given back at once; right after a reset nobody could tell whether it was charged before or after.
            1 if model.last_reset < now => {
                let expected = model.refund(cost, now, now);
                let refunded = bench.store.refund(request, Charged::NOW).await.expect(&what);
                same(refunded, expected, &format!("refund: {what}"));
            }
            // Given back late, each charge once, and in any order.
            2..=3 if !model.charges.is_empty() => {
                let charge = random.below(model.charges.len());
                let (cost, charged_at) = model.charges.swap_remove(charge);
                // At the very instant of a reset nobody can tell which was first.
                if charged_at == model.last_reset {
                    continue;
                }
                let charged = match random.below(2) {
                    0 => Charged::at(charged_at),
                    _ => Charged::ago(now.since(charged_at)),
                };
                let expected = model.refund(cost, charged_at, now);
                let refunded = bench.store.refund(Request { cost, ..request }, charged).await.expect(&what);
                let late = format!("refund of {cost} from {}: {what}", charged_at.as_nanos());
                same(refunded, expected, &late);
            }
            4 if random.below(4) == 0 => {
                let expected = model.reset(now);
                assert_eq!(bench.store.reset(request).await.expect(&what), expected, "reset: {what}");
            }
            5 => {
                let wanted = Cost::new(cost.get().min(model.peek(Cost::ZERO, now).remaining.max(1)));
                let expected = model.charge(wanted, now);
                let grant = bench.store.acquire_up_to(request).await.expect(&what);
                same(grant.decision, expected, &format!("up to: {what}"));
                let granted = if expected.allowed { wanted } else { Cost::ZERO };
                assert_eq!(grant.granted, granted, "up to: {what}");
            }
            _ => {
                let expected = model.charge(cost, now);
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
        assert!(drained.decision.allowed || drained.granted == Cost::ZERO, "{name}");
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

/// What starts alike is forgotten, under plans and quotas of requests, and nothing else; what was charged before gets
/// nothing back. A store that cannot list its keys says so.
async fn keys_are_forgotten_by_how_they_start(bench: &Bench<'_>) {
    let (store, quota) = (bench.store, "3/h fixed".parse::<Quota>().expect("a quota of the suite"));
    let plan = Plan::parse("gold", "3/h").expect("a plan of the suite");
    if let Err(error) = store.forget(b"forget").await {
        assert_eq!(error.kind(), StoreErrorKind::Unsupported, "{error}");
        return;
    }
    let held_to = [Rules::Quota(&quota), Rules::Plan(&plan)];
    let take_all = |key| take_all(store, held_to, key);
    // Braces and the like mean something to some stores, and nothing here.
    let special: &[u8] = b"forget/{a}%*?[x-z]^\\\xff\0:";
    let (near, prefix): (&[u8], &[u8]) = (b"forget/{a}%anything", &special[..special.len() - 1]);
    let alike: [&[u8]; 3] = [special, prefix, &[special, b"more"].concat()];
    let others: [&[u8]; 4] = [near, b"forget/{a}", b"Forget/{a}%*", b"forgot"];
    for key in alike.iter().chain(&others) {
        take_all(key).await;
    }
    let before = Charged::at((bench.now)());
    assert_eq!(
        store.forget(prefix).await.expect("an answer"),
        6,
        "three keys, each under a quota and a plan"
    );
    assert_eq!(store.forget(prefix).await.expect("an answer"), 0, "they are gone");
    for key in others {
        for rules in held_to {
            let decision = store.peek(request(key, rules, 1)).await.expect("an answer");
            assert!(!decision.allowed, "{} was forgotten, too", key.escape_ascii());
        }
    }
    for key in alike {
        (bench.advance)(bench.resolution);
        take_all(key).await;
        for rules in held_to {
            // Whether a store remembers that this was charged before is its own affair.
            let late = store.refund(request(key, rules, 1), before).await.expect("an answer");
            assert!(late.remaining <= 1, "more than was charged before is given back: {rules:?}, {late:?}");
        }
    }
    assert_eq!(store.forget(b"forg").await.expect("an answer"), 12, "those, and all but the one in capitals");
    for key in [special, near, b"forgot"] {
        take_all(key).await;
    }
    assert!(store.forget(b"").await.expect("an answer") >= 8, "no bytes are the start of every key");
    take_all(b"Forget/{a}%*").await;
    assert_eq!(store.forget(b"").await.expect("an answer"), 2, "nothing else is left");
}

/// Takes all of three under each of these rules, which are fresh.
async fn take_all(store: &dyn Store, held_to: [Rules<'_>; 2], key: &[u8]) {
    for rules in held_to {
        let decision = store.acquire(request(key, rules, 3)).await.expect("an answer");
        assert!(decision.allowed, "{} is not fresh: {decision:?}", key.escape_ascii());
    }
}

fn request<'a>(key: &'a [u8], rules: Rules<'a>, cost: u64) -> Request<'a> {
    Request { key: Key::new(key).expect("a key of the suite"), rules, cost: Cost::new(cost) }
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
