//! The service.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use ratekeeper::keeper::KeeperError;
use ratekeeper::port::{ChargeStanding, Clock, Plans, Request};
use ratekeeper::{Cost, Keeper, Key, MonotonicClock, Rules};
use ratekeeper_redis::EnvoyproxyStore;

use super::applied::{Applied, Case};
use super::cases::{CaseMaker, Cases};
use super::judging::Judged;
use super::loaded::LoadedConfig;
use super::metadata::dynamic_metadata;
use super::plan_cache::PlanCache;
use crate::rls::answer::{DescriptorStatus, RlsAnswer, RlsCode};
use crate::rls::asked::{RlsEntry, RlsRequest};
use crate::rls::counting::{RlsCounts, RlsReading};
use crate::rls::error::{RlsError, RlsErrorKind};
use crate::rls::matching::{Explanation, RateLimitConfig};
use crate::rls::rule::LimitPlan;
use crate::settings::{RedisLayout, RlsSettings};
use crate::watch::{AskedRequest, EventKind, EventLevel, EventLog};

/// Answers `ShouldRateLimit`: finds the rules of descriptors, has the keeper judge them in one call, and tells what came of it.
///
/// Its configuration is [exchanged](RateLimitService::load) as a whole while requests go on: a request sees the old one or the
/// new one, never some of each. Counters in the store are touched by nothing but requests, and what is counted for the metrics
/// goes on under the names that stay.
///
/// # Examples
///
/// ```
/// use ratekeeper::{Keeper, MemoryStore, Registry};
/// use ratekeeper_server::rls::{
///     DescriptorSpec, DomainSpec, LimitSpec, RateLimitConfig, RateLimitService, RlsCode, RlsRequest, RlsSettings, read_json,
/// };
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limit =
///     LimitSpec { unit: Some("hour".into()), requests_per_unit: Some(1.into()), ..LimitSpec::default() };
/// let user = DescriptorSpec { key: "user".into(), rate_limit: Some(limit), ..DescriptorSpec::default() };
/// let edge = DomainSpec { domain: "edge".into(), descriptors: vec![user], ..DomainSpec::default() };
/// let settings = RlsSettings::default();
/// let (config, _warnings) = RateLimitConfig::compile(&[edge], &settings)?;
/// let service = RateLimitService::new(settings);
/// service.load(config);
///
/// let keeper = Keeper::new(MemoryStore::default(), Registry::default());
/// let bob = read_json(br#"{"domain": "edge", "descriptors": [{"entries": [{"key": "user", "value": "bob"}]}]}"#)?;
/// assert_eq!(service.should_rate_limit(&keeper, &bob, None).await?.overall, RlsCode::Ok);
/// assert_eq!(service.should_rate_limit(&keeper, &bob, None).await?.overall, RlsCode::OverLimit);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct RateLimitService {
    settings: RlsSettings,
    loaded: ArcSwapOption<LoadedConfig>,
    counts: RlsCounts,
    cache: PlanCache,
    /// Tells when a ban's unit ends; limits go by the clock of the store.
    clock: Arc<dyn Clock>,
    events: EventLog,
}

/// Why descriptors are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Charge,
    Look,
}

impl RateLimitService {
    /// Returns a service without a configuration: until one is [loaded](RateLimitService::load), it answers that there is none.
    pub fn new(settings: RlsSettings) -> Self {
        RateLimitService {
            settings,
            loaded: ArcSwapOption::empty(),
            counts: RlsCounts::default(),
            cache: PlanCache::default(),
            clock: Arc::new(MonotonicClock),
            events: EventLog::default(),
        }
    }

    /// Notes configurations that are loaded, or refused, in this list.
    #[must_use]
    pub fn with_events(mut self, events: EventLog) -> Self {
        self.events = events;
        self
    }

    /// Sets the clock by which bans are told when their unit ends; the process's unless set.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Returns how the service is set.
    pub fn settings(&self) -> &RlsSettings {
        &self.settings
    }

    /// Puts a configuration in force, instead of the one before.
    pub fn load(&self, config: RateLimitConfig) {
        let (domains, rules) = (config.domains().len(), config.rules().len());
        let before = self.loaded.load();
        self.loaded.store(Some(Arc::new(LoadedConfig::after(before.as_deref(), config))));
        self.counts.loaded();
        let text = format!("limits for Envoy loaded: {domains} domains, {rules} rules");
        self.events.note(EventKind::Reload, EventLevel::Info, text);
    }

