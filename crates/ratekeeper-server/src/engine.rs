//! What every transport asks: the keeper of plans, and what to assume when a request leaves something out.

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use ratekeeper::keeper::KeeperError;
use ratekeeper::port::{Request, Store};
use ratekeeper::store::Breaker;
use ratekeeper::{
    Charged, Cost, Decision, FailureMode, Keeper, Key, MemoryStore, Quota, Registry, Rules, StoreError,
    StoreErrorKind,
};
use tokio::sync::Notify;

use crate::guesses::Guesses;
pub use crate::limits::Limits;
use crate::meter::Metrics;
use crate::pressure::Pressure;
use crate::readiness::Readiness;
use crate::reload::ReloadCounts;
use crate::tally::Tally;
use crate::turn::let_sockets_in;

/// What health is asked about; nobody takes from it.
const PROBE_KEY: &str = "ratekeeper:health";

/// What it is asked about in addition where keys live on many servers. These lie all over the slots of a Redis cluster,
/// nowhere more than a sixth of them apart.
static MORE_PROBE_KEYS: LazyLock<[String; 16]> =
    LazyLock::new(|| std::array::from_fn(|bit| format!("{PROBE_KEY}:{}", 1 << bit)));

/// A question about nobody's key, to be looked at and never charged.
pub(crate) fn probe_question() -> Option<Request<'static>> {
    question_about(PROBE_KEY)
}

fn question_about(key: &'static str) -> Option<Request<'static>> {
    static QUOTA: LazyLock<Option<Quota>> = LazyLock::new(|| Quota::throttle(1, 1, 1).ok());
    let (key, quota) = (Key::new(key).ok()?, QUOTA.as_ref()?);
    Some(Request { key, rules: Rules::Quota(quota), cost: Cost::ONE })
}

/// The one engine behind all transports and all event loops.
#[derive(Debug)]
pub struct Engine {
    keeper: Keeper,
    registry: Registry,
    /// The keeper's store, if it lives in this process: only such a one can be counted and written to a file.
    memory: Option<Arc<MemoryStore>>,
    /// The store in this process: that one, or the one that decides in the place of another.
    local: Arc<MemoryStore>,
    /// What leaves the servers of a store elsewhere alone while they fail.
    breakers: Option<Breakers>,
    limits: Limits,
    metrics: Metrics,
    tally: Tally,
    pressure: Pressure,
    reloads: ReloadCounts,
    started: Instant,
    draining: AtomicBool,
    drain_began: Notify,
    readiness: Readiness,
    guesses: Guesses,
}

/// Lists the breakers that there are now: servers come and go.
struct Breakers(Box<dyn Fn() -> Vec<Arc<Breaker>> + Send + Sync>);

impl fmt::Debug for Breakers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0()).finish()
    }
}

impl Engine {
    /// An engine over a store in this process.
    pub fn in_memory(store: MemoryStore, registry: Registry, limits: Limits) -> Self {
        let memory = Arc::new(store);
        let engine = Self::over(memory.clone(), registry, limits);
        Engine { memory: Some(Arc::clone(&memory)), local: memory, ..engine }
    }

    /// An engine over a store that may have to be waited for.
    pub fn over(store: Arc<dyn Store>, registry: Registry, limits: Limits) -> Self {
        let tally = Tally::default();
        let local = Arc::new(MemoryStore::builder().keep_keys(true).build());
        let keeper = Keeper::from_arcs(store, Arc::new(registry.clone()));
        Engine {
            keeper: keeper.observer(tally.clone()).local_store(Arc::clone(&local)),
            registry,
            memory: None,
            local,
            breakers: None,
            limits,
            metrics: Metrics::default(),
            tally,
            pressure: Pressure::default(),
            reloads: ReloadCounts::default(),
            started: Instant::now(),
            draining: AtomicBool::new(false),
            drain_began: Notify::new(),
            readiness: Readiness::default(),
            guesses: Guesses::default(),
        }
    }

    /// Has this store decide for plans that say `local` while the other one fails, and the breakers before that one
    /// looked at, as they are at the time.
    #[must_use]
    pub fn guarded_by(
        mut self,
        breakers: impl Fn() -> Vec<Arc<Breaker>> + Send + Sync + 'static,
        local: MemoryStore,
    ) -> Self {
        self.local = Arc::new(local);
        self.keeper = self.keeper.local_store(Arc::clone(&self.local));
        self.breakers = Some(Breakers(Box::new(breakers)));
        self
    }

    /// Returns the breakers before a store elsewhere, one for each of its servers; none before a store in memory.
    pub fn breakers(&self) -> Vec<Arc<Breaker>> {
        self.breakers.as_ref().map_or_else(Vec::new, |Breakers(list)| list())
    }

    /// What to answer when the store fails a request that is held to no plan.
    #[must_use]
    pub fn on_store_error(mut self, mode: FailureMode) -> Self {
        self.keeper = self.keeper.on_store_error(mode);
        self
    }

    /// Remembers the so many keys that are denied most. To be said before the first transport starts to count.
    #[must_use]
    pub fn top_denied(mut self, keys: usize) -> Self {
        self.metrics = Metrics::new(keys);
        self
    }

    /// Takes by a quota that came with its request; a store that fails is answered for as it was said to be.
    pub async fn acquire(&self, request: Request<'_>) -> Result<Decision, StoreError> {
        let mut answers = Vec::with_capacity(1);
        let Ok(()) = self.keeper.acquire_many(&[request], &mut answers).await;
        answers
            .pop()
            .unwrap_or_else(|| Err(StoreError::new(StoreErrorKind::Other, "the store did not answer")))
    }

