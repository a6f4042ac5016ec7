//! How a limit is set up.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use ratekeeper::port::Store;
use ratekeeper::{Algorithm, Cost, Keeper, MemoryStore, Name, Plan, PlanError, Quota, Unit};

use super::charge_policy::ChargePolicy;
use super::cost::CostRule;
use super::denied::Denied;
use super::hold_policy::HoldPolicy;
use super::permits::KeyedPermits;
use super::policy_headers::{PolicyHeaders, PolicyHeadersCache};
use super::settings::{
    InFlightSettings, LimitSettings, MeteringSettings, PlanSource, QueueSettings, RateSettings,
};
use super::sole_plan::SolePlan;
use crate::headers::HeaderDialect;
use crate::key::{Global, KeyExtractor, RequestView};

/// A limit: how much, for whom, and what becomes of those who want more.
///
/// It is a tower layer itself, and [`layer`](Limit::layer) makes one. State is shared by construction: a limit, its
/// clones, its layers, their services and the clones of these all limit together.
///
/// A limit has a plan of its own ([`OwnPlan`], the default), or is held to the plans of a keeper ([`KeeperPlans`]). The
/// type says which: only the former can be given a [store](Limit::store), because a keeper has one, and only the latter
/// can be held to [another plan](Limit::plan).
///
/// # Examples
///
/// ```
/// use ratekeeper_http::Limit;
/// use ratekeeper_http::key::ClientIp;
/// let limit = Limit::new("api", "10/s burst 20".parse()?).by(ClientIp::default());
/// # let _ = limit;
/// # Ok::<(), ratekeeper::PlanError>(())
/// ```
#[derive(Clone)]
pub struct Limit<P = OwnPlan> {
    pub(crate) settings: LimitSettings,
    plans: PhantomData<P>,
}

/// The limit has a plan of its own, and a store for it: in memory unless it is [given another](Limit::store).
#[derive(Clone, Copy, Debug)]
pub enum OwnPlan {}

/// The limit is held to plans of a keeper, over the keeper's store: [`Limit::over`].
#[derive(Clone, Copy, Debug)]
pub enum KeeperPlans {}

impl Limit {
    /// Creates a limit of this quota, decided in memory. A quota such as `32 concurrent` limits how many are in flight,
    /// each until its response's body has ended. For several rules at once see [`parse`](Limit::parse).
    ///
    /// `name` is written in the program. For a name that comes from elsewhere take [`parse`](Limit::parse) or
    /// [`of`](Limit::of), which return errors.
    ///
    /// # Panics
    ///
    /// If the name is not a [`Name`], when the limit is set up: never while requests are served.
    pub fn new(name: &'static str, quota: Quota) -> Self {
        let name: Name = name.parse().unwrap_or_else(|error| panic!("{error}"));
        match quota.algorithm() {
            Algorithm::Concurrency => Limit::with(name, None).in_flight(quota.burst()),
            _ => Limit::of(sole_rule(name, quota)),
        }
    }

    /// Creates a limit from text, decided in memory: quotas separated by `;`, all of which must allow. A rule is named
    /// by what stands before `=`, or else after its period, as in [`Plan::parse`]; a sole one after the limit.
    ///
    /// `8 concurrent` among rules that count requests limits how many are [in flight](Limit::in_flight) in this process. Among
    /// rules that count something else (`100000 tokens/m`) it is a rule of the plan like the others, and so counted by the
    /// store: see [`of`](Limit::of).
    ///
    /// # Errors
    ///
    /// If the name is not a [`Name`], or the text is no list of quotas.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratekeeper_http::Limit;
    /// let limit = Limit::parse("api", "3/m; daily=500/day; 8 concurrent")?;
    /// # let _ = limit;
    /// # Ok::<(), ratekeeper::PlanError>(())
    /// ```
    pub fn parse(name: &str, text: &str) -> Result<Self, PlanError> {
        let parts = text.split(';').filter(|part| !part.trim().is_empty());
        let counts_units =
            |plan: &Plan| plan.units().any(|unit| !unit.is_requests() && *unit != Unit::CONCURRENT);
        if let Ok(plan) = Plan::parse(name, text)
            && counts_units(&plan)
        {
            return Ok(Limit::of(plan));
        }
        let (permits, rates): (Vec<_>, Vec<_>) =
            parts.map(|part| (part, permits(part))).partition(|(_, permits)| permits.is_some());
        // Of several the least binds: all must allow.
        let permits = permits.into_iter().filter_map(|(_, permits)| permits).min();
        let limit = match (&rates[..], permits) {
            ([], Some(_)) => Limit::with(name.parse()?, None),
            ([(sole, _)], _) if !sole.contains('=') => Limit::of(sole_rule(name.parse()?, sole.parse()?)),
            _ => Limit::of(Plan::from_texts(name, rates.iter().map(|(part, _)| *part))?),
        };
        Ok(match permits {
            Some(permits) => limit.in_flight(permits),
            None => limit,
        })
    }