    /// Counts a configuration that was refused. The one in force stays.
    pub fn load_failed(&self) {
        self.counts.load_failed();
        let text = "limits for Envoy were not loaded, the old ones stay; the log says why";
        self.events.note(EventKind::Reload, EventLevel::Error, text);
    }

    /// Explains what a descriptor finds, and what counts it in the layout of this service.
    pub fn explain(
        &self,
        config: &RateLimitConfig,
        plans: &dyn Plans,
        domain: &str,
        entries: &[RlsEntry],
    ) -> Explanation {
        let is_counter = |plan: &LimitPlan| match plan {
            _ if self.settings.redis_layout != RedisLayout::Envoyproxy => false,
            LimitPlan::Own(plan) => EnvoyproxyStore::is_counter(Rules::Plan(plan)),
            LimitPlan::Named(name) => {
                plans.find(name).is_some_and(|plan| EnvoyproxyStore::is_counter(Rules::Plan(&plan)))
            }
        };
        Explanation::with_counters(config, domain, entries, is_counter)
    }

    /// Returns the configuration in force, if there is one.
    pub fn config(&self) -> Option<Arc<RateLimitConfig>> {
        self.loaded.load().as_ref().map(|loaded| Arc::clone(&loaded.config))
    }

    /// Returns everything that was counted.
    pub fn read_counts(&self) -> RlsReading {
        let loaded = self.loaded.load();
        self.counts.read(loaded.as_deref().map(LoadedConfig::parts))
    }

    /// Answers a request: charges every descriptor that finds a limit, all in one call of the keeper.
    ///
    /// With a deadline, the time after which the caller does not wait any longer, the store is given 0.8 of it where the
    /// failure mode of a limit has an answer: that answer comes in time then.
    ///
    /// # Errors
    ///
    /// The request has no domain or no descriptors, or too many of them; nothing is loaded; a rule names a plan that is not
    /// there; or the store failed, and a failure mode is `error`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may leave a remote store with the charges: what it took is not given back.
    pub async fn should_rate_limit(
        &self,
        keeper: &Keeper,
        request: &RlsRequest,
        deadline: Option<Duration>,
    ) -> Result<RlsAnswer, RlsError> {
        self.answer(keeper, request, deadline, |_| {}).await
    }

