//! Late refunds: charges are held back and given back later, in any order, when it suits the attacker.
//!
//! What was charged has been refilling since. (Slow requests that were held back and released at once bought 35 attempts
//! in 43 ms under `5 per 1s`; a reservation of an earlier slot of `100/s sliding` admitted 191 at one instant; after a
//! reset, 800 were free.)

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use ratekeeper::port::{Request, Store};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Charged, Cost, Key, MemoryStore, Nanos, Plan, Quota, Rules, Timestamp};

use test_support::bound::{ALGORITHMS, Admission, Bound};
use test_support::crowd::Findings;
use test_support::random::Random;

use crate::hostile::threads::share_of;

const REFILLS: [&str; 4] = ["5 per 1ms", "20 per 10ms", "100 per 100ms", "100/s"];

/// Requests of one attack in a thorough run. Even a share of them is more than any of the quotas allows at once.
const CALLS: u32 = 16_000;

/// Charges that one thread holds back, at most.
const HELD: usize = 40;

fn request<'a>(rules: Rules<'a>, cost: u64) -> Request<'a> {
    Request::new(Key::new("everybody's").unwrap(), rules, Cost::new(cost))
}

/// Takes, holds charges back, and refunds some of them now and then: one, or all at once.
fn attack(store: &MemoryStore, rules: Rules<'_>, threads: usize) -> Vec<Admission> {
    let (barrier, started) = (&Barrier::new(threads), Instant::now());
    let now = move || u64::try_from(started.elapsed().as_nanos()).unwrap();
    let work = |number: usize| {
        let mut random = Random::new(number as u64);
        let (mut kept, mut held) = (Vec::new(), Vec::new());
        barrier.wait();
        for _ in 0..share_of(CALLS) / threads {
            let (before, request) = (now(), request(rules, 1 + random.below(2)));
            let decision = store.acquire(request).now().unwrap().unwrap();
            if let Some(charged_at) = decision.charged_at() {
                let admission = Admission { before, after: now(), cost: request.cost.get(), refunded: None };
                match random.once_in(3) {
                    true => kept.push(admission),
                    false => held.push((admission, Charged::at(charged_at))),
                }
            }
            let release = if held.len() >= HELD { held.len() } else { usize::from(random.once_in(50)) };
            for _ in 0..release.min(held.len()) {
                let (mut admission, charged) = held.swap_remove(random.index(held.len()));
                admission.refunded = Some(now());
                let request = Request { cost: Cost::new(admission.cost), ..request };
                store.refund(request, charged).now().unwrap().unwrap();
                kept.push(admission);
            }
        }
        kept.extend(held.into_iter().map(|(admission, _)| admission));
        kept
    };
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..threads).map(|number| scope.spawn(move || work(number))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn held_back_and_released_at_once() {
    let mut findings = Findings::default();
    let mut crowds = [2, 16, 4, 8].into_iter().cycle();
    for refill in REFILLS {
        for algorithm in ALGORITHMS {
            let text = format!("{refill} {algorithm}");
            let (quota, plan): (Quota, _) = (text.parse().unwrap(), Plan::parse("plan", &text).unwrap());
            let threads = crowds.next().unwrap();
            for rules in [Rules::Quota(&quota), Rules::Plan(&plan)] {
                let admitted = attack(&MemoryStore::default(), rules, threads);
                findings.check(&format!("{quota}, {threads} threads"), &[Bound::of(&quota)], &admitted);
            }
        }
    }
    findings.none();
}

/// Without luck, and for any age: what was taken at different times is given back at one, and the attacker takes what
/// there is. In the span in which nothing but that happens, no more than the capacity passes.
#[test]
fn no_age_of_a_refund_mints() {
    let mut findings = Vec::new();
    for algorithm in ALGORITHMS {
        let quota: Quota = format!("100/s {algorithm}").parse().unwrap();
        for (steps, step) in
            [(1, 0), (1, 999), (1, 1_000), (1, 1_001), (4, 300), (10, 100), (20, 90), (3, 2_000)]
        {
            let clock = FakeClock::at(Timestamp::from_secs(1_761_884_055));
            let store = MemoryStore::builder().clock(clock.clone()).build();
            let rules = Rules::Quota(&quota);
            let drain = || {
                (0..).take_while(|_| store.acquire(request(rules, 1)).now().unwrap().unwrap().allowed).count()
            };
            let mut held = Vec::new();
            for _ in 0..steps {
                while let Some(at) = store.acquire(request(rules, 1)).now().unwrap().unwrap().charged_at() {
                    held.push(Charged::at(at));
                }
                clock.advance(Nanos::from_millis(step));
            }
            // At one instant: what there is, all refunds of before, and what there is then.
            let before = drain();
            for charged in held {
                store.refund(request(rules, 1), charged).now().unwrap().unwrap();
            }
            let after = drain();
            if before + after > 100 {
                findings.push(format!("{quota}, {steps} × {step} ms: {before} and {after} at one instant"));
            }
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

/// What was charged before a reset is not given back after it, whoever took it and however it is told.
#[test]
fn a_reset_leaves_nothing_to_give_back() {
    for algorithm in ALGORITHMS {
        let text = format!("100/s {algorithm}");
        let (quota, plan): (Quota, _) = (text.parse().unwrap(), Plan::parse("plan", &text).unwrap());
        for rules in [Rules::Quota(&quota), Rules::Plan(&plan)] {
            let clock = FakeClock::at(Timestamp::from_secs(1_761_884_055));
            let store = MemoryStore::builder().clock(clock.clone()).build();
            for round in 0..8 {
                let charged =
                    store.acquire(request(rules, 100)).now().unwrap().unwrap().charged_at().unwrap();
                clock.advance(Nanos::from_millis(1));
                assert_eq!(store.reset(request(rules, 0)).now().unwrap().unwrap(), 1);
                clock.advance(Nanos::from_millis(1));
                assert!(store.acquire(request(rules, 100)).now().unwrap().unwrap().allowed);
                for charged in [Charged::at(charged), Charged::ago(Nanos::from_millis(2))] {
                    let left = store.refund(request(rules, 100), charged).now().unwrap().unwrap().remaining;
                    assert_eq!(left, 0, "{text}, round {round}: {charged:?}");
                }
                store.reset(request(rules, 0)).now().unwrap().unwrap();
                clock.advance(Nanos::from_millis(1));
            }
        }
    }
}
