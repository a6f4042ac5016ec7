//! More threads than cores charge sets of keys that overlap, in every order: nobody waits for ever, and all of it adds up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use ratekeeper::port::{Charge, ChargeAction, ChargeForce, Request, Store, Whole};
use ratekeeper::{Cost, Key, MemoryStore, Plan, Rules};
use test_support::cases::is_thorough;

const THREADS: usize = 16;
const KEYS: usize = 6;

/// How often each thread charges.
fn turns() -> usize {
    if is_thorough() { 2_000 } else { 500 }
}

/// Numbers to draw from, for each thread others.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }
}

fn names() -> [String; KEYS] {
    std::array::from_fn(|key| format!("key:{key}"))
}

fn charge<'a>(key: &'a str, plan: &'a Plan, cost: u64, action: ChargeAction) -> Charge<'a> {
    let request = Request::new(Key::new(key).unwrap(), Rules::Plan(plan), Cost::new(cost));
    Charge { request, action, force: ChargeForce::Alone }
}

/// Draws some keys in any order, now and then the same twice.
fn draw(random: &mut Random) -> Vec<usize> {
    (0..2 + random.below(3)).map(|_| random.below(KEYS)).collect()
}

fn left(store: &MemoryStore, key: &str, plan: &Plan) -> u64 {
    let look = [charge(key, plan, 0, ChargeAction::Ignore)];
    store.charge(&look, Whole::Open).now().unwrap().unwrap().each[0].decision.remaining
}

fn crowd(work: impl Fn(&mut Random) + Sync) {
    let work = &work;
    thread::scope(|scope| {
        for thread in 1..=THREADS as u64 {
            scope.spawn(move || {
                let mut random = Random(thread.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                (0..turns()).for_each(|_| work(&mut random));
            });
        }
    });
}

/// What is ignored when it does not pass is charged to all keys or to none: never more than the limit, and nothing is left of
/// what was refused.
#[test]
fn all_keys_are_charged_or_none() {
    let texts = [
        "700 per 300000000s",
        "700 per 300000000s bucket",
        "700 per 300000000s leaky",
        "700 per 300000000s fixed",
        "700 per 300000000s sliding",
        "700 per 300000000s log",
    ];
    for text in texts {
        // Some have more to give, so that they pass where another refuses.
        let wider = text.replace("700", "2000");
        let plans = [Plan::parse("narrow", text).unwrap(), Plan::parse("wide", &wider).unwrap()];
        let (store, names) = (MemoryStore::default(), names());
        let admitted: [AtomicU64; KEYS] = std::array::from_fn(|_| AtomicU64::new(0));
        let refused = AtomicU64::new(0);
        crowd(|random| {
            let drawn = draw(random);
            let charges: Vec<Charge<'_>> = drawn
                .iter()
                .map(|key| {
                    charge(&names[*key], &plans[key % 2], 1 + random.below(3) as u64, ChargeAction::Ignore)
                })
                .collect();
            let judgment = store.charge(&charges, Whole::Open).now().unwrap().unwrap();
            assert_eq!(judgment.passes, judgment.each.iter().all(|told| told.decision.allowed));
            if !judgment.passes {
                refused.fetch_add(1, Ordering::Relaxed);
                return;
            }
            for (key, charge) in drawn.iter().zip(&charges) {
                admitted[*key].fetch_add(charge.request.cost.get(), Ordering::Relaxed);
            }
        });
        assert!(refused.load(Ordering::Relaxed) > 1_000, "{text}");
        for (key, name) in names.iter().enumerate() {
            let (plan, admitted) = (&plans[key % 2], admitted[key].load(Ordering::Relaxed));
            let limit = plan.rules()[0].quota().burst();
            assert!(admitted <= limit, "{text}, {name}: {admitted}");
            assert_eq!(left(&store, name, plan), limit - admitted, "{text}, {name}: {admitted} admitted");
        }
        assert_eq!(store.len(), KEYS);
    }
}

/// What is counted is counted once, whatever becomes of the whole; and what is given back is gone.
#[test]
fn every_count_counts_once() {
    let plan = Plan::parse("window", "1000000 per 300000000s fixed").unwrap();
    let (store, names) = (MemoryStore::default(), names());
    let counted: [AtomicU64; KEYS] = std::array::from_fn(|_| AtomicU64::new(0));
    crowd(|random| {
        let drawn = draw(random);
        let charges: Vec<Charge<'_>> = drawn
            .iter()
            .map(|key| charge(&names[*key], &plan, 1 + random.below(5) as u64, ChargeAction::Count))
            .collect();
        let whole = [Whole::Open, Whole::Refused, Whole::Passes][random.below(3)];
        store.charge(&charges, whole).now().unwrap().unwrap();
        for (key, charge) in drawn.iter().zip(&charges) {
            counted[*key].fetch_add(charge.request.cost.get(), Ordering::Relaxed);
        }
        if random.below(4) == 0 {
            let back: Vec<Charge<'_>> = charges
                .iter()
                .rev()
                .map(|charge| Charge { action: ChargeAction::GiveBack, ..*charge })
                .collect();
            store.charge(&back, Whole::Refused).now().unwrap().unwrap();
            for (key, charge) in drawn.iter().zip(&charges) {
                counted[*key].fetch_sub(charge.request.cost.get(), Ordering::Relaxed);
            }
        }
    });
    for (name, counted) in names.iter().zip(&counted) {
        assert_eq!(left(&store, name, &plan), 1_000_000 - counted.load(Ordering::Relaxed), "{name}");
    }
}

/// Charges of several keys among requests of one, which take one lock, and sweeps, which take them all: nobody waits for ever.
#[test]
fn charges_and_requests_add_up() {
    let plan = Plan::parse("both", "5000 per 300000000s; 4000 per 300000000s fixed").unwrap();
    let (store, names) = (MemoryStore::builder().keep_keys(true).build(), names());
    let admitted: [AtomicU64; KEYS] = std::array::from_fn(|_| AtomicU64::new(0));
    crowd(|random| {
        if random.below(50) == 0 {
            store.sweep();
        }
        if random.below(2) == 0 {
            let key = random.below(KEYS);
            let request = charge(&names[key], &plan, 1, ChargeAction::Ignore).request;
            if store.acquire(request).now().unwrap().unwrap().allowed {
                admitted[key].fetch_add(1, Ordering::Relaxed);
            }
            return;
        }
        let drawn = draw(random);
        let charges: Vec<Charge<'_>> =
            drawn.iter().map(|key| charge(&names[*key], &plan, 1, ChargeAction::Ignore)).collect();
        if store.charge(&charges, Whole::Open).now().unwrap().unwrap().passes {
            for key in drawn {
                admitted[key].fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    for (name, admitted) in names.iter().zip(&admitted) {
        let admitted = admitted.load(Ordering::Relaxed);
        assert_eq!((admitted.max(4_000), left(&store, name, &plan)), (4_000, 4_000 - admitted), "{name}");
    }
}