    /// Gives back to a quota that came with its request, as of now: `CL.THROTTLE` cannot say when it was charged.
    pub async fn refund(&self, key: Key<'_>, quota: &Quota, cost: Cost) -> Result<Decision, StoreError> {
        match self.keeper.refund(key, quota, cost, Charged::NOW).await {
            Ok(ruling) => Ok(*ruling.decision()),
            Err(KeeperError::Store(error)) => Err(error),
            Err(error) => Err(StoreError::new(StoreErrorKind::Other, error.to_string())),
        }
    }

    /// Decides by plans.
    pub fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    /// The plans there are.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The store, if it lives in this process.
    pub fn memory(&self) -> Option<&MemoryStore> {
        self.memory.as_deref()
    }

    /// Who guesses tokens, over all transports.
    pub(crate) fn guesses(&self) -> &Guesses {
        &self.guesses
    }

    /// What a request without limits is held to, and what quotas requests may bring.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What was counted.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// What the keeper's decisions were about.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// How reloads of the configuration file went.
    pub fn reloads(&self) -> &ReloadCounts {
        &self.reloads
    }

    /// Forgets a key under these plans; without any, under all of them and under every quota that came with a
    /// request. Tells how many states were forgotten.
    pub async fn reset(&self, key: Key<'_>, plans: &[&str]) -> Result<u64, KeeperError> {
        if !plans.is_empty() {
            return self.keeper.reset(key, plans).await;
        }
        let mut forgotten = match Quota::throttle(1, 1, 1) {
            // Any quota stands for all that requests brought for this key, of whatever algorithm and period.
            Ok(any) => self.keeper.reset(key, &any).await?,
            Err(_) => 0,
        };
        for plan in self.registry.all() {
            match self.keeper.reset(key, plan.name().as_str()).await {
                Ok(more) => forgotten += more,
                // It was taken away a moment ago.
                Err(KeeperError::UnknownPlan { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(forgotten)
    }

    /// Forgets every key that starts with these bytes, under all plans and quotas; no bytes stand for all keys. Tells how
    /// many states were forgotten.
    pub async fn forget(&self, prefix: &[u8]) -> Result<u64, KeeperError> {
        let forgotten = let_sockets_in(self.keeper.forget(prefix)).await.map_err(|error| match error {
            KeeperError::Store(error)
                if error.kind() == StoreErrorKind::Unsupported && self.memory.is_some() =>
            {
                let message = "keys are not kept (keep_keys = false), so they cannot be found by prefix";
                KeeperError::Store(StoreError::new(StoreErrorKind::Unsupported, message))
            }
            error => error,
        })?;
        // Not which: keys are personal data.
        tracing::warn!(forgotten, everything = prefix.is_empty(), "keys were forgotten by prefix");
        Ok(forgotten)
    }

    /// Tells whether the store decides. One elsewhere is asked once a second at most, whoever wants to know how often:
    /// callers in between are told the last answer, and callers at the same time share one.
    ///
    /// Where keys live on many servers, the store decides as long as any of them does: what the others fail is answered by
    /// failure modes, on every instance alike, so none would do better.
    ///
    /// # Cancel safety
    ///
    /// Dropping it loses nothing.
    pub async fn probe(&self) -> Result<(), Arc<StoreError>> {
        match self.memory {
            Some(_) => self.ask_store().await.map(|_| ()).map_err(Arc::new),
            None => self.readiness.check(|| self.ask_store()).await,
        }
    }

    /// Has the store decide something that is never charged; where keys live on many servers, anything.
    async fn ask_store(&self) -> Result<bool, StoreError> {
        let Some(question) = probe_question() else { return Ok(false) };
        let first = self.keeper.probe(question).await.map(|decision| decision.allowed);
        // Each server has a breaker, and so has the map of a cluster.
        if first.is_ok() || self.breakers().len() < 2 {
            return first;
        }
        let more = MORE_PROBE_KEYS.iter().filter_map(|key| question_about(key));
        let mut answers: FuturesUnordered<_> = more.map(|question| self.keeper.probe(question)).collect();
        while let Some(answer) = answers.next().await {
            if let Ok(decision) = answer {
                return Ok(decision.allowed);
            }
        }
        first
    }

    /// Declares this instance not ready, for good: load balancers send no more clients. Requests are decided as before.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
        self.drain_began.notify_waiters();
    }

    /// Returns true once [`drain`](Engine::drain) was called: the server is about to stop.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Waits until [`drain`](Engine::drain) is called; returns at once if it was.
    ///
    /// # Cancel safety
    ///
    /// Dropping it loses nothing.
    pub async fn drain_begun(&self) {
        let mut began = pin!(self.drain_began.notified());
        // Registered before the flag is read: a call between the two is not missed.
        began.as_mut().enable();
        if !self.is_draining() {
            began.await;
        }
    }

    /// The store in this process: the one, or the one that decides in the place of another.
    pub(crate) fn local(&self) -> &MemoryStore {
        &self.local
    }

    /// Whose new keys the store in memory refuses at present: `plan`, `request`, both, or nobody's.
    pub fn refusing_new_keys(&self) -> Vec<&'static str> {
        self.pressure.look(self);
        self.pressure.refusing()
    }

    /// Looks whether the store in memory refuses new keys, and tells the log; keeps room for plans, if there are any.
    pub(crate) fn watch_store(&self) {
        self.pressure.look(self);
    }

    /// Keeps this percentage of the store in memory for plans, while there are any.
    #[must_use]
    pub fn kept_for_plans(self, percent: u8) -> Self {
        self.pressure.keep_for_plans(percent);
        self.pressure.look(&self);
        self
    }

    /// Seconds since the start.
    pub fn uptime(&self) -> u64 {
        self.started.elapsed().as_secs()
    }
}
