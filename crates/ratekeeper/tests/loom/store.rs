//! Every interleaving that loom can reach of: refusals that are read without the lock, and whatever changes the state that
//! they are read from.
//!
//! `cargo xtask test` runs it, or: `RUSTFLAGS="--cfg loom" cargo test --release -p ratekeeper --test loom_store`.

use std::sync::Arc;

use loom::thread;
use ratekeeper::port::{
    Charge, ChargeAction, ChargeForce, Clock, HoldAction, HoldChange, HoldId, HoldRequest, HoldState, Plans,
    Request, Standing, Store, Whole,
};
use ratekeeper::{Amounts, Charged, Cost, Decision, Key, MemoryStore, Nanos, Plan, Quota, Rules, Timestamp};

/// When everything begins, by the store's clock, which stands still.
const START: Timestamp = Timestamp::from_secs(1_000);

#[derive(Debug)]
struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        START
    }
}

/// A store of one shard, whose keys have all been refused so often that it takes no lock.
struct Shared {
    store: MemoryStore,
    quota: Quota,
}

impl Shared {
    /// `cost` of the keys' ten units are taken, in this order.
    fn new(taken: &[(&str, u64)]) -> Arc<Self> {
        let store = MemoryStore::builder().max_keys(10).clock(Stopped).build();
        let shared = Shared { store, quota: "10/m".parse().unwrap() };
        for (key, cost) in taken {
            assert!(shared.ask(key, *cost, 0).allowed);
        }
        for (key, _) in taken {
            shared.refuse(key);
        }
        Arc::new(shared)
    }

    fn refuse(&self, key: &str) {
        (0..4).for_each(|_| assert!(!self.ask(key, 10, 0).allowed));
    }

    fn request<'a>(&'a self, key: &'a str, cost: u64) -> Request<'a> {
        let key = Key::new(key).unwrap();
        Request::new(key, Rules::Quota(&self.quota), Cost::new(cost))
    }

    /// So many seconds after the start. A unit refills in six.
    fn ask(&self, key: &str, cost: u64, seconds: i64) -> Decision {
        let now = Timestamp::from_secs(1_000 + seconds);
        self.store.acquire_at(self.request(key, cost), now).unwrap()
    }

    fn reset(&self, key: &str) -> u64 {
        self.store.reset(self.request(key, 0)).now().unwrap().unwrap()
    }

    fn refund(&self, key: &str, cost: u64) -> Decision {
        let refund = self.store.refund(self.request(key, cost), Charged::at(START));
        refund.now().unwrap().unwrap()
    }
}

fn seconds(decision: &Decision) -> u64 {
    decision.retry_after.unwrap().ceil_secs()
}

/// The reset falls before a request or after it, and who comes when it is done is not refused.
#[test]
fn a_reset_is_seen() {
    loom::model(|| {
        let shared = Shared::new(&[("k", 10)]);
        let other = {
            let shared = shared.clone();
            thread::spawn(move || [0; 2].map(|_| shared.ask("k", 10, 0)))
        };
        assert_eq!(shared.reset("k"), 1);
        // The other got it, or this one does; never both.
        let mine = shared.ask("k", 10, 0);
        let [first, second] = other.join().unwrap();
        let allowed = [mine.allowed, first.allowed, second.allowed];
        assert_eq!(allowed.iter().filter(|allowed| **allowed).count(), 1, "{allowed:?}");
        for refused in [mine, first, second].iter().filter(|decision| !decision.allowed) {
            assert_eq!((seconds(refused), refused.remaining), (60, 0));
        }
    });
}

/// What is given back is there for all who come later.
#[test]
fn a_refund_is_seen() {
    loom::model(|| {
        let shared = Shared::new(&[("k", 10)]);
        let other = {
            let shared = shared.clone();
            thread::spawn(move || [0; 2].map(|_| shared.ask("k", 4, 0)))
        };
        assert_eq!(shared.refund("k", 3).remaining, 3);
        let mine = shared.ask("k", 4, 0);
        assert_eq!((mine.allowed, mine.remaining, seconds(&mine)), (false, 3, 6));
        let told = other.join().unwrap().map(|decision| (decision.remaining, seconds(&decision)));
        assert!([[(0, 24), (0, 24)], [(0, 24), (3, 6)], [(3, 6), (3, 6)]].contains(&told), "{told:?}");
    });
}

/// What a charge of two keys gives back is there for all who come later, although both were refused without the lock.
#[test]
fn what_a_charge_gives_back_is_seen() {
    loom::model(|| {
        let shared = Shared::new(&[("k", 10), ("j", 10)]);
        let other = {
            let shared = shared.clone();
            thread::spawn(move || ["k", "j"].map(|key| shared.ask(key, 4, 0).remaining))
        };
        let back = ["k", "j"].map(|key| Charge {
            request: shared.request(key, 3),
            action: ChargeAction::GiveBack,
            force: ChargeForce::Never,
        });
        let judgment = shared.store.charge(&back, Whole::Open).now().unwrap().unwrap();
        assert!(judgment.passes && judgment.each.iter().all(|told| told.decision.remaining == 3));
        assert_eq!(["k", "j"].map(|key| shared.ask(key, 4, 0).remaining), [3, 3]);
        let told = other.join().unwrap();
        assert!([[0, 0], [0, 3], [3, 3]].contains(&told), "{told:?}");
    });
}

