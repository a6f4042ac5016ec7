//! Charges of several keys: what one costs that is of one key, by what an acquire of the same rule costs, and of four.

use std::time::Instant;

use ratekeeper::port::{Charge, ChargeAction, ChargeForce, Request, Store, Whole};
use ratekeeper::{Cost, Key, MemoryStore, Plan, Rules};

use crate::samples::Samples;
use crate::table;
use crate::throughput::keys;

/// Keys that are asked for in turn.
const KEYS: usize = 1_000;

/// Asked in one round, of each contender.
const ASKED: usize = 50_000;

const ROUNDS: usize = 9;

/// What is charged: nobody is over, and no state expires during the run.
const PLANS: [(&str, &str, ChargeAction); 3] = [
    ("fixed window, counted", "1000000000/h fixed grid", ChargeAction::Count),
    ("fixed window, ignored if over", "1000000000/h fixed grid", ChargeAction::Ignore),
    ("GCRA, ignored if over", "60/m burst 1000000000", ChargeAction::Ignore),
];

fn time(mut ask: impl FnMut(usize)) -> f64 {
    let start = Instant::now();
    (0..ASKED).for_each(|number| ask(number * 7));
    start.elapsed().as_secs_f64() * 1e9 / ASKED as f64
}

pub(crate) fn run() {
    let head = [
        "charges, 1 thread",
        "acquire, ns",
        "debit, ns",
        "charge of 1, ns",
        "of an acquire",
        "charge of 4, ns",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    for (name, limits, action) in PLANS {
        let (keys, plan) = (keys(KEYS), Plan::parse("charged", limits).expect("a plan"));
        let stores = [(); 4].map(|()| MemoryStore::default());
        let request = |number: usize| {
            let key = Key::new(keys[number % KEYS].as_str()).expect("a key");
            Request::new(key, Rules::Plan(&plan), Cost::ONE)
        };
        let charge = |number| Charge { request: request(number), action, force: ChargeForce::Alone };
        let passes = |store: &MemoryStore, charges: &[Charge<'_>]| {
            assert!(matches!(store.charge(charges, Whole::Open).now(), Ok(Ok(judgment)) if judgment.passes));
        };
        let [mut acquired, mut debited, mut one, mut four] = [(); 4].map(|()| Samples::default());
        for _ in 0..ROUNDS {
            acquired.push(time(|number| {
                assert!(
                    matches!(stores[0].acquire(request(number)).now(), Ok(Ok(decision)) if decision.allowed)
                );
            }));
            debited.push(time(|number| assert!(matches!(stores[1].debit(request(number)).now(), Ok(Ok(_))))));
            one.push(time(|number| passes(&stores[2], &[charge(number)])));
            four.push(time(|number| passes(&stores[3], &[0, 1, 2, 3].map(|next| charge(number + next)))));
        }
        let ratio = one.by(&acquired).text(2);
        rows.push(vec![name.into(), acquired.text(0), debited.text(0), one.text(0), ratio, four.text(0)]);
    }
    table::print("Charges: nanoseconds for one call, median (least–most)", &rows);
}
