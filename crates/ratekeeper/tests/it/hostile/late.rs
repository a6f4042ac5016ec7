//! Late callers and late refunds in every order, with chosen clocks: what no thread would do in a test, and some will.

use std::time::Duration;

use ratekeeper::port::{Request, Store};
use ratekeeper::store::OnFull;
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Algorithm, Charged, Cost, Key, MemoryStore, Nanos, Plan, Quota, Rules, Timestamp};

use test_support::bound::{ALGORITHMS, Admission, Bound, breach};
use test_support::cases::each_seed;
use test_support::random::Random;

const START: Timestamp = Timestamp::from_secs(1_761_884_055);

fn request<'a>(key: &'a str, rules: Rules<'a>, cost: u64) -> Request<'a> {
    Request::new(Key::new(key).unwrap(), rules, Cost::new(cost))
}

fn at(millis: u64) -> Timestamp {
    START + Nanos::from_millis(millis)
}

/// What was taken and never given back, at the instants at which it was charged.
fn history(random: &mut Random, rules: Rules<'_>) -> Vec<Admission> {
    let clock = FakeClock::at(START);
    let store = MemoryStore::builder().max_keys(1_000).clock(clock.clone()).build();
    let (mut wall, mut held) = (0, Vec::new());
    for _ in 0..60 {
        match random.below(12) {
            0..=3 => {
                wall += random.below(300);
                clock.set(at(wall));
            }
            4..=8 => {
                let (cost, late) = (1 + random.below(4), random.below(2) * random.below(2_500));
                let asked = request("k", rules, cost);
                let decision = store.acquire_at(asked, at(wall.saturating_sub(late))).unwrap();
                held.extend(decision.charged_at().map(|at| (at, cost)));
            }
            9 | 10 if !held.is_empty() => {
                let (charged, cost) = held.swap_remove(random.index(held.len()));
                let refund = store.refund(request("k", rules, cost), Charged::at(charged));
                refund.now().unwrap().unwrap();
            }
            11 if random.below(4) == 0 => drop(store.sweep()),
            _ => {}
        }
    }
    let kept = held.into_iter().map(|(charged, cost): (Timestamp, u64)| {
        let at = charged.since(START).as_nanos();
        Admission { before: at, after: at, cost, refunded: None }
    });
    kept.collect()
}

/// Callers of the past, refunds of any age and order, and somebody who sweeps: in every span no more was taken, and not
/// given back, than the quota admits. A sweep used to drop what a late caller should still have found.
#[test]
fn no_order_of_late_calls_mints() {
    let quotas = ALGORITHMS.iter().map(|algorithm| format!("10/s {algorithm}"));
    for text in quotas.chain(["10/s burst 4".to_owned()]) {
        let (quota, plan) = (text.parse::<Quota>().unwrap(), Plan::parse("p", &text).unwrap());
        let bound = Bound::of(&quota);
        for rules in [Rules::Plan(&plan), Rules::Quota(&quota)] {
            each_seed(120, |seed| {
                let kept = history(&mut Random::new(0x1a7e + seed), rules);
                if let Some(breach) = breach(&kept, |span| bound.exactly(span)) {
                    panic!("{text}, {rules:?}: {breach}");
                }
            });
        }
    }
}

/// A key's states were swept, or made way for a flood, at a later instant than a caller had read: it found a fresh key.
#[test]
fn who_comes_late_finds_what_was_there() {
    for algorithm in ALGORITHMS {
        let text = format!("1/s {algorithm}");
        let plan = Plan::parse("p", &text).unwrap();
        let rules = Rules::Plan(&plan);
        let clock = FakeClock::at(START);
        let store = MemoryStore::builder().clock(clock.clone()).build();
        assert!(store.acquire_at(request("k", rules, 1), START).unwrap().allowed, "{text}");
        clock.set(START + Nanos::from_nanos(1_000_000_001));
        store.sweep();
        let late = store.acquire_at(request("k", rules, 1), at(950)).unwrap().allowed;
        let next = store.acquire_at(request("k", rules, 1), at(1_951)).unwrap().allowed;
        assert!(!(late && next), "{text}: two within 0.95 s");
    }
    let plan = Plan::parse("p", "1/s").unwrap();
    let rules = Rules::Plan(&plan);
    let store = MemoryStore::builder().max_keys(100).clock(FakeClock::at(START)).build();
    let ask = |key: &str, millis| store.acquire_at(request(key, rules, 1), at(millis)).unwrap().charged_at();
    let first: Vec<_> = (0..100).map(|key| ask(&format!("k{key}"), key / 2).unwrap()).collect();
    (0..50).for_each(|key| assert!(ask(&format!("new{key}"), 1_100).is_some()));
    for (key, first) in (0..).zip(first) {
        let again = ask(&format!("k{key}"), key / 2 + 999);
        assert!(again.is_none_or(|again| again.since(first) >= Nanos::from_secs(1)), "key {key}");
    }
}

