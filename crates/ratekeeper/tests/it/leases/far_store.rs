//! A remote store that several instances share: calls take a while, and may fail on the way there or back.
//! Every test that uses it has `start_paused = true`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ratekeeper::port::{Request, Store};
use ratekeeper::store::Leased;
use ratekeeper::{Cost, Decision, Key, MemoryStore, Plan, Rules, StoreError, StoreErrorKind};
use test_support::fake_store::{Call, FakeStore, Fate, Trip, Verb};

/// The call is lost before the store decides.
pub(crate) const LOST_THERE: Fate = Fate::Fails(StoreErrorKind::Unreachable);
/// The store decides, and the answer is lost.
pub(crate) const LOST_BACK: Fate = Fate::FailsAfter(StoreErrorKind::Timeout);

/// One instance's way to the shared store.
#[derive(Clone, Debug)]
pub(crate) struct FarStore {
    pub(crate) store: FakeStore,
    pub(crate) wire: Arc<Mutex<Wire>>,
}

/// What one instance's calls meet, and how many of them were on the way.
#[derive(Debug)]
pub(crate) struct Wire {
    /// The trips of the next calls; then as `usual`.
    pub(crate) trips: VecDeque<Trip>,
    pub(crate) usual: Trip,
    /// A call that takes longer than a lease lives is given up, and does not count as on the way.
    pub(crate) life: Duration,
    /// The most calls for many that were on the way at once.
    pub(crate) most_in_the_air: usize,
}

impl Wire {
    /// What becomes of this call.
    fn trip(&mut self, call: &Call<'_>) -> Trip {
        let mut next = || self.trips.pop_front().unwrap_or(self.usual);
        match call.verb {
            // Decided when it is answered: the model takes admissions at their answers.
            Verb::Acquire => {
                let trip = next();
                Trip { there: trip.there + trip.back, back: Duration::ZERO, ..trip }
            }
            Verb::AcquireUpTo => {
                let trip = next();
                let now = tokio::time::Instant::now();
                let takes = call.others.iter().filter(|other| other.verb == Verb::AcquireUpTo);
                let young = takes.filter(|other| now - other.since < self.life).count();
                self.most_in_the_air = self.most_in_the_air.max(young + 1);
                trip
            }
            Verb::Refund => next(),
            _ => Trip::default(),
        }
    }
}

impl FarStore {
    pub(crate) fn new(shared: &Arc<MemoryStore>) -> Self {
        let wire =
            Wire { trips: VecDeque::new(), usual: Trip::default(), life: Duration::MAX, most_in_the_air: 0 };
        let wire = Arc::new(Mutex::new(wire));
        let script = Arc::clone(&wire);
        let store = FakeStore::over(Arc::clone(shared)).later();
        FarStore { store: store.script(move |call| script.lock().unwrap().trip(call)), wire }
    }

    /// Every call takes this long, half of it until the store decides.
    pub(crate) fn taking(self, round_trip: Duration) -> Self {
        let there = round_trip / 2;
        self.on_the_wire(|wire| wire.usual = Trip { there, back: round_trip - there, ..Trip::default() });
        self
    }

    pub(crate) fn on_the_wire<R>(&self, look: impl FnOnce(&mut Wire) -> R) -> R {
        look(&mut self.wire.lock().unwrap())
    }

    pub(crate) fn plain(&self) -> u64 {
        self.store.calls(Verb::Acquire)
    }

    /// Calls for many.
    pub(crate) fn takes(&self) -> u64 {
        self.store.calls(Verb::AcquireUpTo)
    }

    /// Calls for one, for many, and those that give back.
    pub(crate) fn calls(&self) -> u64 {
        self.plain() + self.takes() + self.store.calls(Verb::Refund)
    }

    /// Calls for many that are on the way.
    pub(crate) fn in_the_air(&self) -> usize {
        self.store.on_the_way().iter().filter(|call| call.verb == Verb::AcquireUpTo).count()
    }
}

/// One instance: leases before its way to the shared store.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) leased: Arc<Leased<FakeStore>>,
    pub(crate) far: FarStore,
}

impl Node {
    pub(crate) fn new(far: FarStore) -> Self {
        Node { leased: Arc::new(Leased::new(far.store.clone()).keys(4)), far }
    }

    pub(crate) async fn ask(&self, plan: &Plan, cost: u64) -> Result<Decision, StoreError> {
        self.leased.acquire(request(plan, cost)).await
    }

    /// Asks so often for one, and returns how many were allowed.
    pub(crate) async fn ask_often(&self, plan: &Plan, times: u64) -> u64 {
        let mut allowed = 0;
        for _ in 0..times {
            allowed += u64::from(self.ask(plan, 1).await.unwrap().allowed);
        }
        allowed
    }
}

pub(crate) fn request(plan: &Plan, cost: u64) -> Request<'_> {
    request_of(plan, 0, cost)
}

/// A request of one of several keys.
pub(crate) fn request_of(plan: &Plan, key: usize, cost: u64) -> Request<'_> {
    const KEYS: [&str; 9] = ["hot", "warm", "mild", "cool", "cold", "icy", "k6", "k7", "k8"];
    Request::new(Key::new(KEYS[key]).unwrap(), Rules::Plan(plan), Cost::new(cost))
}

pub(crate) fn leased_plan(text: &str, lease: &str) -> Plan {
    Plan::parse("api", text).unwrap().lease(lease.parse().unwrap()).unwrap()
}

/// Lets everything run that can run now.
pub(crate) async fn settle() {
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
}
