//! What is not leased is answered as by the store behind, bit for bit.

use std::sync::Arc;

use proptest::prelude::*;
use ratekeeper::port::{Request, Store};
use ratekeeper::store::Leased;
use ratekeeper::testkit::FakeClock;
use ratekeeper::testkit::conformance::{Bench, check};
use ratekeeper::{Charged, Cost, Key, Lease, MemoryStore, Nanos, Plan, Rules, Timestamp};
use test_support::cases::config;

fn clock() -> FakeClock {
    FakeClock::at(Timestamp::from_nanos(1_761_884_055_342_794_596))
}

fn memory(clock: &FakeClock) -> MemoryStore {
    MemoryStore::builder().clock(clock.clone()).build()
}

#[tokio::test]
async fn without_a_lease_the_suite_passes() {
    let clock = clock();
    let store = Leased::new(memory(&clock)).clock(clock.clone());
    check(&Bench::new(&store, &clock)).await;
    assert_eq!(store.statistics().held, 0);
}

fn never_leased() -> impl Strategy<Value = Vec<Arc<Plan>>> {
    let plan = |text: &str, lease: &str| {
        Arc::new(Plan::parse("api", text).unwrap().lease(lease.parse().unwrap()).unwrap())
    };
    let other = |text: &str| Arc::new(Plan::parse("other", text).unwrap());
    prop::sample::select(vec![
        vec![plan("1000/s", "off")],
        vec![plan("40 per 2s log", "10%")],
        vec![plan("31/s", "10%")],
        vec![plan("1000/s; 50/s log", "10%")],
        vec![plan("1000/s; 31/s", "10%")],
        vec![plan("1000/s burst 100", "10%")],
        vec![plan("1000/s", "10%"), other("500/s")],
    ])
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn what_is_not_eligible_is_answered_by_the_store(
        plans in never_leased(),
        acts in prop::collection::vec((0..4_u8, 0..60_u64, 0..400_000_000_u64), 1..200),
    ) {
        let clock = clock();
        let (bare, leased) = (memory(&clock), Leased::new(memory(&clock)).clock(clock.clone()));
        let rules = if let [only] = &plans[..] { Rules::Plan(only) } else { Rules::Plans(&plans) };
        prop_assert_eq!(rules.leasing(Lease::OFF), None);
        for (act, cost, nanos) in acts {
            let request = Request::new(Key::new("hot").unwrap(), rules, Cost::new(cost));
            let answers = [&bare as &dyn Store, &leased].map(|store| match act {
                0 | 1 => format!("{:?}", store.acquire(request).now().unwrap().unwrap()),
                2 => format!("{:?}", store.peek(request).now().unwrap().unwrap()),
                _ => format!("{:?}", store.refund(request, Charged::NOW).now().unwrap().unwrap()),
            });
            prop_assert_eq!(&answers[0], &answers[1]);
            clock.advance(Nanos::from_nanos(nanos));
        }
        prop_assert_eq!(leased.statistics().by_store, 0);
    }

    /// A key of which little is asked is decided by the store, request by request.
    #[test]
    fn a_quiet_key_is_answered_by_the_store(acts in prop::collection::vec(1..60_u64, 1..100)) {
        let plan = Plan::parse("api", "1000/s").unwrap().lease("10%".parse().unwrap()).unwrap();
        let clock = clock();
        let (bare, leased) = (memory(&clock), Leased::new(memory(&clock)).clock(clock.clone()));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for cost in &acts {
            let request = Request::new(Key::new("cold").unwrap(), Rules::Plan(&plan), Cost::new(*cost));
            let answer = runtime.block_on(leased.acquire(request)).unwrap();
            prop_assert_eq!(runtime.block_on(bare.acquire(request)).unwrap(), answer);
            // Three at most in an aim of 25 ms.
            clock.advance(Nanos::from_millis(9));
        }
        let counts = leased.statistics();
        prop_assert_eq!((counts.by_store, counts.held), (acts.len() as u64, 0));
    }
}
