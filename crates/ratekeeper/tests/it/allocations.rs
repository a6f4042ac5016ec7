//! A key that is known is decided without an allocation.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use ratekeeper::port::{Request, Store};
use ratekeeper::store::{LeaseStatistics, Leased, OnFull};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Charged, Cost, Keeper, Key, MemoryStore, Nanos, Plan, Quota, Registry, Rules, Timestamp};
use test_support::cases::is_thorough;

#[test]
fn a_known_key_is_decided_without_an_allocation() {
    let store = MemoryStore::default();
    let quotas: Vec<Quota> = ["1000/h", "1000/h bucket", "1000/h leaky", "1000/h fixed", "1000/h sliding"]
        .map(|text| text.parse().unwrap())
        .into();
    let plan = Plan::parse("gold", "a=1000/h; b=1000/h bucket; c=1000/h fixed").unwrap();
    let rules = quotas.iter().map(Rules::Quota).chain([Rules::Plan(&plan)]);
    for rules in rules {
        let request = Request::new(Key::new("user:42").unwrap(), rules, Cost::ONE);
        store.acquire(request).now().unwrap().unwrap();
        let counted = allocation_counter::measure(|| {
            assert!(store.acquire(request).now().unwrap().unwrap().allowed);
            assert!(store.peek(request).now().unwrap().unwrap().allowed);
        });
        assert_eq!(counted.count_total, 0, "{rules:?}");
    }
}

/// Awaits what does not have to wait.
fn polled<T>(mut awaited: impl Future<Output = T> + Unpin) -> T {
    match Pin::new(&mut awaited).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => unreachable!("a store in memory answers at once"),
    }
}

#[test]
fn a_keeper_rules_on_a_known_key_without_an_allocation() {
    let plans = Registry::new([Plan::parse("gold", "a=1000/h; b=1000/day").unwrap()]);
    let keeper = Keeper::new(MemoryStore::default(), plans);
    let key = Key::new("user:42").unwrap();
    let rule = || {
        let ruling = keeper.acquire(key, "gold", Cost::ONE).now().expect("a store in memory answers at once");
        assert!(ruling.unwrap().allowed);
        assert!(polled(keeper.acquire(key, "gold", Cost::ONE).into_future()).unwrap().allowed);
        assert!(keeper.peek(key, "gold", Cost::ONE).now().is_ok());
        assert!(keeper.refund(key, "gold", Cost::ONE, Charged::NOW).now().is_ok());
    };
    rule();
    assert_eq!(allocation_counter::measure(rule).count_total, 0);
}

/// Whether a lease has paid for it or the key pauses, asked for here or through the keeper: only who makes a call may need
/// memory for it.
#[test]
fn what_a_lease_answers_is_decided_without_an_allocation() {
    let clock = FakeClock::at(Timestamp::from_secs(1_761_884_055));
    let behind = MemoryStore::builder().clock(clock.clone()).build();
    let store = Arc::new(Leased::new(behind).clock(clock));
    let plan = Plan::parse("gold", "2000/s").unwrap().lease("10%".parse().unwrap()).unwrap();
    let keeper = Keeper::new(Arc::clone(&store), Registry::new([plan.clone()]));
    let key = Key::new("user:42").unwrap();
    let request = Request::new(key, Rules::Plan(&plan), Cost::ONE);
    let calls = |counts: LeaseStatistics| counts.full + counts.short + counts.refused + counts.by_store;
    let mut answered = [0; 2];
    // The quota and as many again.
    for turn in 0..4_000 {
        let before = store.statistics();
        let mut is_allowed = false;
        let counted = allocation_counter::measure(|| {
            is_allowed = match turn % 2 {
                0 => polled(store.acquire(request)).unwrap().allowed,
                _ => polled(keeper.acquire(key, "gold", Cost::ONE).into_future()).unwrap().allowed,
            };
        });
        if calls(store.statistics()) == calls(before) {
            assert_eq!(counted.count_total, 0, "turn {turn}, allowed: {is_allowed}");
            answered[usize::from(is_allowed)] += 1;
        }
    }
    let [refused, paid] = answered;
    assert!(paid > 1_900 && refused > 1_900, "{refused} refused and {paid} paid for without a call");
}