/// Two take one after the other what is enough for one.
#[test]
fn what_passes_passes_once() {
    loom::model(|| {
        let shared = Shared::new(&[("k", 10)]);
        let other = {
            let shared = shared.clone();
            thread::spawn(move || shared.ask("k", 1, 6))
        };
        let (mine, theirs) = (shared.ask("k", 1, 6), other.join().unwrap());
        assert!(mine.allowed != theirs.allowed);
        let refused = if mine.allowed { theirs } else { mine };
        assert_eq!((seconds(&refused), refused.reset_after), (6, Nanos::from_secs(60)));
        // What was charged counts for all who come later, also where the state before would have refused.
        assert_eq!(seconds(&shared.ask("k", 10, 6)), 60);
        assert!(shared.ask("k", 1, 12).allowed);
    });
}

/// A key makes way for another on the line that is read without the lock: no answer is half the one's and half the other's.
#[test]
fn one_makes_way_for_another() {
    loom::model(|| {
        let shared = Shared::new(&[("a", 10), ("b", 5), ("c", 2)]);
        // The first and the last are there, and the second takes the place of the first.
        let other = {
            let shared = shared.clone();
            thread::spawn(move || {
                let decision = shared.ask("a", 10, 0);
                assert_eq!((decision.allowed, seconds(&decision)), (false, 60));
            })
        };
        shared.refuse("b");
        other.join().unwrap();
    });
}

/// Another key of the shard is asked at a later instant, and time does not go back.
#[test]
fn time_does_not_go_back() {
    loom::model(|| {
        let shared = Shared::new(&[("k", 10), ("other", 1)]);
        let other = {
            let shared = shared.clone();
            thread::spawn(move || [0, 6].map(|at| seconds(&shared.ask("k", 10, at))))
        };
        assert!(shared.ask("other", 1, 12).allowed);
        // Whoever asked before, this is twelve seconds after the start.
        assert_eq!(seconds(&shared.ask("k", 10, 0)), 48);
        let theirs = other.join().unwrap();
        assert!([[60, 54], [60, 48], [48, 48]].contains(&theirs), "{theirs:?}");
        assert_eq!(seconds(&shared.ask("k", 10, 0)), 48);
    });
}

/// A sweep drops what is whole again, and whoever comes with an instant from before it finds a fresh key.
#[test]
fn a_sweep_is_seen() {
    loom::model(|| {
        let shared = Shared::new(&[("k", 1), ("other", 1)]);
        let other = {
            let shared = shared.clone();
            // Of ten units nine are there.
            thread::spawn(move || shared.ask("k", 10, 0))
        };
        assert!(shared.ask("other", 1, 7).allowed);
        shared.store.sweep();
        let mine = shared.ask("k", 10, 0).allowed;
        let theirs = other.join().unwrap();
        assert!(mine != theirs.allowed);
        // Before the sweep, or after all was taken again.
        assert!(theirs.allowed || [6, 60].contains(&seconds(&theirs)));
    });
}

/// Ten a minute, which are held or acquired: one state for both.
struct Holding {
    store: MemoryStore,
    plans: [Arc<Plan>; 1],
}

#[derive(Debug)]
struct NoPlans;

impl Plans for NoPlans {
    fn find(&self, _: &str) -> Option<Arc<Plan>> {
        None
    }
}

impl Holding {
    fn new() -> Arc<Self> {
        let store = MemoryStore::builder().max_keys(10).clock(Stopped).build();
        Arc::new(Holding { store, plans: [Arc::new(Plan::parse("held", "10/m").unwrap())] })
    }

    fn acquire(&self, cost: u64) -> Decision {
        let request = Request::new(Key::new("k").unwrap(), Rules::Plan(&self.plans[0]), Cost::new(cost));
        self.store.acquire(request).now().unwrap().unwrap()
    }

    fn hold(&self, id: u128, cost: u64) -> Standing {
        let (key, id, lease) = (Key::new("k").unwrap(), HoldId::from_bits(id), HoldRequest::DEFAULT_LEASE);
        let hold = HoldRequest { key, plans: &self.plans, amounts: Amounts::from(cost), id, lease };
        self.store.hold(hold).now().unwrap().unwrap()
    }

    fn change(&self, id: u128, action: HoldAction<'_>) -> HoldState {
        let (key, id) = (Key::new("k").unwrap(), HoldId::from_bits(id));
        let change = HoldChange { key, id, action, plans: &NoPlans };
        self.store.change_hold(change).now().unwrap().unwrap().state
    }
}

/// Whoever ends a hold first has ended it, and it is given back once; who is refused without the lock knows of it.
#[test]
fn a_hold_ends_once() {
    loom::model(|| {
        let holding = Holding::new();
        assert!(holding.hold(1, 8).decision.allowed);
        (0..4).for_each(|_| assert!(!holding.acquire(5).allowed));
        let other = {
            let holding = holding.clone();
            thread::spawn(move || (holding.change(1, HoldAction::Cancel), holding.acquire(5).allowed))
        };
        let mine = holding.change(1, HoldAction::Settle(Amounts::from(2)));
        let (theirs, allowed) = other.join().unwrap();
        assert!(mine == theirs && allowed, "{mine:?} {theirs:?}");
        let left = holding.acquire(0).remaining;
        assert_eq!(left, if mine == HoldState::Settled { 3 } else { 5 });
    });
}

/// What is held and what is acquired is taken from the same.
#[test]
fn who_holds_and_who_acquires_share() {
    loom::model(|| {
        let holding = Holding::new();
        let other = {
            let holding = holding.clone();
            thread::spawn(move || [0; 2].map(|_| holding.acquire(6).allowed))
        };
        let held = holding.hold(1, 6).decision.allowed;
        let ended = holding.change(1, HoldAction::Settle(Amounts::from(1)));
        assert_eq!(ended, if held { HoldState::Settled } else { HoldState::Gone });
        let acquired = other.join().unwrap().iter().filter(|allowed| **allowed).count() as u64;
        assert!(held || acquired == 1);
        assert_eq!(holding.acquire(0).remaining, 10 - 6 * acquired - u64::from(held));
    });
}