    /// Creates a limit of this plan, decided in memory.
    ///
    /// A plan that counts what is in flight is [held](Limit::hold) while its requests are served, and one that counts more
    /// than requests takes what [`cost_of`](Limit::cost_of) or the request's [`Estimate`](crate::Estimate) say.
    pub fn of(plan: Plan) -> Self {
        let hold = plan.is_taken_by_holds().then(Arc::default);
        let metering = (!plan.is_plain()).then(|| Arc::new(MeteringSettings { hold, ..Default::default() }));
        let headers = Arc::new(PolicyHeaders::of(&plan));
        let plan = Arc::new(plan);
        let keeper = Keeper::new(MemoryStore::default(), SolePlan(Arc::clone(&plan)));
        let name = plan.name().clone();
        let mut limit =
            Limit::with(name, Some(RateSettings { keeper, plan: PlanSource::Own { plan, headers } }));
        limit.settings.metering = metering;
        limit
    }

    /// Sets where the rate's state is kept; in memory by default. What is [in flight](Limit::in_flight) is counted in
    /// this process whatever the store is.
    ///
    /// An `Arc<dyn Store>` is a store too: several limits can share one, and their states do not mix as long as the
    /// limits have different names.
    #[must_use]
    pub fn store(mut self, store: impl Store + 'static) -> Self {
        if let Some(RateSettings { keeper, plan: PlanSource::Own { plan, .. } }) = &mut self.settings.rate {
            *keeper = Keeper::new(store, SolePlan(Arc::clone(plan)));
        }
        self
    }
}

impl Limit<KeeperPlans> {
    /// Creates a limit by a plan of this keeper, over whatever store it has.
    ///
    /// The keeper is asked for the plan with each request, because plans may change. A request whose plan does not
    /// exist is answered as the keeper's [`on_missing_plan`](Keeper::on_missing_plan) says: with 500 by default.
    ///
    /// A plan that counts more than requests takes what [`cost_of`](Limit::cost_of) or the request's
    /// [`Estimate`](crate::Estimate) say. One that counts what is in flight needs a [hold](Limit::hold).
    ///
    /// # Examples
    ///
    /// ```
    /// use ratekeeper::{Keeper, MemoryStore, Plan, Registry};
    /// use ratekeeper_http::Limit;
    /// let plans = Registry::new([Plan::parse("free", "10/m")?, Plan::parse("gold", "1000/m")?]);
    /// let limit = Limit::over(Keeper::new(MemoryStore::default(), plans), "free".parse()?);
    /// # let _ = limit;
    /// # Ok::<(), ratekeeper::PlanError>(())
    /// ```
    pub fn over(keeper: Keeper, plan: Name) -> Self {
        let name = plan.clone();
        let plan = PlanSource::Named { name: plan, headers: Arc::default() };
        let mut limit = Limit::with(name, Some(RateSettings { keeper, plan }));
        // What the plan counts is not known before a request is there: its estimate is read whatever it is.
        limit.settings.metering = Some(Arc::default());
        limit
    }

    /// Returns the same limit by another plan of the same keeper, for one route of many. The limit is called after it.
    #[must_use]
    pub fn plan(&self, name: Name) -> Self {
        let mut limit = self.clone();
        limit.settings.name = name.clone();
        limit.held_to(|headers| PlanSource::Named { name, headers })
    }

    /// Sets a function that picks the plan of each request, of those that the keeper has: tiers.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratekeeper::{Keeper, MemoryStore, Plan, Registry};
    /// use ratekeeper_http::Limit;
    /// #[derive(Clone)]
    /// struct Tier(&'static str);
    /// let plans = Registry::new([Plan::parse("free", "10/m")?, Plan::parse("gold", "1000/m")?]);
    /// let limit = Limit::over(Keeper::new(MemoryStore::default(), plans), "free".parse()?)
    ///     .plan_for(|request| request.extension::<Tier>().map_or("free", |tier| tier.0).into());
    /// # let _ = limit;
    /// # Ok::<(), ratekeeper::PlanError>(())
    /// ```
    #[must_use]
    pub fn plan_for(
        self,
        pick: impl for<'a> Fn(&RequestView<'a>) -> Cow<'a, str> + Send + Sync + 'static,
    ) -> Self {
        self.held_to(|headers| PlanSource::PerRequest { pick: Arc::new(pick), headers })
    }

    fn held_to(mut self, source: impl FnOnce(Arc<PolicyHeadersCache>) -> PlanSource) -> Self {
        if let Some(RateSettings { plan, .. }) = &mut self.settings.rate
            && let PlanSource::Named { headers, .. } | PlanSource::PerRequest { headers, .. } = plan
        {
            *plan = source(Arc::clone(headers));
        }
        self
    }
}

