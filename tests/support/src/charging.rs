//! Charges, as tests make them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ratekeeper::port::{Charge, ChargeAction, ChargeForce, Request, Store, Whole};
use ratekeeper::{Cost, Key, Plan, Rules};

/// A charge that refuses the whole if it is over.
pub fn charge<'a>(key: &'a str, plan: &'a Plan, cost: u64, action: ChargeAction) -> Charge<'a> {
    let request = Request::new(Key::new(key).expect("a key"), Rules::Plan(plan), Cost::new(cost));
    Charge { request, action, force: ChargeForce::Alone }
}

/// How many keys are charged by everybody, and how many of them by one request.
const KEYS: usize = 7;
const OF_ONE: usize = 3;

/// What may be taken of one key; nothing comes back while a test runs.
const LIMIT: u64 = 60;

/// 64 clients charge three of seven keys each, 10 times: of no key more is admitted than allowed, and what was taken of a
/// request that was refused is given back to the last one.
pub async fn charge_overlapping_keys<S: Store + Clone + 'static>(stores: &[S]) {
    charge_overlapping_keys_under(stores, &format!("{LIMIT}/day fixed")).await;
}

/// The same under a plan of one's own, with that limit.
pub async fn charge_overlapping_keys_under<S: Store + Clone + 'static>(stores: &[S], plan: &str) {
    let plan = Arc::new(Plan::parse("overlapping", plan).expect("a plan"));
    let admitted: Arc<[AtomicU64; KEYS]> = Arc::default();
    let clients: Vec<_> = (0..64)
        .map(|client: usize| {
            let (store, plan) = (stores[client % stores.len()].clone(), Arc::clone(&plan));
            let admitted = Arc::clone(&admitted);
            tokio::spawn(async move {
                for ask in 0..10 {
                    let which = |place: usize| (client + ask * (place + 1)) % KEYS;
                    let mut keys: Vec<usize> = (0..OF_ONE).map(which).collect();
                    keys.dedup();
                    let names: Vec<String> = keys.iter().map(|key| format!("overlapping {key}")).collect();
                    let charges: Vec<_> =
                        names.iter().map(|name| charge(name, &plan, 1, ChargeAction::Ignore)).collect();
                    let judgment = store.charge(&charges, Whole::Open).await.expect("a judgment");
                    for key in keys.iter().filter(|_| judgment.passes) {
                        admitted[*key].fetch_add(1, Ordering::SeqCst);
                    }
                }
            })
        })
        .collect();
    for client in clients {
        client.await.expect("no panic");
    }
    for (key, admitted) in admitted.iter().enumerate() {
        let name = format!("overlapping {key}");
        let look = [charge(&name, &plan, 0, ChargeAction::Count)];
        let left = stores[0].charge(&look, Whole::Open).await.expect("a look").each[0].decision.remaining;
        let admitted = admitted.load(Ordering::SeqCst);
        assert_eq!(admitted + left, LIMIT, "key {key}: {admitted} admitted, {left} left");
        assert!(admitted > 0, "key {key}");
    }
}
