//! What every transport asks: the keeper of plans, and what to assume when a request leaves something out.

use std::sync::{Arc, LazyLock};
use std::time::Instant;

use ratekeeper::keeper::KeeperError;
use ratekeeper::port::{FailureMode, Observer, Request, Store};
use ratekeeper::store::Breaker;
use ratekeeper::{Charged, Cost, Decision, Keeper, Key, MemoryStore, Quota, Registry, Rules, StoreError};

use crate::meter::Metrics;
use crate::reload::ReloadCounts;
use crate::tally::Tally;

/// What health is asked about; nobody takes from it.
const PROBE_KEY: &[u8] = b"ratekeeper:health";

/// A question about nobody's key, to be looked at and never charged.
pub(crate) fn probe_question() -> Option<Request<'static>> {
    static QUOTA: LazyLock<Option<Quota>> = LazyLock::new(|| Quota::throttle(1, 1, 1).ok());
    let (key, quota) = (Key::new(PROBE_KEY).ok()?, QUOTA.as_ref()?);
    Some(Request { key, rules: Rules::Quota(quota), cost: Cost::ONE })
}

/// The one engine behind all transports and all event loops.
#[derive(Debug)]
pub struct Engine {
    keeper: Keeper,
    registry: Registry,
    /// The keeper's store, if it lives in this process: only such a one can be counted and written to a file.
    memory: Option<Arc<MemoryStore>>,
    /// What leaves a store elsewhere alone while it fails.
    breaker: Option<Arc<Breaker>>,
    limits: Limits,
    metrics: Metrics,
    tally: Tally,
    reloads: ReloadCounts,
    started: Instant,
}

/// `[limits]`: what a request without them is held to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// For `max_burst`.
    pub burst: Option<i64>,
    /// For `count_per_period`.
    pub rate: Option<i64>,
    /// For `period`, in seconds.
    pub period: Option<i64>,
}

impl Engine {
    /// An engine over a store in this process.
    pub fn in_memory(store: MemoryStore, registry: Registry, limits: Limits) -> Self {
        let memory = Arc::new(store);
        let engine = Self::over(memory.clone(), registry, limits);
        Engine { memory: Some(memory), ..engine }
    }

    /// An engine over a store that may have to be waited for.
    pub fn over(store: Arc<dyn Store>, registry: Registry, limits: Limits) -> Self {
        let tally = Tally::default();
        Engine {
            keeper: Keeper::from_arcs(store, Arc::new(registry.clone())).observer(tally.clone()),
            registry,
            memory: None,
            breaker: None,
            limits,
            metrics: Metrics::default(),
            tally,
            reloads: ReloadCounts::default(),
            started: Instant::now(),
        }
    }

    /// Has the breaker before the store looked at, and this store decide for plans that say `local` while it fails.
    #[must_use]
    pub fn guarded_by(mut self, breaker: Option<Arc<Breaker>>, local: MemoryStore) -> Self {
        self.keeper = self.keeper.local_store(local);
        self.breaker = breaker;
        self
    }

    /// The breaker before a store elsewhere, if there is one.
    pub fn breaker(&self) -> Option<&Breaker> {
        self.breaker.as_deref()
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
        match self.store().acquire(request).await {
            Ok(decision) => Ok(decision),
            Err(error) => self.keeper.fall_back(request, &error).ok_or(error),
        }
    }

    /// Gives back to a quota that came with its request, as of now: `CL.THROTTLE` cannot say when it was charged.
    pub async fn refund(&self, request: Request<'_>) -> Result<Decision, StoreError> {
        let refunded = self.store().refund(request, Charged::NOW).await;
        // That anything was given back would not be true.
        refunded.inspect_err(|error| self.tally.store_failed(error, None))
    }

    /// Decides by plans.
    pub fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    /// The plans there are.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Decides by quotas that come with their requests.
    #[inline]
    pub fn store(&self) -> &dyn Store {
        self.keeper.store()
    }

    /// The store, if it lives in this process.
    pub fn memory(&self) -> Option<&MemoryStore> {
        self.memory.as_deref()
    }

    /// What a request without limits is held to.
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

    /// Has the store decide something that is never charged: an engine that answers is healthy.
    pub async fn probe(&self) -> Result<bool, StoreError> {
        let Some(question) = probe_question() else { return Ok(false) };
        self.store().peek(question).await.map(|decision| decision.allowed)
    }

    /// Seconds since the start.
    pub fn uptime(&self) -> u64 {
        self.started.elapsed().as_secs()
    }
}
