//! The engine behind all transports and all event loops.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

use ratekeeper::keeper::KeeperError;
use ratekeeper::port::Store;
use ratekeeper::store::Breaker;
use ratekeeper::{FailureMode, Keeper, Key, MemoryStore, Quota, Registry, StoreError, StoreErrorKind};

use super::probe::ask_store;
use crate::guesses::GuessLimiter;
use crate::net::{Stop, let_sockets_in};
use crate::otel::Tracer;
use crate::record::{RecordCounts, Recorder};
use crate::request::RequestLimits;
use crate::rls::RateLimitService;
use crate::watch::{
    DenialLog, EventKind, EventLevel, EventLog, FrontCounts, PlanMetrics, ProbeReading, Readiness,
    ReloadCounts, ServerMetrics, SnapshotCounts, StorePressure,
};

/// The keeper that decides every request, its plans, and what the server counts. Shared by all transports.
///
/// ```
/// use ratekeeper::{MemoryStore, Plan, Registry};
/// use ratekeeper_server::{Engine, RequestLimits};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let plans = Registry::new([Plan::parse("free", "10/s burst 20")?]);
/// let engine = Engine::in_memory(MemoryStore::default(), plans, RequestLimits::default());
/// assert_eq!(engine.registry().all().len(), 1);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Engine {
    keeper: Keeper,
    registry: Registry,
    /// The keeper's store, if it lives in this process: only such a store can be counted and written to a file.
    memory: Option<Arc<MemoryStore>>,
    /// The store in this process: that one, or the local one beside a remote store.
    local: Arc<MemoryStore>,
    breakers: Option<BreakerList>,
    /// What the store is called that is not in this process.
    remote_kind: &'static str,
    front: Option<FrontReader>,
    limits: RequestLimits,
    metrics: ServerMetrics,
    plan_metrics: PlanMetrics,
    pressure: StorePressure,
    reloads: ReloadCounts,
    /// How snapshots went, if there are any.
    snapshots: Option<SnapshotCounts>,
    /// How many requests were recorded, if any are.
    recorded: Option<RecordCounts>,
    /// What traces requests, if anything does.
    tracer: Option<Tracer>,
    started: Instant,
    started_at: SystemTime,
    draining: Stop,
    readiness: Readiness,
    guesses: GuessLimiter,
    events: EventLog,
    /// What answers Envoy, if anything does.
    rls: Option<Arc<RateLimitService>>,
    /// Whether the store has decided once since the start.
    was_reached: AtomicBool,
}

/// Lists the breakers before the servers of a remote store. A function, because servers come and go.
struct BreakerList(Box<dyn Fn() -> Vec<Arc<Breaker>> + Send + Sync>);

impl fmt::Debug for BreakerList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0()).finish()
    }
}

/// Reads what was counted in front of a remote store.
struct FrontReader(Box<dyn Fn() -> FrontCounts + Send + Sync>);

impl fmt::Debug for FrontReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0().fmt(f)
    }
}

impl Engine {
    /// Returns an engine over a store in this process.
    pub fn in_memory(store: MemoryStore, registry: Registry, limits: RequestLimits) -> Self {
        let memory = Arc::new(store);
        let engine = Self::beside(memory.clone(), Arc::clone(&memory), registry, limits);
        Engine { memory: Some(memory), ..engine }.looked_at()
    }

    /// Returns an engine over any store, such as one that has to be awaited.
    pub fn over(store: Arc<dyn Store>, registry: Registry, limits: RequestLimits) -> Self {
        let local = Arc::new(MemoryStore::builder().keep_keys(true).build());
        Self::beside(store, local, registry, limits)
    }

    /// Returns an engine over a store, with the one in this process that stands in for it.
    fn beside(
        store: Arc<dyn Store>,
        local: Arc<MemoryStore>,
        registry: Registry,
        limits: RequestLimits,
    ) -> Self {
        let plan_metrics = PlanMetrics::default();
        let keeper = Keeper::from_arcs(store, Arc::new(registry.clone()));
        Engine {
            keeper: keeper.observer(plan_metrics.clone()).local_store(Arc::clone(&local)),
            registry,
            memory: None,
            local,
            breakers: None,
            remote_kind: "redis",
            front: None,
            limits,
            metrics: ServerMetrics::default(),
            plan_metrics,
            pressure: StorePressure::default(),
            reloads: ReloadCounts::default(),
            snapshots: None,
            recorded: None,
            tracer: None,
            started: Instant::now(),
            started_at: SystemTime::now(),
            draining: Stop::default(),
            readiness: Readiness::default(),
            guesses: GuessLimiter::default(),
            events: EventLog::default(),
            rls: None,
            was_reached: AtomicBool::new(false),
        }
        .looked_at()
    }

    /// Sets the breakers before the servers of a remote store, and the local store that decides for plans with the
    /// failure mode `local` while the remote one fails.
    #[must_use]
    pub fn guarded_by(
        mut self,
        breakers: impl Fn() -> Vec<Arc<Breaker>> + Send + Sync + 'static,
        local: MemoryStore,
    ) -> Self {
        self.local = Arc::new(local);
        self.keeper = self.keeper.local_store(Arc::clone(&self.local));
        self.breakers = Some(BreakerList(Box::new(breakers)));
        self.looked_at()
    }

