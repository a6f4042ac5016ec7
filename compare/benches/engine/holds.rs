//! Holds: what one costs that is settled, by what an acquire of the same rates costs; and what a million live ones take.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use ratekeeper::port::{HoldAction, HoldChange, HoldId, HoldRequest, Plans, Request, Store};
use ratekeeper::{Amounts, Key, MemoryStore, Plan, Rules};

use crate::samples::Samples;
use crate::table;
use crate::throughput::keys;

/// Keys that are asked for in turn.
const KEYS: [usize; 2] = [1, 1_000];

/// Asked in one round, of each contender.
const ASKED: usize = 50_000;

const ROUNDS: usize = 9;

/// The rates that are acquired, and what is held beside them.
const PLANS: [(&str, &str, &str); 3] = [
    ("one GCRA rule", "60000/m burst 100000000", ""),
    ("two rules and places", "60000/m burst 100000000; 100000000 tokens/m", "100000 concurrent"),
    (
        "bucket, window and places",
        "60000/m burst 100000000 bucket; 100000000 tokens/m fixed",
        "100000 concurrent",
    ),
];

#[derive(Debug)]
struct NoPlans;

impl Plans for NoPlans {
    fn find(&self, _: &str) -> Option<Arc<Plan>> {
        None
    }
}

struct Holding {
    store: MemoryStore,
    plans: [Arc<Plan>; 1],
    counts_tokens: bool,
    next: u64,
}

impl Holding {
    fn new(name: &str, limits: &str, max_keys: usize) -> Self {
        let plan = Plan::parse(name, limits).expect("a plan");
        let counts_tokens = plan.units().any(|unit| unit == "tokens");
        let store = MemoryStore::builder().max_keys(max_keys).build();
        Holding { store, plans: [Arc::new(plan)], counts_tokens, next: 0 }
    }

    fn amounts(&self) -> Amounts<'static> {
        if self.counts_tokens { Amounts::of(&[("tokens", 5)]) } else { Amounts::UNSAID }
    }

    fn acquire(&self, key: &str) {
        let request = Request::of(Key::new(key).expect("a key"), Rules::Plan(&self.plans[0]), self.amounts());
        assert!(matches!(self.store.acquire(request).now(), Ok(Ok(decision)) if decision.allowed));
    }

    fn hold(&mut self, key: &str) -> HoldId {
        self.next += 1;
        let id = HoldId::from_bits(u128::from(self.next.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let (key, plans, lease) = (Key::new(key).expect("a key"), &self.plans, HoldRequest::DEFAULT_LEASE);
        let held = self.store.hold(HoldRequest { key, plans, amounts: self.amounts(), id, lease }).now();
        assert!(matches!(held, Ok(Ok(standing)) if standing.decision.allowed));
        id
    }

    fn settle(&self, key: &str, id: HoldId) {
        let amounts = if self.counts_tokens { Amounts::of(&[("tokens", 3)]) } else { Amounts::UNSAID };
        let (key, action) = (Key::new(key).expect("a key"), HoldAction::Settle(amounts));
        let change = HoldChange { key, id, action, plans: &NoPlans };
        assert!(black_box(self.store.change_hold(change).now()).is_ok());
    }
}

fn time(mut ask: impl FnMut(&str), keys: &[String]) -> f64 {
    let start = Instant::now();
    for number in 0..ASKED {
        ask(&keys[number * 7 % keys.len()]);
    }
    start.elapsed().as_secs_f64() * 1e9 / ASKED as f64
}

pub(crate) fn run() {
    let head = ["holds, 1 thread", "acquire, ns", "hold + settle, ns", "hold, ns", "of an acquire"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for ((name, rates, places), count) in PLANS.into_iter().flat_map(|plan| KEYS.map(|count| (plan, count))) {
        let keys = keys(count);
        let acquiring = Holding::new("acquired", rates, 1_000_000);
        let mut holding = Holding::new("held", &format!("{rates}; {places}"), 1_000_000);
        let [mut acquired, mut held, mut first] = [(); 3].map(|()| Samples::default());
        for _ in 0..ROUNDS {
            acquired.push(time(|key| acquiring.acquire(key), &keys));
            held.push(time(
                |key| {
                    let id = holding.hold(key);
                    holding.settle(key, id);
                },
                &keys,
            ));
            let mut ids = Vec::with_capacity(ASKED);
            first.push(time(|key| ids.push(holding.hold(key)), &keys));
            ids.iter()
                .enumerate()
                .for_each(|(number, id)| holding.settle(&keys[number * 7 % keys.len()], *id));
        }
        let ratio = held.by(&acquired).text(2);
        rows.push(vec![
            format!("{name}, keys: {count}"),
            acquired.text(0),
            held.text(0),
            first.text(0),
            ratio,
        ]);
    }
    table::print("Holds: nanoseconds for one, median (least–most)", &rows);
    let mut rows = vec![["1 M live holds", "bytes for each"].map(String::from).to_vec()];
    for count in [1_000, 100_000, 1_000_000] {
        rows.push(vec![format!("of {count} keys"), format!("{:.1}", bytes_of_each(count))]);
    }
    table::print("Memory of holds, their keys' states included", &rows);
}

/// Returns what each of a million live holds takes, with all that is theirs.
fn bytes_of_each(count: usize) -> f64 {
    const HOLDS: usize = 1_000_000;
    let limits = "60000/m burst 2000000; 100000000 tokens/m; 5000 concurrent";
    let (keys, mut holding) = (keys(count), Holding::new("held", limits, 4 * HOLDS));
    let before = holding.store.statistics().bytes;
    for number in 0..HOLDS {
        holding.hold(&keys[number % count]);
    }
    assert_eq!(holding.store.statistics().refused, 0, "all of them are live");
    (holding.store.statistics().bytes - before) as f64 / HOLDS as f64
}