/// A second reset, with nothing left to forget, made the store forget the first; and a snapshot knows of none.
#[test]
fn what_was_reset_stays_reset() {
    let clock = FakeClock::at(START);
    let store = MemoryStore::builder().max_keys(10_000).clock(clock.clone()).build();
    let plan = Plan::parse("p", "5/h").unwrap();
    let rules = Rules::Plan(&plan);
    let take = |store: &MemoryStore, key: &str, cost| {
        clock.advance(Nanos::from_secs(1));
        store.acquire(request(key, rules, cost)).now().unwrap().unwrap().charged_at().unwrap()
    };
    let reset = |key: &str| {
        clock.advance(Nanos::from_secs(1));
        store.reset(request(key, rules, 0)).now().unwrap().unwrap();
    };
    let old = take(&store, "k", 5);
    reset("k");
    take(&store, "k", 1);
    reset("k");
    clock.advance(Nanos::from_secs(800));
    // Others come and go in every shard.
    for key in 0..400 {
        take(&store, &format!("other{key}"), 1);
        store.reset(request(&format!("other{key}"), rules, 0)).now().unwrap().unwrap();
    }
    take(&store, "k", 5);
    let refund = |store: &MemoryStore| {
        let refund = store.refund(request("k", rules, 5), Charged::at(old));
        refund.now().unwrap().unwrap().remaining
    };
    assert_eq!(refund(&store), 0);
    let restored = MemoryStore::builder().clock(clock.clone()).restore(&store.snapshot()).unwrap();
    assert_eq!(refund(&restored), 0);
}

/// Windows of every length that a caller can think of, all of one key: they lay in one half of one shard's table, and
/// with `OnFull::Share` they had no bound at all.
#[test]
fn one_key_with_very_many_quotas_is_bounded() {
    let fixed = |seconds: u64| {
        let quota = Quota::per(1, Duration::from_secs(1_000 + seconds)).algorithm(Algorithm::FIXED);
        quota.build().unwrap()
    };
    let store = MemoryStore::builder().clock(FakeClock::at(START)).build();
    let full = MemoryStore::builder().max_keys(10).on_full(OnFull::Share).clock(FakeClock::at(START)).build();
    for seconds in 0..40_000 {
        let quota = fixed(seconds);
        store.acquire(request("k", Rules::Quota(&quota), 1)).now().unwrap().unwrap();
        full.acquire(request("k", Rules::Quota(&quota), 1)).now().unwrap().unwrap();
    }
    assert!(store.len() < 20_000 && full.len() < 20_000, "{} and {}", store.len(), full.len());
    assert!(store.acquire(request("other", Rules::Quota(&fixed(0)), 1)).now().unwrap().unwrap().allowed);
    let forgotten = store.reset(request("k", Rules::Quota(&fixed(0)), 0)).now().unwrap().unwrap();
    assert!(forgotten > 10_000 && store.len() == 1, "{forgotten} forgotten, {} left", store.len());
}

/// A shard's time began in 1970, and stood still until then.
#[test]
fn time_runs_before_the_epoch() {
    let (store, plan) = (MemoryStore::default(), Plan::parse("p", "1/s").unwrap());
    let ask = |seconds| {
        let asked = request("k", Rules::Plan(&plan), 1);
        store.acquire_at(asked, Timestamp::from_secs(seconds)).unwrap().allowed
    };
    assert!(ask(-1_000) && !ask(-1_000) && ask(-999));
}
