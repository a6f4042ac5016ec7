//! A store that several instances share, far away: calls take a while, and may fail on the way there or back.
//! Every test that uses it has `start_paused = true`.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ratekeeper::port::{Answer, Charge, Grant, Judgment, Request, Standing, Store, Whole};
use ratekeeper::store::Leased;
use ratekeeper::{Charged, Cost, Decision, Key, Lease, MemoryStore, Plan, Rules, StoreError, StoreErrorKind};
use tokio::time::Instant;

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
    /// The instance has crashed: nothing of it reaches the store any more.
    pub(crate) is_cut: AtomicBool,
    pub(crate) plain: AtomicU64,
    pub(crate) takes: AtomicU64,
    pub(crate) returns: AtomicU64,
    /// What takes brought that arrived.
    pub(crate) granted: AtomicU64,
    pub(crate) in_the_air: AtomicU64,
    /// When those began that are on their way.
    begun: Mutex<Vec<Instant>>,
    /// The most that were on their way at once, without those that have taken longer than a lease lives: they are given up.
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

    fn trip(&self) -> Trip {
        let trip = self.wire.trips.lock().unwrap().pop_front();
        trip.unwrap_or(*self.wire.usual.lock().unwrap())
    }

    async fn travel<T>(
        &self,
        trip: Trip,
        ask: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        if !trip.there.is_zero() {
            tokio::time::sleep(trip.there).await;
        }
        if self.wire.is_cut.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
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
struct InTheAir<'a>(&'a Wire, Instant);

impl<'a> InTheAir<'a> {
    fn new(wire: &'a Wire, life: Duration) -> Self {
        let now = Instant::now();
        wire.takes.fetch_add(1, Ordering::SeqCst);
        wire.in_the_air.fetch_add(1, Ordering::SeqCst);
        let mut begun = wire.begun.lock().unwrap();
        begun.push(now);
        let young = begun.iter().filter(|then| now - **then < life).count();
        wire.most_in_the_air.fetch_max(young as u64, Ordering::SeqCst);
        InTheAir(wire, now)
    }
}

impl Drop for InTheAir<'_> {
    fn drop(&mut self) {
        self.0.in_the_air.fetch_sub(1, Ordering::SeqCst);
        let mut begun = self.0.begun.lock().unwrap();
        let at = begun.iter().position(|then| *then == self.1).unwrap();
        begun.swap_remove(at);
    }
}

impl Store for FarStore {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        Answer::later(async move {
            self.wire.plain.fetch_add(1, Ordering::SeqCst);
            // Decided when it is answered: the model takes admissions at their answers.
            let trip = self.trip();
            self.travel(Trip { there: trip.there + trip.back, back: Duration::ZERO, ..trip }, async {
                self.shared.acquire(request).await
            })
            .await
        })
    }

    fn acquire_up_to<'a>(&'a self, request: Request<'a>, most: Cost) -> Answer<'a, Grant> {
        Answer::later(async move {
            let life = request.rules.leasing(Lease::OFF).unwrap().life;
            let _flies = InTheAir::new(&self.wire, life.as_duration());
            let grant =
                self.travel(self.trip(), async { self.shared.acquire_up_to(request, most).await }).await?;
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
            self.travel(self.trip(), async { self.shared.refund(request, charged).await }).await
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