impl<P> Limit<P> {
    fn with(name: Name, rate: Option<RateSettings>) -> Self {
        Limit {
            settings: LimitSettings {
                name,
                rate,
                in_flight: None,
                queue: None,
                by: Arc::new(Global),
                exempt: None,
                cost: CostRule::default(),
                metering: None,
                charge: ChargePolicy::default(),
                shadow: false,
                dialect: HeaderDialect::default(),
                with_decision: false,
                on_denied: None,
            },
            plans: PhantomData,
        }
    }

    /// Sets whom it limits; everybody together by default.
    #[must_use]
    pub fn by(mut self, key: impl for<'a> KeyExtractor<RequestView<'a>> + 'static) -> Self {
        self.settings.by = Arc::new(key);
        self
    }

    /// Lets requests pass unlimited for which this returns true: health checks, static files. It is asked before
    /// anything else: no key is extracted, nothing is counted, and the response says nothing of a limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratekeeper_http::Limit;
    /// let limit = Limit::new("api", "10/s".parse()?).exempt(|request| request.uri().path() == "/health");
    /// # let _ = limit;
    /// # Ok::<(), ratekeeper::PlanError>(())
    /// ```
    #[must_use]
    pub fn exempt(mut self, is_exempt: impl Fn(&RequestView<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.settings.exempt = Some(Arc::new(is_exempt));
        self
    }

    /// Sets what each request costs, as a function of the request. 1 by default; 0 asks without taking. For a cost that
    /// is the same for all see [`fixed_cost`](Limit::fixed_cost).
    ///
    /// # Examples
    ///
    /// ```
    /// use ratekeeper_http::Limit;
    /// let by_size = Limit::new("upload", "1000000/m".parse()?).cost(|request| {
    ///     let length = request.headers().get("content-length");
    ///     length.and_then(|length| length.to_str().ok()?.parse().ok()).unwrap_or(1)
    /// });
    /// # let _ = by_size;
    /// # Ok::<(), ratekeeper::PlanError>(())
    /// ```
    #[must_use]
    pub fn cost(mut self, cost: impl Fn(&RequestView<'_>) -> u64 + Send + Sync + 'static) -> Self {
        self.settings.cost = CostRule::Of(Arc::new(cost));
        self
    }

    /// Sets what every request costs; 1 by default. A [`Gate`](crate::Gate), which sees no requests, takes this too.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratekeeper_http::Limit;
    /// let five = Limit::new("search", "100/m".parse()?).fixed_cost(5);
    /// # let _ = five;
    /// # Ok::<(), ratekeeper::PlanError>(())
    /// ```
    #[must_use]
    pub fn fixed_cost(mut self, cost: impl Into<Cost>) -> Self {
        self.settings.cost = CostRule::Fixed(cost.into());
        self
    }

    /// Sets how much of a unit each request takes, as a function of the request; `None` is what the plan
    /// [assumes](Plan::assume). It wins over the request's [`Estimate`](crate::Estimate), which is how a layer around this one
    /// tells what it has read in the body.
    ///
    /// A unit that a rule counts and nobody says is an error, and so is one that no rule counts: such a request is answered
    /// with 500, and the log says which it is.
    ///
    /// # Panics
    ///
    /// If the word is no [`Unit`], when the limit is set up: never while requests are served.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratekeeper_http::Limit;
    /// let limit = Limit::parse("upload", "60/m; 1000000 bytes/m")?.cost_of("bytes", |request| {
    ///     let length = request.headers().get("content-length")?;
    ///     length.to_str().ok()?.parse::<u64>().ok()
    /// });
    /// # let _ = limit;
    /// # Ok::<(), ratekeeper::PlanError>(())
    /// ```
    #[must_use]
    pub fn cost_of<R: Into<Option<u64>>>(
        mut self,
        unit: &'static str,
        cost: impl Fn(&RequestView<'_>) -> R + Send + Sync + 'static,
    ) -> Self {
        Arc::make_mut(self.settings.metering.get_or_insert_default()).costs.set(unit, cost);
        self
    }

    /// Holds what a request is estimated to take for as long as it is served, and settles it with what it took: see
    /// [`HoldPolicy`] for how, and [`Spent`](crate::Spent) for how the handler tells. A request is served until its response's
    /// body has ended, failed or was dropped, an upgraded connection until it is closed.
    ///
    /// A plan that counts what is in flight (`8 concurrent`) can be taken only so, and a limit [of](Limit::of) such a plan
    /// holds already. What is held is not charged by a [`ChargePolicy`].
    ///
    /// # Cost
    ///
    /// Besides the hold itself, a task that extends its lease, and a few allocations.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratekeeper::{Keeper, MemoryStore, Plan, Registry};
    /// use ratekeeper_http::{HoldPolicy, Limit};
    /// let plan = Plan::parse("llm", "60/m; 100000 tokens/m burst 20000; 8 concurrent")?.assume("tokens", 1000)?;
    /// let keeper = Keeper::new(MemoryStore::default(), Registry::new([plan]));
    /// let limit = Limit::over(keeper, "llm".parse()?).hold(HoldPolicy::default());
    /// # let _ = limit;
    /// # Ok::<(), ratekeeper::PlanError>(())
    /// ```
    #[must_use]
    pub fn hold(mut self, policy: HoldPolicy) -> Self {
        Arc::make_mut(self.settings.metering.get_or_insert_default()).hold = Some(Arc::new(policy));
        self
    }

    /// Limits how many requests of each key are in flight at once, each until its response's body has ended; at least
    /// 1. Besides the rate.
    ///
    /// A connection that is upgraded (a websocket, a tunnel) is in flight until it is closed, by either side. That is
    /// known of every upgrade by hyper, under axum or without; the connection that the handler gets is then not
    /// [downcast](https://docs.rs/hyper/1/hyper/upgrade/struct.Upgraded.html#method.downcast) to the socket. Of
    /// upgrades by other servers, and without the feature `upgrades`, nothing is known once the body of the answer was
    /// dropped.
    #[must_use]
    pub fn in_flight(mut self, limit: u64) -> Self {
        let queue = self.settings.queue.map_or(0, |queue| queue.places);
        let headers = Arc::new(PolicyHeaders::concurrent(&self.settings.name, limit));
        let permits = Arc::new(KeyedPermits::new(limit, queue));
        self.settings.in_flight = Some(InFlightSettings { permits, headers });
        self
    }

    /// Lets requests wait, first come, first served, instead of refusing them: at most `places` of each key, each at
    /// most `wait`. One that would have to wait longer, or finds no place, is refused at once; `Retry-After` then says
    /// when the queue is expected to have passed.
    ///
    /// # Cancel safety
    ///
    /// A request that is dropped while it waits leaves the queue, and nothing was taken for it.
    #[must_use]
    pub fn queue(mut self, places: usize, wait: Duration) -> Self {
        self.settings.queue = (places > 0).then_some(QueueSettings { places, wait });
        if let Some(in_flight) = &mut self.settings.in_flight {
            in_flight.permits = Arc::new(KeyedPermits::new(in_flight.permits.limit(), places));
        }
        self
    }

    /// Sets which requests are charged in the end; all by default.
    #[must_use]
    pub fn charge(mut self, charge: ChargePolicy) -> Self {
        self.settings.charge = charge;
        self
    }

    /// Counts, and refuses nobody: to try a limit out. Responses say nothing of the limit;
    /// [`on_denied`](Limit::on_denied) is called for those that would have been refused.
    #[must_use]
    pub fn shadow(mut self) -> Self {
        self.settings.shadow = true;
        self
    }

    /// Sets which header fields report what is left.
    #[must_use]
    pub fn dialect(mut self, dialect: HeaderDialect) -> Self {
        self.settings.dialect = dialect;
        self
    }

    /// Sets a function that is called for every refusal, and may change the response. If it panics, the response is the
    /// usual one.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratekeeper_http::Limit;
    /// let limit = Limit::new("api", "10/s".parse()?).on_denied(|denied| {
    ///     *denied.response.body_mut() = format!("slow down, {}", denied.limit).into_bytes();
    /// });
    /// # let _ = limit;
    /// # Ok::<(), ratekeeper::PlanError>(())
    /// ```
    #[must_use]
    pub fn on_denied(mut self, hear: impl Fn(&mut Denied<'_>) + Send + Sync + 'static) -> Self {
        self.settings.on_denied = Some(Arc::new(hear));
        self
    }

    /// Puts the decision into the request's extensions, as a [`LimitDecision`](crate::LimitDecision), for the handler.
    #[must_use]
    pub fn with_decision(mut self) -> Self {
        self.settings.with_decision = true;
        self
    }
}

/// Returns a plan of one rule, which has the plan's name.
#[expect(clippy::expect_used, reason = "a plan of one valid rule cannot be refused")]
fn sole_rule(name: Name, quota: Quota) -> Plan {
    Plan::new(name.clone(), [(name, quota)]).expect("one rule, not of permits")
}

/// Returns how many at once, if this is a rule of that kind; with or without a name.
fn permits(rule: &str) -> Option<u64> {
    let quota: Quota = rule.rsplit('=').next()?.parse().ok()?;
    (quota.algorithm() == Algorithm::Concurrency).then(|| quota.burst())
}

impl<P> fmt::Debug for Limit<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Limit");
        debug.field("name", &self.settings.name).field("by", &self.settings.by).finish_non_exhaustive()
    }
}
