//! Bounds on states and on bytes, and room for plans: counted from outside, by decisions and statistics.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use ratekeeper::port::{Request, Store};
use ratekeeper::store::{MemoryStoreBuilder, OnFull};
use ratekeeper::{Cost, Key, MemoryStore, Nanos, Plan, Reason, Rules};

use crate::hostile::flood::{POLICIES, acquire, clock, quota};
use test_support::cases::{is_thorough, share};
use test_support::random::Random;

#[test]
fn the_bounds_are_a_million_keys_and_128_or_192_bytes_for_each() {
    let bounds = |builder: MemoryStoreBuilder| {
        let statistics = builder.build().statistics();
        (statistics.max_keys, statistics.max_bytes)
    };
    assert_eq!(bounds(MemoryStore::builder()), (1_000_000, 128_000_000));
    assert_eq!(bounds(MemoryStore::builder().keep_keys(true)), (1_000_000, 192_000_000));
    assert_eq!(bounds(MemoryStore::builder().max_keys(1_000)), (1_000, 16 << 20));
    assert_eq!(bounds(MemoryStore::builder().max_bytes(5 << 20)), (1_000_000, 5 << 20));
}

/// A million keys under a quota of thirty years used to lock out every new customer for as long. An ordinary run floods a
/// store of a tenth of the size.
#[test]
fn a_flood_of_foreign_quotas_leaves_room_for_plans() {
    let room = if is_thorough() { 1_000_000 } else { 100_000 };
    let clock = clock();
    let store = MemoryStore::builder().max_keys(room).clock(clock.clone()).build();
    let plan = Plan::parse("free", "10/m; daily=100/day").unwrap();
    assert!(acquire(&store, "the first customer", Rules::Plan(&plan)).allowed);
    let foreign = quota("1 per 1000000000s");
    let admitted =
        (0..room).filter(|key| acquire(&store, &format!("j{key}"), Rules::Quota(&foreign)).allowed).count();
    let refused = (0..1_000)
        .filter(|key| !acquire(&store, &format!("customer:{key}"), Rules::Plan(&plan)).allowed)
        .count();
    assert_eq!(refused, 0, "new customers of 1,000, after {admitted} foreign keys");
    assert_eq!(admitted, room / 2);
    // A limited key stays limited, and the other half of the store has room for plans: two states for each customer.
    assert!(!acquire(&store, "j7", Rules::Quota(&foreign)).allowed);
    let left = room / 4 - 1_001;
    let more = (0..left).filter(|key| acquire(&store, &format!("more:{key}"), Rules::Plan(&plan)).allowed);
    assert_eq!(more.count(), left, "after 1,001 customers");
    assert_eq!(acquire(&store, "one more", Rules::Plan(&plan)).reason, Reason::StoreFull);
    let statistics = store.statistics();
    assert_eq!((statistics.keys, statistics.keys_of_requests), (room, room / 2));
    let refused = room as u64 / 2;
    assert_eq!((statistics.refused, statistics.refused_of_requests), (refused + 1, refused));
}

/// Without plans, quotas of requests may take the whole store; a configured share is kept for plans from the start.
#[test]
fn room_is_kept_once_there_is_a_plan_or_a_setting() {
    let (foreign, plan) = (quota("1/h"), Plan::parse("free", "10/m").unwrap());
    let fill = |store: &MemoryStore| {
        (0..2_000).filter(|key| acquire(store, &format!("j{key}"), Rules::Quota(&foreign)).allowed).count()
    };
    let builder = || MemoryStore::builder().max_keys(1_000).clock(clock());
    let store = builder().build();
    assert_eq!((fill(&store), store.statistics().kept_for_plans), (1_000, 0));
    // It is too late for this one, and time for those to come.
    assert_eq!(acquire(&store, "late", Rules::Plan(&plan)).reason, Reason::StoreFull);
    assert_eq!(store.statistics().kept_for_plans, 50);
    for (percent, room) in [(0, 1_000), (50, 500), (90, 100), (100, 0)] {
        let store = builder().kept_for_plans(percent).build();
        assert_eq!(fill(&store), room, "{percent} %");
        assert_eq!(acquire(&store, "customer", Rules::Plan(&plan)).allowed, percent > 0);
        store.keep_for_plans(0);
        assert_eq!(fill(&store), 1_000 - room - usize::from(percent > 0), "{percent} % no more");
    }
}

