//! A limit as a web server sees it: who is limited, by how much, and what they are told.
//!
//! ```text
//! mod         Limit: the settings          turnstiles   permits and queues, by key
//! decide      one request decided          told         the header fields, rendered once
//! verdict     what came out of it          tab          what may be given back
//! expected    how long a queue takes       upgrade      connections that leave HTTP
//! ```

mod charge;
mod cost;
mod decide;
mod expected;
mod plans;
mod tab;
mod told;
mod turnstiles;
#[cfg(feature = "upgrades")]
mod upgrade;
mod verdict;

pub use charge::Charge;
pub use told::Told;
pub use verdict::{Denied, LimitDecision};

pub(crate) use decide::{Asked, Deciding};
pub(crate) use tab::Tab;
pub(crate) use told::Standings;
pub(crate) use turnstiles::{Seat, Turnstiles};
#[cfg(feature = "upgrades")]
pub(crate) use upgrade::Upgrade;
pub(crate) use verdict::{Failure, MethodKind, Pass, Refusal, Verdict};

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ratekeeper::port::Store;
use ratekeeper::{Algorithm, Cost, Keeper, MemoryStore, Name, Plan, PlanError, Quota};

use crate::headers::Dialect;
use crate::key::{Global, KeyExtractor, RequestView};
use plans::Single;

/// There are none: nothing can be known of upgrades without hyper.
#[cfg(not(feature = "upgrades"))]
pub(crate) enum Upgrade {}

#[cfg(not(feature = "upgrades"))]
impl Upgrade {
    pub(crate) fn intercept<B>(_: &mut http::Request<B>) -> Option<Self> {
        None
    }

    pub(crate) fn hold(self, _: Box<Seat>) {
        match self {}
    }
}

