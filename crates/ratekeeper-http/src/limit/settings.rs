//! What was set up of a limit.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use ratekeeper::{Keeper, Name, Plan};

use super::charge_policy::ChargePolicy;
use super::cost::CostRule;
use super::denied::Denied;
use super::hold_policy::HoldPolicy;
use super::permits::KeyedPermits;
use super::policy_headers::{PolicyHeaders, PolicyHeadersCache};
use crate::headers::HeaderDialect;
use crate::key::{KeyExtractor, RequestView};
use crate::usage::UnitCosts;

pub(crate) type HttpExtractor = Arc<dyn for<'a> KeyExtractor<RequestView<'a>>>;
pub(crate) type PickPlan = Arc<dyn for<'a> Fn(&RequestView<'a>) -> Cow<'a, str> + Send + Sync>;
pub(crate) type IsExempt = Arc<dyn Fn(&RequestView<'_>) -> bool + Send + Sync>;
pub(crate) type OnDenied = Arc<dyn Fn(&mut Denied<'_>) + Send + Sync>;

/// The settings of a limit. Cheap to clone: what clones share is behind pointers.
#[derive(Clone)]
pub(crate) struct LimitSettings {
    pub(crate) name: Name,
    pub(crate) rate: Option<RateSettings>,
    pub(crate) in_flight: Option<InFlightSettings>,
    pub(crate) queue: Option<QueueSettings>,
    pub(crate) by: HttpExtractor,
    pub(crate) exempt: Option<IsExempt>,
    pub(crate) cost: CostRule,
    /// None of a limit that is known to count requests and to hold nothing: most do, and are decided by a shorter way.
    pub(crate) metering: Option<Arc<MeteringSettings>>,
    pub(crate) charge: ChargePolicy,
    pub(crate) shadow: bool,
    pub(crate) dialect: HeaderDialect,
    pub(crate) with_decision: bool,
    pub(crate) on_denied: Option<OnDenied>,
}

impl LimitSettings {
    /// Returns true if the limit is not for this request.
    pub(crate) fn is_exempt(&self, request: &RequestView<'_>) -> bool {
        self.exempt.as_ref().is_some_and(|is_exempt| is_exempt(request))
    }

    /// Returns true if somebody is told what was decided on a request that passes: its response, or its handler.
    #[inline]
    pub(crate) fn reports(&self) -> bool {
        self.with_decision || (self.dialect != HeaderDialect::None && !self.shadow)
    }

    /// Returns the plan that requests are held to, as far as no request is needed to tell.
    pub(crate) fn fixed_plan(&self) -> &str {
        match self.rate.as_ref().map(|rate| &rate.plan) {
            Some(PlanSource::Own { plan, .. }) => plan.name().as_str(),
            Some(PlanSource::Named { name, .. }) => name.as_str(),
            Some(PlanSource::PerRequest { .. }) | None => self.name.as_str(),
        }
    }

    /// Returns the plan of this name, if there is one.
    pub(crate) fn find(&self, plan: &str) -> Option<Arc<Plan>> {
        match self.rate.as_ref()? {
            RateSettings { plan: PlanSource::Own { plan, .. }, .. } => Some(Arc::clone(plan)),
            RateSettings { keeper, .. } => keeper.plans().find(plan),
        }
    }

    /// Returns the plan that this request is held to.
    pub(crate) fn plan_for<'a>(&'a self, request: &RequestView<'a>) -> Cow<'a, str> {
        match self.rate.as_ref().map(|rate| &rate.plan) {
            Some(PlanSource::PerRequest { pick, .. }) => pick(request),
            _ => Cow::Borrowed(self.fixed_plan()),
        }
    }
}

/// What is counted besides requests, and held while they are served.
#[derive(Clone, Debug, Default)]
pub(crate) struct MeteringSettings {
    pub(crate) costs: UnitCosts,
    /// None if nothing is held.
    pub(crate) hold: Option<Arc<HoldPolicy>>,
}

/// How many per time.
#[derive(Clone)]
pub(crate) struct RateSettings {
    pub(crate) keeper: Keeper,
    pub(crate) plan: PlanSource,
}

/// Where the plan of a request comes from.
#[derive(Clone)]
pub(crate) enum PlanSource {
    /// The limit's own plan, the only one that its keeper has.
    Own { plan: Arc<Plan>, headers: Arc<PolicyHeaders> },
    /// The keeper's plan of this name.
    Named { name: Name, headers: Arc<PolicyHeadersCache> },
    /// The keeper's plan that a function picks.
    PerRequest { pick: PickPlan, headers: Arc<PolicyHeadersCache> },
}

impl PlanSource {
    /// Returns the header fields of a plan that a request was held to.
    pub(crate) fn headers(&self, plan: &Plan) -> Arc<PolicyHeaders> {
        match self {
            PlanSource::Own { headers, .. } => Arc::clone(headers),
            PlanSource::Named { headers, .. } | PlanSource::PerRequest { headers, .. } => headers.of(plan),
        }
    }
}

/// How many at once.
#[derive(Clone)]
pub(crate) struct InFlightSettings {
    pub(crate) permits: Arc<KeyedPermits>,
    pub(crate) headers: Arc<PolicyHeaders>,
}

/// How many of each key may wait, instead of being refused, and for how long.
#[derive(Clone, Copy)]
pub(crate) struct QueueSettings {
    pub(crate) places: usize,
    pub(crate) wait: Duration,
}