/// 242 states took 66 MB where a thousand keys were to take forty bytes each. An ordinary run has an eighth of the states and
/// of the bytes.
#[test]
fn logs_take_no_more_than_they_may() {
    let keys: Vec<String> = (0..share(242)).map(|key| format!("log:{key}")).collect();
    let max_bytes = if is_thorough() { 16 << 20 } else { 2 << 20 };
    for policy in POLICIES {
        let clock = clock();
        let builder = MemoryStore::builder().max_keys(1_000).max_bytes(max_bytes);
        let store = builder.on_full(policy).clock(clock.clone()).build();
        let log = quota("10000/day log");
        let mut admitted = vec![0u64; keys.len()];
        let mut last = Vec::new();
        for _ in 0..10_000 {
            clock.advance(Nanos::from_millis(1));
            last = keys.iter().map(|key| acquire(&store, key, Rules::Quota(&log))).collect();
            for (count, decision) in admitted.iter_mut().zip(&last) {
                *count += u64::from(decision.allowed);
            }
        }
        let statistics = store.statistics();
        assert!(statistics.bytes <= max_bytes, "{policy:?}: {statistics:?}");
        assert!(last.iter().any(|decision| decision.reason == Reason::StoreFull), "{policy:?}");
        // What was admitted was recorded.
        for (key, count) in keys.iter().zip(&admitted) {
            let request = Request::new(Key::new(key).unwrap(), Rules::Quota(&log), Cost::ZERO);
            let left = store.peek(request).now().unwrap().unwrap().remaining;
            assert_eq!(left, 10_000 - count, "{policy:?}: {key}");
        }
        // Time gives it back.
        clock.advance(Nanos::from_secs(86_401));
        assert!(acquire(&store, "log:0", Rules::Quota(&log)).allowed);
        store.sweep();
        assert!(store.statistics().bytes < 64 << 10, "{:?}", store.statistics());
    }
}

/// Kept keys whose states had expired, or were reset, used to fill the bytes until the operator forgot them by prefix.
#[test]
fn dead_keys_take_no_room() {
    // Several times as many keys as fit, in two seconds.
    let keys: usize = if is_thorough() { 20_000 } else { 5_000 };
    let pause = Nanos::from_nanos(2_000_000_000 / keys as u64);
    let zeros = "0".repeat(900);
    let (short, long) = (quota("1 per 1s"), quota("1 per 1h"));
    let plan = |quota: &str| Plan::parse("plan", quota).unwrap();
    let plans = [plan("1 per 1s"), plan("1 per 1h")];
    let of_requests = [Rules::Quota(&short), Rules::Quota(&long)];
    let of_plans = plans.each_ref().map(Rules::Plan);
    for [short, long] in [of_requests, of_plans] {
        for are_reset in [false, true] {
            let clock = clock();
            let builder = MemoryStore::builder().keep_keys(true).max_keys(20_000).max_bytes(2 << 20);
            let store = builder.kept_for_plans(50).clock(clock.clone()).build();
            let empty = store.statistics().bytes;
            let name = |round: u64, key: usize| format!("{round}:{zeros}{key}");
            let fill = |round, rules| {
                // Slowly: after a search in vain the store does not search again for a while.
                let ask = |key: &usize| {
                    clock.advance(pause);
                    acquire(&store, &name(round, *key), rules).allowed
                };
                (0..keys).filter(ask).count()
            };
            let end = |round, rules| match are_reset {
                true => (0..keys).for_each(|key| {
                    let key = name(round, key);
                    let request = Request::new(Key::new(&key).unwrap(), rules, Cost::ONE);
                    store.reset(request).now().unwrap().unwrap();
                }),
                false => clock.advance(Nanos::from_secs(7_200)),
            };
            let first = fill(0, long);
            assert!((800..3_000).contains(&first), "{rules:?}: {first}", rules = long);
            end(0, long);
            // The states of the first keys expire before the last keys come.
            assert!(fill(1, short) > first);
            end(1, short);
            let again = fill(2, long);
            assert!(again > first * 9 / 10, "{long:?}, reset {are_reset}: {first}, then {again}");
            end(2, long);
            store.sweep();
            let swept = store.statistics();
            assert!(swept.keys == 0 && swept.bytes_of_requests == 0, "{long:?}: {swept:?}");
            // What is left is what was noted of the resets.
            assert!(swept.bytes < empty + (256 << 10), "{long:?}, reset {are_reset}: {swept:?}");
        }
    }
}

