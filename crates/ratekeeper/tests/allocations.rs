//! A key that is known is decided without an allocation.

use ratekeeper::port::{Request, Store};
use ratekeeper::{Cost, Keeper, Key, MemoryStore, Plan, Quota, Registry, Rules};

#[test]
fn a_known_key_is_decided_without_an_allocation() {
    let store = MemoryStore::default();
    let quotas: Vec<Quota> = ["1000/h", "1000/h bucket", "1000/h leaky", "1000/h fixed", "1000/h sliding"]
        .map(|text| text.parse().unwrap())
        .into();
    let plan = Plan::parse("gold", "a=1000/h; b=1000/h bucket; c=1000/h fixed").unwrap();
    let rules = quotas.iter().map(Rules::Quota).chain([Rules::Plan(&plan)]);
    for rules in rules {
        let request = Request { key: Key::new("user:42").unwrap(), rules, cost: Cost::ONE };
        store.try_acquire(request).unwrap();
        let counted = allocation_counter::measure(|| {
            assert!(store.acquire(request).now().unwrap().unwrap().allowed);
            assert!(store.peek(request).now().unwrap().unwrap().allowed);
        });
        assert_eq!(counted.count_total, 0, "{rules:?}");
    }
}

#[test]
fn a_keeper_rules_on_a_known_key_without_an_allocation() {
    let plans = Registry::new([Plan::parse("gold", "a=1000/h; b=1000/day").unwrap()]);
    let keeper = Keeper::new(MemoryStore::default(), plans);
    let key = Key::new("user:42").unwrap();
    let rule = || {
        let ruling = std::pin::pin!(keeper.acquire(key, "gold", Cost::ONE));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match ruling.poll(&mut context) {
            std::task::Poll::Ready(ruling) => assert!(ruling.unwrap().allowed),
            std::task::Poll::Pending => panic!("a store in memory answers at once"),
        }
    };
    rule();
    assert_eq!(allocation_counter::measure(rule).count_total, 0);
}