    /// Like [`should_rate_limit`](RateLimitService::should_rate_limit), but `asked` is called with the key of every limit that
    /// was charged, and with whether it refused the request.
    pub(crate) async fn answer(
        &self,
        keeper: &Keeper,
        request: &RlsRequest,
        deadline: Option<Duration>,
        asked: impl FnMut(AskedRequest<'_>),
    ) -> Result<RlsAnswer, RlsError> {
        let answered = self.judge(keeper, request, deadline, Purpose::Charge, asked).await;
        if let Err(error) = &answered {
            match error.kind() {
                RlsErrorKind::Store => self.counts.store_failed(),
                RlsErrorKind::Request | RlsErrorKind::Configuration => self.counts.service_failed(),
            }
        }
        answered
    }

    /// Counts a request that was refused before it was read to its end.
    pub(crate) fn refused_unread(&self) {
        self.counts.service_failed();
    }

    /// Tells where the descriptors of a request stand: charges nothing, and counts nothing.
    ///
    /// # Errors
    ///
    /// As those of [`should_rate_limit`](RateLimitService::should_rate_limit).
    pub async fn look(&self, keeper: &Keeper, request: &RlsRequest) -> Result<RlsAnswer, RlsError> {
        self.judge(keeper, request, None, Purpose::Look, |_| {}).await
    }

    /// Forgets the counters that the descriptors of a request would be charged on, and returns how many states were forgotten.
    ///
    /// # Errors
    ///
    /// As those of [`should_rate_limit`](RateLimitService::should_rate_limit); a store that fails is an error whatever the
    /// failure modes say.
    pub async fn reset(&self, keeper: &Keeper, request: &RlsRequest) -> Result<u64, RlsError> {
        let loaded = self.loaded.load();
        let cases = self.cases(loaded.as_deref(), keeper, request, Purpose::Look)?;
        let mut forgotten = 0;
        for case in &cases.each {
            let Applied::Limited(limited) = &case.applied else { continue };
            let Ok(key) = Key::new(&cases.keys[limited.key.clone()]) else { continue };
            let request = Request::new(key, Rules::Plan(&limited.plan), Cost::ZERO);
            forgotten += keeper.reset_resolved(request).await?;
        }
        Ok(forgotten)
    }

    fn cases<'a>(
        &'a self,
        loaded: Option<&'a LoadedConfig>,
        keeper: &'a Keeper,
        request: &'a RlsRequest,
        purpose: Purpose,
    ) -> Result<Cases<'a>, RlsError> {
        let maker = CaseMaker {
            settings: &self.settings,
            loaded,
            counts: &self.counts,
            cache: &self.cache,
            plans: keeper.plans(),
            is_counted: purpose == Purpose::Charge,
        };
        maker.cases(request)
    }

    async fn judge(
        &self,
        keeper: &Keeper,
        request: &RlsRequest,
        deadline: Option<Duration>,
        purpose: Purpose,
        asked: impl FnMut(AskedRequest<'_>),
    ) -> Result<RlsAnswer, RlsError> {
        let loaded = self.loaded.load();
        let mut cases = self.cases(loaded.as_deref(), keeper, request, purpose)?;
        if purpose == Purpose::Look {
            cases.each.iter_mut().for_each(|case| case.hits = 0);
        }
        let standings = match cases.judged(keeper, self.settings.is_shadow, deadline).await? {
            Judged::Standings(standings) => standings,
            Judged::RefusedAnyway(_) if purpose == Purpose::Charge => {
                self.counts.store_failed();
                Vec::new()
            }
            Judged::RefusedAnyway(error) => return Err(KeeperError::Store(error).into()),
        };
        let statuses = self.statuses(&cases, &standings);
        let overall = self.overall(&cases, &statuses, purpose);
        if purpose == Purpose::Charge {
            cases.asked(&statuses, overall).for_each(asked);
        }
        let mut answer =
            RlsAnswer { overall, statuses, response_headers: Vec::new(), body: Vec::new(), metadata: None };
        answer.furnish(&self.settings, &cases, &standings);
        if self.settings.tells_metadata {
            answer.metadata = Some(dynamic_metadata(request, &cases, &answer.statuses));
        }
        Ok(answer)
    }

    fn statuses(&self, cases: &Cases<'_>, standings: &[ChargeStanding]) -> Vec<DescriptorStatus> {
        let mut standings = standings.iter();
        let status = |case: &Case<'_>| match &case.applied {
            Applied::Limited(limited) => match standings.next() {
                Some(standing) => {
                    case.count_of(limited, standing, self.settings.near_limit_ratio);
                    case.status_of(limited, standing)
                }
                // Nobody knows where it stands, and it does not matter.
                None => case.status(|| self.clock.now()),
            },
            _ => {
                case.count();
                case.status(|| self.clock.now())
            }
        };
        cases.each.iter().map(status).collect()
    }

    fn overall(&self, cases: &Cases<'_>, statuses: &[DescriptorStatus], purpose: Purpose) -> RlsCode {
        if !cases.are_refused(statuses) {
            return RlsCode::Ok;
        }
        if self.settings.is_shadow {
            if purpose == Purpose::Charge {
                self.counts.changed_by_shadow();
            }
            return RlsCode::Ok;
        }
        RlsCode::OverLimit
    }
}

impl Cases<'_> {
    /// Returns true if a status refuses by itself, or all of quota rules do.
    fn are_refused(&self, statuses: &[DescriptorStatus]) -> bool {
        let (mut quota, mut over) = (0, 0);
        for (case, status) in self.each.iter().zip(statuses) {
            let is_over = status.code == RlsCode::OverLimit;
            if is_over && !case.is_quota {
                return true;
            }
            quota += usize::from(case.is_quota);
            over += usize::from(is_over);
        }
        quota > 0 && quota == over
    }

    /// Returns what was charged, each with its key.
    fn asked(
        &self,
        statuses: &[DescriptorStatus],
        overall: RlsCode,
    ) -> impl Iterator<Item = AskedRequest<'_>> {
        let charged = self.each.iter().zip(statuses).filter(|(case, _)| !case.is_negative);
        charged.filter_map(move |(case, status)| {
            let Applied::Limited(limited) = &case.applied else { return None };
            let is_denied = overall == RlsCode::OverLimit && status.code == RlsCode::OverLimit;
            let (key, plan) = (self.keys.get(limited.key.clone())?, Some(limited.plan.name()));
            Some(AskedRequest { key, plan, cost: case.hits, is_denied })
        })
    }
}