/// A request that found no room used to get a state under each new quota from the room kept for plans.
#[test]
fn shared_states_leave_room_for_plans() {
    let clock = clock();
    let builder = MemoryStore::builder().max_keys(10_000).kept_for_plans(50).on_full(OnFull::Share);
    let store = builder.clock(clock.clone()).build();
    let plan = Plan::parse("free", "10/m").unwrap();
    let window = |number: usize| quota(&format!("1 per {}ms fixed", 3_600_000 + number));
    let ask = |number: usize| acquire(&store, &format!("j{number}"), Rules::Quota(&window(number)));
    let admitted = (0..20_000).filter(|number| ask(*number).allowed).count();
    assert_eq!(admitted, 5_000 + 1_024);
    assert_eq!(store.statistics().keys_of_requests, admitted);
    assert_eq!(ask(30_000).reason, Reason::StoreFull);
    let refused = store.statistics().refused;
    let customers = (0..3_000)
        .filter(|key| acquire(&store, &format!("customer:{key}"), Rules::Plan(&plan)).allowed)
        .count();
    assert_eq!((customers, store.statistics().refused - refused), (3_000, 0));
}

/// The same of their logs, which take bytes.
#[test]
fn shared_logs_leave_room_for_plans() {
    let clock = clock();
    let builder = MemoryStore::builder().max_bytes(4 << 20).kept_for_plans(50).on_full(OnFull::Share);
    let store = builder.clock(clock.clone()).build();
    for number in 0..40 {
        let (key, log) = (format!("log:{number}"), quota(&format!("10000 per {}s log", 80_000 - number)));
        for _ in 0..5_000 {
            clock.advance(Nanos::from_nanos(1));
            acquire(&store, &key, Rules::Quota(&log));
        }
    }
    let plan = Plan::parse("free", "10/m").unwrap();
    let statistics = store.statistics();
    assert!(statistics.refused_of_requests > 0 && statistics.bytes < 3 << 20, "{statistics:?}");
    let customers = (0..10_000)
        .filter(|key| acquire(&store, &format!("customer:{key}"), Rules::Plan(&plan)).allowed)
        .count();
    assert_eq!((customers, store.statistics().refused - statistics.refused), (10_000, 0));
}

/// All bounds at once, under 64 threads, while another thread reads the statistics.
#[test]
fn all_bounds_hold_under_a_crowd() {
    const THREADS: usize = 64;
    let calls = if is_thorough() { 4_000 } else { 1_000 };
    for keep_keys in [false, true] {
        let (max_keys, max_bytes) = (20_000, 2 << 20);
        let builder = MemoryStore::builder().max_keys(max_keys).max_bytes(max_bytes).keep_keys(keep_keys);
        let store = builder.kept_for_plans(60).build();
        let quotas = ["1/h", "2/h bucket", "50/h log", "1 per 3ms", "1 per 2ms log", "2/h fixed"].map(quota);
        let plans = ["a=1/h", "a=9/h log; b=1/h sliding", "a=1 per 1ms; b=5/h"]
            .map(|text| Plan::parse("plan", text).unwrap());
        let (working, looks) = (AtomicUsize::new(THREADS), AtomicUsize::new(0));
        let is_breached = AtomicBool::new(false);
        let check = || {
            let now = store.statistics();
            let is_kept = now.bytes <= max_bytes
                && now.keys_of_requests <= max_keys * 4 / 10
                && now.bytes_of_requests <= max_bytes * 4 / 10;
            assert!(is_kept || is_breached.swap(true, Ordering::Relaxed), "{now:?}");
            looks.fetch_add(1, Ordering::Relaxed);
        };
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (store, quotas, plans, working) = (&store, &quotas, &plans, &working);
                scope.spawn(move || {
                    let mut random = Random::new(thread as u64);
                    for _ in 0..calls {
                        let key = format!("{}:{}", random.below(4), random.below(9_000));
                        let rules = match random.below(3) {
                            0 => Rules::Plan(&plans[draw(&mut random, plans.len())]),
                            _ => Rules::Quota(&quotas[draw(&mut random, quotas.len())]),
                        };
                        match random.below(200) {
                            0 => drop(store.sweep()),
                            1 if keep_keys => {
                                drop(block_on(store.forget(format!("{}:1", thread % 4).as_bytes())))
                            }
                            _ => drop(acquire(store, &key, rules)),
                        }
                    }
                    working.fetch_sub(1, Ordering::Relaxed);
                });
            }
            while working.load(Ordering::Relaxed) > 0 {
                check();
                std::thread::park_timeout(Duration::from_micros(200));
            }
        });
        check();
        assert!(!is_breached.into_inner());
        assert!(store.statistics().refused_of_requests > 0, "it was full: {:?}", store.statistics());
        if keep_keys {
            block_on(store.forget(b"")).unwrap();
            let empty = store.statistics();
            assert_eq!((empty.keys, empty.keys_of_requests, empty.bytes_of_requests), (0, 0, 0), "{empty:?}");
        }
    }
}

fn draw(random: &mut Random, below: usize) -> usize {
    usize::try_from(random.below(below as u64)).unwrap()
}

/// Polls until the value is there.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}