    /// Sets what the remote store is called by those who look at it. Defaults to `redis`.
    #[must_use]
    pub fn remote_kind_is(mut self, kind: &'static str) -> Self {
        self.remote_kind = kind;
        self
    }

    /// Returns what the remote store is called.
    pub(crate) fn remote_kind(&self) -> &'static str {
        self.remote_kind
    }

    /// Sets what tells the counts of the layers in front of a remote store, for the metrics. It is called for every page of
    /// them.
    #[must_use]
    pub fn counted_by(mut self, counts: impl Fn() -> FrontCounts + Send + Sync + 'static) -> Self {
        self.front = Some(FrontReader(Box::new(counts)));
        self
    }

    /// Sets what is answered when the store fails a request that is held to no plan.
    #[must_use]
    pub fn on_store_error(mut self, mode: FailureMode) -> Self {
        self.keeper = self.keeper.on_store_error(mode);
        self
    }

    /// Remembers the `keys` keys that are denied most, for the metrics; 0 for none. To be set before a server starts.
    #[must_use]
    pub fn top_denied(mut self, keys: usize) -> Self {
        self.metrics = ServerMetrics::new(keys);
        self
    }

    /// Keeps this percentage of the store in memory for plans while there are any; half of it if this is not called.
    #[must_use]
    pub fn kept_for_plans(self, percent: u8) -> Self {
        self.pressure.keep_for_plans(percent);
        self.looked_at()
    }

    /// Answers Envoy by this service, too: `ShouldRateLimit` over gRPC, `/json` over HTTP. To be set before a server starts.
    #[must_use]
    pub fn with_rls(mut self, service: Arc<RateLimitService>) -> Self {
        self.rls = Some(service);
        self
    }

    /// Reports how [snapshots](crate::Snapshot::counts) of its store went. To be set before a server starts.
    #[must_use]
    pub fn with_snapshot(mut self, counts: SnapshotCounts) -> Self {
        self.snapshots = Some(counts);
        self
    }

    /// Logs denials, at most so many a second; 0 for none. To be set before a server starts.
    #[must_use]
    pub fn logging_denials(mut self, lines_per_second: u32) -> Self {
        if lines_per_second > 0 {
            self.keeper = self.keeper.observer(DenialLog::new(lines_per_second));
        }
        self
    }

    /// Has all requests to take written by a recorder. To be set before a server starts.
    #[must_use]
    pub fn recorded_by(mut self, recorder: &Recorder) -> Self {
        self.keeper = self.keeper.observer(recorder.observer(self.memory.is_some()));
        self.recorded = Some(recorder.counts());
        self
    }

    /// Has requests over HTTP and gRPC traced. To be set before a server starts.
    #[must_use]
    pub fn traced_by(mut self, tracer: Tracer) -> Self {
        self.tracer = Some(tracer);
        self
    }

    /// Notes what happens to the server in this list, which others may write to as well. To be set before a server starts.
    #[must_use]
    pub fn with_events(mut self, events: EventLog) -> Self {
        self.events = events;
        self
    }

    fn looked_at(self) -> Self {
        self.watch_store();
        self
    }

    /// Returns the keeper, which decides every request of every transport.
    pub fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    /// Returns the plans. Replacing them in the registry takes effect with the next request.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Returns the store if it lives in this process: to count its keys, or to write a snapshot.
    pub fn memory(&self) -> Option<&MemoryStore> {
        self.memory.as_deref()
    }

    /// Returns the service that answers Envoy, if there is one.
    pub fn rls(&self) -> Option<&Arc<RateLimitService>> {
        self.rls.as_ref()
    }

    /// Returns true if decisions never have to be awaited.
    pub(crate) fn answers_at_once(&self) -> bool {
        self.memory.is_some()
    }

    /// Returns the counters of reloads, which the metrics report.
    pub fn reloads(&self) -> &ReloadCounts {
        &self.reloads
    }

    /// Returns how snapshots went; none if there are none.
    pub(crate) fn snapshots(&self) -> Option<&SnapshotCounts> {
        self.snapshots.as_ref()
    }

    /// Returns what traces requests, if anything does.
    #[inline]
    pub(crate) fn tracer(&self) -> Option<&Tracer> {
        self.tracer.as_ref()
    }

    /// Returns how many requests were recorded; none if they are not.
    pub(crate) fn recorded(&self) -> Option<&RecordCounts> {
        self.recorded.as_ref()
    }

    /// Returns what happened to the server lately.
    pub fn events(&self) -> &EventLog {
        &self.events
    }

    /// Returns what the last probe of a remote store found, if there was one; asks nobody.
    pub(crate) fn last_probe(&self) -> Option<ProbeReading> {
        self.readiness.last()
    }

    /// Returns the breakers before a remote store, one per server; none before a store in memory.
    pub(crate) fn breakers(&self) -> Vec<Arc<Breaker>> {
        self.breakers.as_ref().map_or_else(Vec::new, |BreakerList(list)| list())
    }

    /// Returns what was counted in front of a remote store; nothing of a store in memory.
    pub(crate) fn front_counts(&self) -> FrontCounts {
        self.front.as_ref().map_or_else(FrontCounts::default, |FrontReader(read)| read())
    }

    /// Returns the addresses that have sent wrong tokens lately, over all transports.
    pub(crate) fn guesses(&self) -> &GuessLimiter {
        &self.guesses
    }

    /// Returns the defaults and bounds for quotas that come with requests.
    pub(crate) fn limits(&self) -> &RequestLimits {
        &self.limits
    }

    /// Returns what the transports have counted.
    pub(crate) fn metrics(&self) -> &ServerMetrics {
        &self.metrics
    }

    /// Returns what was counted by plan and rule, and failures of the store.
    pub(crate) fn plan_metrics(&self) -> &PlanMetrics {
        &self.plan_metrics
    }

    /// Returns the seconds since the start.
    pub(crate) fn uptime(&self) -> u64 {
        self.started.elapsed().as_secs()
    }

    /// Returns when it was started, by the wall clock.
    pub(crate) fn started_at(&self) -> SystemTime {
        self.started_at
    }

    /// Forgets a key under all plans and under every quota that came with a request. Returns how many states were
    /// forgotten. Costs one question to the store per plan.
    pub(crate) async fn reset_everywhere(&self, key: Key<'_>) -> Result<u64, KeeperError> {
        let mut forgotten = match Quota::throttle(1, 1, 1) {
            // Any quota stands for all that requests brought for this key, of whatever algorithm and period.
            Ok(any) => self.keeper.reset(key, &any).await?,
            Err(_) => 0,
        };
        for plan in self.registry.all() {
            match self.keeper.reset(key, plan.name().as_str()).await {
                Ok(more) => forgotten += more,
                // A reload has removed it a moment ago.
                Err(KeeperError::UnknownPlan { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(forgotten)
    }

    /// Forgets every key that starts with these bytes, under all plans and quotas; no bytes stand for all keys. Returns
    /// how many states were forgotten.
    pub(crate) async fn forget(&self, prefix: &[u8]) -> Result<u64, KeeperError> {
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
        let everything = prefix.is_empty();
        tracing::warn!(forgotten, everything, "admin: keys were forgotten by prefix");
        let what = if everything { "all keys" } else { "keys by prefix" };
        self.events.note(
            EventKind::Admin,
            EventLevel::Warn,
            format!("{what} were forgotten: {forgotten} states"),
        );
        Ok(forgotten)
    }

    /// Returns whether the store decides. A remote store is asked once a second at most, however many callers there are:
    /// callers in between get the last answer, and callers at the same time share one.
    ///
    /// A store on many servers decides as long as any of them does: what the others fail is answered by failure modes,
    /// on every instance of this server alike, so no other instance would do better.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub(crate) async fn probe(&self) -> Result<(), Arc<StoreError>> {
        // Each server has a breaker, and so has the map of a cluster.
        let is_spread = self.breakers().len() > 1;
        match self.memory {
            Some(_) => ask_store(&self.keeper, is_spread).await.map_err(Arc::new),
            None => self.readiness.check(|| ask_store(&self.keeper, is_spread)).await,
        }
    }

    /// Returns whether Envoy's service is healthy, as the Go service sees it: not before the store was reached once, nor when
    /// this server is about to stop; and by its settings not without a domain, or whenever the store does not decide.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub(crate) async fn rls_is_healthy(&self) -> bool {
        let Some(service) = &self.rls else { return false };
        let settings = service.settings();
        let has_domain = || service.config().is_some_and(|config| !config.is_empty());
        if self.is_draining() || settings.needs_a_domain && !has_domain() {
            return false;
        }
        if self.was_reached.load(Ordering::Relaxed) && !settings.needs_the_store {
            return true;
        }
        let is_reached = self.probe().await.is_ok();
        self.was_reached.fetch_or(is_reached, Ordering::Relaxed);
        is_reached
    }

    /// Declares this server not ready, for good, so that load balancers send no more clients. Requests are decided as
    /// before.
    pub fn drain(&self) {
        self.draining.raise();
    }

    /// Returns true once [`drain`](Engine::drain) was called.
    pub fn is_draining(&self) -> bool {
        self.draining.is_raised()
    }

    /// Waits until [`drain`](Engine::drain) is called; returns at once if it was.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub(crate) async fn drain_begun(&self) {
        self.draining.wait().await;
    }

    /// Returns whose new keys the store in memory refuses at present: `plan`, `request`, both or none.
    pub(crate) fn refusing_new_keys(&self) -> Vec<&'static str> {
        self.watch_store();
        self.pressure.refusing()
    }

    /// Looks whether the store in this process (the store itself, or the local one beside a remote one) refuses new keys,
    /// logs that, and keeps room for plans while there are any.
    pub(crate) fn watch_store(&self) {
        let has_plans = !self.registry.is_empty();
        let name = if self.memory.is_some() { "memory" } else { "local" };
        self.pressure.look(name, &self.local, has_plans);
    }
}
