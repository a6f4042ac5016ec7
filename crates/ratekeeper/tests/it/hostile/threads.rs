//! The bound on the store in memory, with the process's clock and real threads.
//!
//! The store used to read the clock before it took the lock, and took a thread that was late for a clock that had stepped
//! back: its denial wrote a lower state. 16 threads under `1000/s burst 100` were allowed 27,175 requests in two seconds
//! instead of 2,100.

use std::thread;
use std::time::Duration;

use ratekeeper::port::{Clock, Request, Store};
use ratekeeper::{Cost, Key, MemoryStore, MonotonicClock, Plan, Quota, Rules};

use test_support::bound::{ALGORITHMS, Bound};
use test_support::cases::share;
use test_support::crowd::{Findings, SIZES, crowd};
use test_support::random::Random;

/// The refills that each algorithm is attacked at: from a millisecond to a minute.
pub(crate) const REFILLS: [&str; 5] = ["5 per 1ms", "20 per 10ms", "100 per 100ms", "300/s", "600/m"];

/// Requests of one attack in a thorough run. Even a [share] of them is more than any of the quotas allows at once.
pub(crate) const CALLS: u32 = 32_000;

/// Returns this run's share of so many calls.
pub(crate) fn share_of(calls: u32) -> usize {
    share(calls) as usize
}

const KEY: &str = "everybody's";

/// Attacks every algorithm at every refill, with so many calls each in a thorough run. `ask` receives the store, a request of a
/// random cost, and random numbers.
fn attack(name: &str, calls: u32, ask: impl Fn(&MemoryStore, Request<'_>, &mut Random) -> u64 + Sync) {
    let mut findings = Findings::default();
    let mut crowds = SIZES.iter().cycle();
    for refill in REFILLS {
        for algorithm in ALGORITHMS {
            let quota: Quota = format!("{refill} {algorithm}").parse().unwrap();
            let threads = *crowds.next().unwrap();
            let store = MemoryStore::default();
            let admitted = crowd(threads, share_of(calls), |_, random| {
                let cost = Cost::new(if random.once_in(4) { 1 + random.below(3) } else { 1 });
                let request = Request::new(Key::new(KEY).unwrap(), Rules::Quota(&quota), cost);
                ask(&store, request, random)
            });
            let attack = format!("{name}, {quota}, {threads} threads");
            findings.check(&attack, &[Bound::of(&quota)], &admitted);
        }
    }
    findings.none();
}

/// Suspends the thread now and then, sometimes for longer than a short refill.
fn pause(random: &mut Random) {
    match random.below(64) {
        0 => thread::park_timeout(Duration::from_micros(random.below(4_000))),
        1..=15 => thread::yield_now(),
        _ => {}
    }
}

#[test]
fn one_by_one() {
    attack("one by one", CALLS, |store, request, _| {
        let decision = store.acquire(request).now().unwrap().unwrap();
        if decision.allowed { request.cost.get() } else { 0 }
    });
}

/// A batch reads the clock once, so its last requests are late by what the first ones took.
#[test]
fn in_batches() {
    // Each call makes twenty requests of ours on average.
    attack("in batches", CALLS / 16, |store, request, random| {
        // Others between ours, so that a batch takes as long as batches do.
        let others: Vec<String> = (0..random.below(40)).map(|other| format!("other:{other}")).collect();
        let other = |key| Request { key: Key::new(key).unwrap(), ..request };
        let requests: Vec<Request<'_>> = others.iter().flat_map(|key| [request, other(key)]).collect();
        let mut decisions = Vec::new();
        store.acquire_many(&requests, &mut decisions).now().unwrap().unwrap();
        let ours = decisions.iter().step_by(2).filter(|decision| decision.as_ref().unwrap().allowed).count();
        ours as u64 * request.cost.get()
    });
}

/// A caller reads the clock, is suspended, and makes a request with an instant that has passed.
#[test]
fn with_instants_that_are_late() {
    attack("late", CALLS / 4, |store, request, random| {
        let now = MonotonicClock.now();
        pause(random);
        let decision = store.acquire_at(request, now).unwrap();
        if decision.allowed { request.cost.get() } else { 0 }
    });
}

#[test]
fn in_partial_grants() {
    attack("partial", CALLS, |store, request, random| {
        let least = 1 + random.below(5);
        let request = Request { cost: Cost::new(least), ..request };
        store
            .acquire_up_to(request, Cost::new(least + random.below(15)))
            .now()
            .unwrap()
            .unwrap()
            .granted
            .get()
    });
}

/// The quota of the bug, under crowds of every size.
#[test]
fn crowds_of_every_size() {
    let quota: Quota = "1000/s burst 100".parse().unwrap();
    let mut findings = Findings::default();
    for threads in [2, 3, 4, 8, 16, 32, 64] {
        let store = MemoryStore::default();
        let request = Request::new(Key::new(KEY).unwrap(), Rules::Quota(&quota), Cost::ONE);
        let admitted = crowd(threads, share_of(8 * CALLS), |_, _| {
            u64::from(store.acquire(request).now().unwrap().unwrap().allowed)
        });
        findings.check(&format!("{quota}, {threads} threads"), &[Bound::of(&quota)], &admitted);
    }
    findings.none();
}

/// Without luck: an instant of the past between instants of the present, for every algorithm and refill. It found the
/// state further ahead than a refill, took that for a clock that had stepped back, and its denial wrote a lower one.
#[test]
fn an_old_instant_is_no_clock_that_stepped_back() {
    let mut findings = Vec::new();
    let refills =
        REFILLS.iter().flat_map(|refill| ALGORITHMS.map(|algorithm| format!("{refill} {algorithm}")));
    let bursts = ["1000/s burst 100", "1000/s burst 100 bucket", "1000/s burst 100 leaky"];
    for text in refills.chain(bursts.map(str::to_owned)) {
        let (quota, plan): (Quota, _) = (text.parse().unwrap(), Plan::parse("plan", &text).unwrap());
        let now = MonotonicClock.now();
        for rules in [Rules::Quota(&quota), Rules::Plan(&plan)] {
            for late in [1, 1_000_000, 50_000_000, 5_000_000_000] {
                let store = MemoryStore::default();
                let request = Request::new(Key::new(KEY).unwrap(), rules, Cost::ONE);
                let ask = |at| u64::from(store.acquire_at(request, at).unwrap().allowed);
                let first: u64 = (0..1_000).map(|_| ask(now)).sum();
                assert_eq!(first, quota.burst());
                let past = now.saturating_sub(ratekeeper::Nanos::from_nanos(late));
                let then: u64 = (0..10).map(|_| ask(past) + (0..100).map(|_| ask(now)).sum::<u64>()).sum();
                if then > 0 {
                    findings.push(format!("{rules:?}: {then} more after an instant {late} ns ago"));
                }
            }
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}