/// Of one request and of many: the list is the caller's.
#[test]
fn a_keeper_decides_a_batch_without_an_allocation() {
    let keeper = Keeper::new(MemoryStore::default(), Registry::default());
    let quota: Quota = "1000/h".parse().unwrap();
    let request = Request::new(Key::new("user:42").unwrap(), Rules::Quota(&quota), Cost::ONE);
    let requests = [request; 100];
    let mut answers = Vec::with_capacity(requests.len());
    for many in [1, 2, 100] {
        let mut decide = || {
            answers.clear();
            assert!(keeper.acquire_many(&requests[..many], &mut answers).now().is_ok());
        };
        decide();
        assert_eq!(allocation_counter::measure(decide).count_total, 0, "{many}");
        assert!(answers.len() == many && answers.iter().all(Result::is_ok));
    }
}

/// What the store says it takes is what it takes, whatever it holds, and never more than it may: counted by the allocator.
#[test]
fn the_store_allocates_what_it_says_and_no_more_than_it_may() {
    let quotas: Vec<Quota> = ["9/h", "1 per 1s", "9/h bucket", "50/h log", "3 per 1s log"]
        .map(|text| text.parse().unwrap())
        .into();
    let plan = Plan::parse("gold", "a=1 per 1s; b=9/h fixed; c=20/m log").unwrap();
    let names: Vec<String> = (0..30_000).map(|name| format!("customer:{}:{name}", name % 7)).collect();
    for (keep_keys, on_full) in [(false, OnFull::Refuse), (true, OnFull::Share)] {
        // So much that it is full before the last third of the steps.
        let (max_bytes, steps): (i32, _) = if is_thorough() { (3 << 20, 150_000) } else { (1 << 20, 40_000) };
        let clock = FakeClock::at(Timestamp::from_secs(1_761_884_055));
        let mut store = None;
        let built = allocation_counter::measure(|| {
            let builder = MemoryStore::builder().max_bytes(usize::try_from(max_bytes).unwrap());
            let builder = builder.keep_keys(keep_keys).on_full(on_full);
            store = Some(builder.clock(clock.clone()).build());
        });
        let store = store.unwrap();
        // The clock is no part of it.
        assert!(built.bytes_current.abs_diff(taken(&store)) < 64);
        let mut held = taken(&store);
        let mut random = 7u64;
        let mut draw = |below: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(random >> 33).unwrap() % below
        };
        for step in 0..steps {
            let (name, number, rest) = (draw(names.len()), draw(quotas.len() + 1), draw(20_000));
            let rules = quotas.get(number).map_or(Rules::Plan(&plan), Rules::Quota);
            let request = Request::new(Key::new(&names[name]).unwrap(), rules, Cost::ONE);
            let counted = allocation_counter::measure(|| match rest {
                0 => drop(store.sweep()),
                1..=40 => drop(store.reset(request).now()),
                41..=80 => drop(store.refund(request, Charged::NOW).now()),
                _ => drop(store.acquire(request).now().unwrap()),
            });
            if rest < 20 {
                clock.advance(Nanos::from_secs(60));
            }
            // Whoever tidies up needs some room to write down what lives.
            let most = if keep_keys { max_bytes + (64 << 10) } else { max_bytes };
            assert!(
                held + i64::try_from(counted.bytes_max).unwrap() <= i64::from(most),
                "at most, step {step}"
            );
            held += counted.bytes_current;
            assert_eq!(held, taken(&store), "step {step}: {rest}, {rules:?}");
        }
        assert!(store.statistics().refused > 0, "it was full");
    }
}

fn taken(store: &MemoryStore) -> i64 {
    store.statistics().bytes.try_into().expect("less than there is memory")
}