pub(crate) type PickPlan = Arc<dyn for<'a> Fn(&RequestView<'a>) -> Cow<'a, str> + Send + Sync>;
pub(crate) type Exempt = Arc<dyn Fn(&RequestView<'_>) -> bool + Send + Sync>;
pub(crate) type OnDenied = Arc<dyn Fn(&mut Denied<'_>) + Send + Sync>;

/// A limit: how much, for whom, and what becomes of those who want more.
///
/// It is a tower layer itself, and [`layer`](Limit::layer) makes one. State is shared by construction: a limit, its
/// clones, its layers, their services and the clones of these all limit together.
///
/// ```
/// use ratekeeper_http::Limit;
/// use ratekeeper_http::key::ClientIp;
/// let limit = Limit::new("api", "10/s burst 20".parse()?).by(ClientIp::default());
/// # let _ = limit;
/// # Ok::<(), ratekeeper::PlanError>(())
/// ```
#[derive(Clone)]
pub struct Limit {
    pub(crate) settings: Settings,
}

/// Cheap to clone: what is shared is behind pointers.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) name: Name,
    pub(crate) rate: Option<Rate>,
    pub(crate) in_flight: Option<InFlight>,
    pub(crate) queue: Option<Queue>,
    pub(crate) by: Arc<dyn KeyExtractor>,
    pub(crate) exempt: Option<Exempt>,
    pub(crate) cost: cost::CostRule,
    pub(crate) charge: Charge,
    pub(crate) shadow: bool,
    pub(crate) dialect: Dialect,
    pub(crate) with_decision: bool,
    pub(crate) on_denied: Option<OnDenied>,
}

impl Settings {
    /// True if the limit is not for this request.
    pub(crate) fn is_exempt(&self, request: &RequestView<'_>) -> bool {
        self.exempt.as_ref().is_some_and(|is_exempt| is_exempt(request))
    }
}

/// How many per time.
#[derive(Clone)]
pub(crate) struct Rate {
    pub(crate) keeper: Keeper,
    pub(crate) plan: PlanOf,
    /// Of the limit's own plan, if it has one.
    pub(crate) own: Option<Arc<Told>>,
    pub(crate) told: Arc<told::Cache>,
}

#[derive(Clone)]
pub(crate) enum PlanOf {
    Fixed(Name),
    Picked(PickPlan),
}

/// How many at once.
#[derive(Clone)]
pub(crate) struct InFlight {
    pub(crate) turnstiles: Arc<Turnstiles>,
    pub(crate) told: Arc<Told>,
}

/// Who waits instead of being refused.
#[derive(Clone)]
pub(crate) struct Queue {
    pub(crate) lines: Arc<Turnstiles>,
    pub(crate) wait: Duration,
}

impl Limit {
    /// A limit of this quota, decided in memory. A quota such as `32 concurrent` limits how many are in flight, each
    /// until its response's body has ended. For several rules at once see [`parse`](Limit::parse).
    ///
    /// # Panics
    ///
    /// If the name is not a [`Name`]. It is the program's, and checked when the program starts.
    pub fn new(name: &str, quota: Quota) -> Self {
        let name: Name = name.parse().unwrap_or_else(|error| panic!("{error}"));
        match quota.algorithm() {
            Algorithm::Concurrency => Limit::with(name, None).in_flight(quota.burst()),
            _ => Limit::of(sole_rule(name, quota)),
        }
    }

    /// A limit from text, decided in memory: quotas separated by `;`, all of which must allow. A rule is named by what
    /// stands before `=`, or else after its period, as in [`Plan::parse`]; a sole one after the limit. `8 concurrent`
    /// among them limits how many are in flight, besides the rates.
    ///
    /// ```
    /// use ratekeeper_http::Limit;
    /// let limit = Limit::parse("api", "3/m; daily=500/day; 8 concurrent")?;
    /// # let _ = limit;
    /// # Ok::<(), ratekeeper::PlanError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the name is not a [`Name`], or the text is no list of quotas.
    pub fn parse(name: &str, text: &str) -> Result<Self, PlanError> {
        let parts = text.split(';').filter(|part| !part.trim().is_empty());
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

    /// A limit of this plan, decided in memory.
    pub fn of(plan: Plan) -> Self {
        let (name, own) = (plan.name().clone(), Some(Arc::new(Told::of(&plan))));
        let keeper = Keeper::new(MemoryStore::default(), Single::new(plan));
        let plan = PlanOf::Fixed(name.clone());
        Limit::with(name, Some(Rate { keeper, plan, own, told: Arc::default() }))
    }

    /// A limit by a plan of this keeper, over whatever store it has.
    ///
    /// # Panics
    ///
    /// If the plan's name is not a [`Name`]. Whether there is such a plan is asked per request: plans may change.
    pub fn over(keeper: Keeper, plan: &str) -> Self {
        let name: Name = plan.parse().unwrap_or_else(|error| panic!("{error}"));
        let plan = PlanOf::Fixed(name.clone());
        Limit::with(name, Some(Rate { keeper, plan, own: None, told: Arc::default() }))
    }

    fn with(name: Name, rate: Option<Rate>) -> Self {
        Limit {
            settings: Settings {
                name,
                rate,
                in_flight: None,
                queue: None,
                by: Arc::new(Global),
                exempt: None,
                cost: cost::CostRule::default(),
                charge: Charge::default(),
                shadow: false,
                dialect: Dialect::default(),
                with_decision: false,
                on_denied: None,
            },
        }
    }

    /// Whom it limits; everybody together unless said otherwise.
    #[must_use]
    pub fn by(mut self, key: impl KeyExtractor + 'static) -> Self {
        self.settings.by = Arc::new(key);
        self
    }

    /// Where the state lives, for a limit with a plan of its own; in memory unless said otherwise. A keeper brings
    /// its own store, and keeps it.
    #[must_use]
    pub fn store(self, store: impl Store + 'static) -> Self {
        self.shared_store(Arc::new(store))
    }

    /// The same, with a store that others use too. States do not mix as long as the limits have different names.
    #[must_use]
    pub fn shared_store(mut self, store: Arc<dyn Store>) -> Self {
        if let Some(rate) = &mut self.settings.rate
            && rate.own.is_some()
            && let PlanOf::Fixed(name) = &rate.plan
            && let Some(plan) = rate.keeper.plans().find(name.as_str())
        {
            rate.keeper = Keeper::from_arcs(store, Arc::new(Single::from(plan)));
        }
        self
    }

    /// The same limit by another plan of the same keeper, for one route of many.
    #[must_use]
    pub fn plan(&self, name: &str) -> Self {
        let mut limit = self.clone();
        let name: Name = name.parse().unwrap_or_else(|error| panic!("{error}"));
        if let Some(rate) = &mut limit.settings.rate {
            rate.plan = PlanOf::Fixed(name.clone());
            rate.own = None;
        }
        limit.settings.name = name;
        limit
    }

    /// The plan of each request, of those that the keeper has: tiers.
    ///
    /// ```
    /// use ratekeeper::{Keeper, MemoryStore, Plan, Registry};
    /// use ratekeeper_http::Limit;
    /// #[derive(Clone)]
    /// struct Tier(&'static str);
    /// let plans = Registry::new([Plan::parse("free", "10/m")?, Plan::parse("gold", "1000/m")?]);
    /// let limit = Limit::over(Keeper::new(MemoryStore::default(), plans), "free")
    ///     .plan_for(|request| request.extension::<Tier>().map_or("free", |tier| tier.0).into());
    /// # let _ = limit;
    /// # Ok::<(), ratekeeper::PlanError>(())
    /// ```
    #[must_use]
    pub fn plan_for(
        mut self,
        pick: impl for<'a> Fn(&RequestView<'a>) -> Cow<'a, str> + Send + Sync + 'static,
    ) -> Self {
        if let Some(rate) = &mut self.settings.rate {
            rate.plan = PlanOf::Picked(Arc::new(pick));
            rate.own = None;
        }
        self
    }

    /// Lets the requests of which this is true pass unlimited: health checks, static files. It is asked before
    /// anything else: no key is extracted, nothing is counted, and the response says nothing of a limit.
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

    /// What each request costs, told by a function of the request. One unless said otherwise; zero asks without
    /// taking. For a cost that is the same for all see [`fixed_cost`](Limit::fixed_cost).
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
        self.settings.cost = cost::CostRule::Of(Arc::new(cost));
        self
    }

    /// What every request costs; one unless said otherwise. A [`Gate`](crate::Gate), which sees no requests, takes this
    /// too.
    ///
    /// ```
    /// use ratekeeper_http::Limit;
    /// let five = Limit::new("search", "100/m".parse()?).fixed_cost(5);
    /// # let _ = five;
    /// # Ok::<(), ratekeeper::PlanError>(())
    /// ```
    #[must_use]
    pub fn fixed_cost(mut self, cost: impl Into<Cost>) -> Self {
        self.settings.cost = cost::CostRule::Fixed(cost.into());
        self
    }

    /// At most so many in flight at once for each key, each until its response's body has ended. Besides the rate.
    ///
    /// A connection that is upgraded (a websocket, a tunnel) is in flight until it is closed, by either side. That is
    /// known of every upgrade by hyper, under axum or without; the connection that the handler gets is then not
    /// [downcast](https://docs.rs/hyper/1/hyper/upgrade/struct.Upgraded.html#method.downcast) to the socket. Of upgrades
    /// by other servers, and without the feature `upgrades`, nothing is known once the body of the answer was dropped.
    #[must_use]
    pub fn in_flight(mut self, limit: u64) -> Self {
        let queue = self.settings.queue.as_ref().map_or(0, |queue| queue.lines.bound() + 1);
        let told = Arc::new(Told::concurrent(&self.settings.name, limit));
        self.settings.in_flight =
            Some(InFlight { turnstiles: Arc::new(Turnstiles::new(limit, queue)), told });
        self
    }

    /// Whoever has to wait no longer than `wait` waits, first come, first served, instead of being refused; at most
    /// `places` for each key. Who would have to wait longer is refused at once, and so is whoever finds no place;
    /// `Retry-After` then says when the queue is expected to have passed.
    #[must_use]
    pub fn queue(mut self, places: usize, wait: Duration) -> Self {
        // The first in line waits for the store, the others for the first.
        let behind = places.saturating_sub(1);
        self.settings.queue =
            (places > 0).then(|| Queue { lines: Arc::new(Turnstiles::new(1, behind)), wait });
        if let Some(in_flight) = &mut self.settings.in_flight {
            in_flight.turnstiles = Arc::new(Turnstiles::new(in_flight.turnstiles.limit(), places));
        }
        self
    }

    /// Which requests are charged in the end; all unless said otherwise.
    #[must_use]
    pub fn charge(mut self, charge: Charge) -> Self {
        self.settings.charge = charge;
        self
    }

    /// Counts, and refuses nobody: to try a limit out. Clients are told nothing; [`on_denied`](Limit::on_denied)
    /// hears of those who would have been refused.
    #[must_use]
    pub fn shadow(mut self) -> Self {
        self.settings.shadow = true;
        self
    }

    /// Which header fields tell clients where they stand.
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.settings.dialect = dialect;
        self
    }

    /// Hears of every refusal, and may change the response. A panic in it changes nothing.
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

    /// Puts the decision into the request's extensions, as a [`LimitDecision`], for the handler.
    #[must_use]
    pub fn with_decision(mut self) -> Self {
        self.settings.with_decision = true;
        self
    }
}

/// A plan of one rule, which has the plan's name.
#[expect(clippy::expect_used, reason = "a plan of one valid rule cannot be refused")]
fn sole_rule(name: Name, quota: Quota) -> Plan {
    Plan::new(name.clone(), [(name, quota)]).expect("one rule, not of permits")
}

/// How many at once, if this is a rule of that kind; with or without a name.
fn permits(rule: &str) -> Option<u64> {
    let quota: Quota = rule.rsplit('=').next()?.parse().ok()?;
    (quota.algorithm() == Algorithm::Concurrency).then(|| quota.burst())
}

impl fmt::Debug for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Limit");
        debug.field("name", &self.settings.name).field("by", &self.settings.by).finish_non_exhaustive()
    }
}
