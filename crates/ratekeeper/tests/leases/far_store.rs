//! A store that several instances share, far away: calls take a while, and may fail on the way there or back.
//! Every test that uses it has `start_paused = true`.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ratekeeper::port::{Answer, Charge, Grant, Judgment, Request, Standing, Store, Whole};
use ratekeeper::store::Leased;
use ratekeeper::{Charged, Cost, Decision, Key, MemoryStore, Plan, Rules, StoreError, StoreErrorKind};

/// What happens to one call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trip {
    /// How long it takes until the store decides, and from there back.
    pub(crate) there: Duration,
    pub(crate) back: Duration,
    pub(crate) fate: Fate,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fate {
    #[default]
    Arrives,
    /// The store was not asked.
    LostThere,
    /// The store has decided, and nobody hears of it.
    LostBack,
}

/// One instance's way to the shared store.
#[derive(Clone, Debug)]
pub(crate) struct FarStore {
    pub(crate) shared: Arc<MemoryStore>,
    pub(crate) wire: Arc<Wire>,
}

/// What one instance's calls meet, and what they were.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    /// The trips of the next calls; then as `usual`.
    pub(crate) trips: Mutex<VecDeque<Trip>>,
    pub(crate) usual: Mutex<Trip>,
    /// Late returns are given in full, as if nothing had refilled meanwhile.
    pub(crate) forgets_age: AtomicBool,
    pub(crate) plain: AtomicU64,
    pub(crate) takes: AtomicU64,
    pub(crate) returns: AtomicU64,
    /// What takes brought that arrived.
    pub(crate) granted: AtomicU64,
    pub(crate) in_the_air: AtomicU64,
    /// The most takes that were on their way at once.
    pub(crate) most_in_the_air: AtomicU64,
}

impl FarStore {
    pub(crate) fn new(shared: &Arc<MemoryStore>) -> Self {
        FarStore { shared: Arc::clone(shared), wire: Arc::default() }
    }

    /// Every call takes this long, half of it until the store decides.
    pub(crate) fn taking(self, round_trip: Duration) -> Self {
        *self.wire.usual.lock().unwrap() =
            Trip { there: round_trip / 2, back: round_trip - round_trip / 2, fate: Fate::Arrives };
        self
    }

    pub(crate) fn calls(&self) -> u64 {
        [&self.wire.plain, &self.wire.takes, &self.wire.returns]
            .map(|count| count.load(Ordering::SeqCst))
            .iter()
            .sum()
    }

    async fn travel<T>(&self, ask: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let trip = self.wire.trips.lock().unwrap().pop_front();
        let trip = trip.unwrap_or(*self.wire.usual.lock().unwrap());
        if !trip.there.is_zero() {
            tokio::time::sleep(trip.there).await;
        }
        if trip.fate == Fate::LostThere {
            return Err(StoreError::new(StoreErrorKind::Unreachable, "lost on the way there"));
        }
        let answer = ask.await;
        if !trip.back.is_zero() {
            tokio::time::sleep(trip.back).await;
        }
        match trip.fate {
            Fate::LostBack => Err(StoreError::new(StoreErrorKind::Timeout, "lost on the way back")),
            _ => answer,
        }
    }
}

/// Counts a take while it is on its way.
struct InTheAir<'a>(&'a Wire);

impl<'a> InTheAir<'a> {
    fn new(wire: &'a Wire) -> Self {
        wire.takes.fetch_add(1, Ordering::SeqCst);
        let now = wire.in_the_air.fetch_add(1, Ordering::SeqCst) + 1;
        wire.most_in_the_air.fetch_max(now, Ordering::SeqCst);
        InTheAir(wire)
    }
}

impl Drop for InTheAir<'_> {
    fn drop(&mut self) {
        self.0.in_the_air.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Store for FarStore {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        Answer::later(async move {
            self.wire.plain.fetch_add(1, Ordering::SeqCst);
            self.travel(async { self.shared.acquire(request).await }).await
        })
    }

    fn acquire_up_to<'a>(&'a self, request: Request<'a>, most: Cost) -> Answer<'a, Grant> {
        Answer::later(async move {
            let _flies = InTheAir::new(&self.wire);
            let grant = self.travel(async { self.shared.acquire_up_to(request, most).await }).await?;
            self.wire.granted.fetch_add(grant.granted.get(), Ordering::SeqCst);
            Ok(grant)
        })
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        self.shared.peek(request)
    }

    fn acquire_each<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        self.shared.acquire_each(request)
    }

    fn debit<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        self.shared.debit(request)
    }

    fn charge<'a>(&'a self, charges: &'a [Charge<'a>], whole: Whole) -> Answer<'a, Judgment> {
        self.shared.charge(charges, whole)
    }

    fn refund<'a>(&'a self, request: Request<'a>, charged: Charged) -> Answer<'a, Decision> {
        Answer::later(async move {
            self.wire.returns.fetch_add(1, Ordering::SeqCst);
            let charged = if self.wire.forgets_age.load(Ordering::SeqCst) { Charged::NOW } else { charged };
            self.travel(async { self.shared.refund(request, charged).await }).await
        })
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, u64> {
        self.shared.reset(request)
    }

    fn forget<'a>(&'a self, prefix: &'a [u8]) -> Answer<'a, u64> {
        self.shared.forget(prefix)
    }
}

/// One instance: leases before its way to the shared store.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) leased: Arc<Leased<FarStore>>,
    pub(crate) far: FarStore,
}

impl Node {
    pub(crate) fn new(far: FarStore) -> Self {
        Node { leased: Arc::new(Leased::new(far.clone()).keys(4)), far }
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
    Request::new(Key::new("hot").unwrap(), Rules::Plan(plan), Cost::new(cost))
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
