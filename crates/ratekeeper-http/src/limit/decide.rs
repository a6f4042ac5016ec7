//! One request decided: at once if that can be, and otherwise in a future.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ratekeeper::keeper::{Hold, KeeperError};
use ratekeeper::port::{Answer, Request};
use ratekeeper::{Decision, Keeper, Key, Name, Nanos, Plan, Reason, Rules, Ruling};
use tokio::time::Instant;

use super::charge_policy::ChargePolicy;
use super::hold_policy::HoldPolicy;
use super::limit_request::LimitRequest;
use super::permits::InFlightPermit;
use super::policy_headers::{LimitReport, PolicyHeaders};
use super::refundable_charge::RefundableCharge;
use super::request_hold::RequestHold;
use super::settings::{InFlightSettings, LimitSettings, PlanSource, QueueSettings, RateSettings};
use super::verdict::{AdmittedRequest, LimitFailure, LimitRefusal, LimitVerdict};
use crate::instant::later;

/// When whoever found no place in flight is told to come back.
const PLACE_WAIT: Nanos = Nanos::from_secs(1);

pub(crate) type Deciding = Pin<Box<dyn Future<Output = LimitVerdict> + Send>>;

impl LimitSettings {
    /// Returns the verdict, if nothing has to be waited for. Otherwise nothing was taken. `wait`: whether it may wait for
    /// a turn, so that a refusal is not the last word.
    #[inline]
    pub(crate) fn decide_now(&self, request: &LimitRequest<'_>, wait: bool) -> Option<LimitVerdict> {
        match &self.rate {
            Some(RateSettings { keeper, plan: PlanSource::Own { plan, headers } })
                if self.metering.is_none()
                    && self.in_flight.is_none()
                    && self.queue.is_none()
                    && self.charge == ChargePolicy::OnArrival =>
            {
                self.decide_by(keeper, plan, headers, request)
            }
            _ => self.decide_fully(request, wait),
        }
    }

    /// Decides by the limit's own plan, and by nothing else: the common case. Nobody keeps the plan, so it is not looked up
    /// by name, and nobody counts one more owner of it.
    fn decide_by(
        &self,
        keeper: &Keeper,
        plan: &Plan,
        headers: &Arc<PolicyHeaders>,
        request: &LimitRequest<'_>,
    ) -> Option<LimitVerdict> {
        // The key was checked to be one.
        let asked = Request::new(request.key.key().ok()?, Rules::Plan(plan), request.amounts.cost());
        Some(match keeper.acquire_resolved(asked).now().ok()? {
            Ok(decision) if decision.allowed => {
                let rate = self.reports().then(|| LimitReport::of(decision, headers));
                LimitVerdict::Pass(AdmittedRequest { rate, held: None })
            }
            Ok(decision) => self.refuse_by(LimitReport::of(decision, headers), None, request),
            Err(error) => LimitVerdict::failed(KeeperError::Store(error)),
        })
    }

    /// Decides at once, whatever the limit consists of.
    fn decide_fully(&self, request: &LimitRequest<'_>, wait: bool) -> Option<LimitVerdict> {
        let queue = self.queue.filter(|_| wait);
        let mut admission = AdmittedRequest::default();
        if let Some(in_flight) = &self.in_flight {
            match in_flight.permits.visit(request.key.as_bytes()).try_pass() {
                Some(permit) => admission.hold(in_flight, permit),
                None if queue.is_some() => return None,
                None => return Some(self.at_capacity(in_flight, request)),
            }
        }
        let Some(rate) = &self.rate else { return Some(admission.pass()) };
        // The key was checked to be one.
        let key = request.key.key().ok()?;
        let verdict = if let Some(policy) = self.hold() {
            let held = rate.hold(key, request, policy, queue).now().ok()?;
            held.map(|hold| self.held(rate, admission, hold, policy, request))
        } else {
            let acquired = rate.acquire(key, request, queue).now().ok()?;
            acquired.map(|ruling| self.judge(rate, admission, &ruling, request))
        };
        Some(verdict.unwrap_or_else(LimitVerdict::failed))
    }

    /// Returns the verdict, waiting for the store, and for a turn if `wait`.
    pub(crate) fn decide_later(self: &Arc<Self>, request: LimitRequest<'_>, wait: bool) -> Deciding {
        let (settings, key, plan) = (Arc::clone(self), request.key.clone(), request.plan.into_owned());
        let amounts = request.amounts;
        Box::pin(async move {
            let request = LimitRequest { key: &key, plan: plan.into(), amounts };
            settings.decide(&request, wait).await.unwrap_or_else(LimitVerdict::failed)
        })
    }

    async fn decide(&self, request: &LimitRequest<'_>, wait: bool) -> Result<LimitVerdict, KeeperError> {
        let queue = self.queue.filter(|_| wait);
        let patience = queue.map_or(Duration::ZERO, |queue| queue.wait);
        let deadline = later(Instant::now(), patience);
        let mut admission = AdmittedRequest::default();
        if let Some(in_flight) = &self.in_flight {
            let visit = in_flight.permits.visit(request.key.as_bytes());
            match visit.pass(patience).await {
                Ok(permit) => admission.hold(in_flight, permit),
                Err(_) => return Ok(self.at_capacity(in_flight, request)),
            }
        }
        let Some(rate) = &self.rate else { return Ok(admission.pass()) };
        let key = request.key.key()?;
        let left = deadline.saturating_duration_since(Instant::now());
        let queue = queue.map(|queue| QueueSettings { wait: left, ..queue });
        Ok(if let Some(policy) = self.hold() {
            let hold = rate.hold(key, request, policy, queue).await?;
            self.held(rate, admission, hold, policy, request)
        } else {
            let ruling = rate.acquire(key, request, queue).await?;
            self.judge(rate, admission, &ruling, request)
        })
    }

    /// Returns how estimates are held, if they are.
    fn hold(&self) -> Option<&Arc<HoldPolicy>> {
        self.metering.as_ref()?.hold.as_ref()
    }

    /// Returns the verdict of one who asked to hold an estimate.
    fn held(
        &self,
        rate: &RateSettings,
        admission: AdmittedRequest,
        hold: Hold,
        policy: &Arc<HoldPolicy>,
        request: &LimitRequest<'_>,
    ) -> LimitVerdict {
        let mut verdict = self.judge(rate, admission, hold.ruling(), request);
        if let LimitVerdict::Pass(admission) = &mut verdict {
            let hold = RequestHold::new(hold, &rate.keeper, request.key, policy);
            admission.held.get_or_insert_default().hold = Some(hold);
        }
        verdict
    }

    /// Returns the verdict of a ruling.
    fn judge(
        &self,
        rate: &RateSettings,
        mut admission: AdmittedRequest,
        ruling: &Ruling,
        request: &LimitRequest<'_>,
    ) -> LimitVerdict {
        // Held to no plan at all: the keeper was set to go on without one that is missing.
        let Some(plan) = ruling.plan() else { return admission.pass() };
        let (decision, headers) = (*ruling.decision(), rate.plan.headers(plan));
        // A plan with rules in shadow is told of each, too, and its fields are as without them.
        let tells_each = self.hold().is_some() || headers.counts_units();
        let each = || ruling.each().filter(|_| tells_each).map(|(_, _, decision)| *decision).collect();
        if !decision.allowed {
            // What it holds comes back when the refusal is made, not when it is sent.
            let in_flight = admission.held.and_then(|held| held.in_flight);
            return self.refuse_by(LimitReport { decision, each: each(), headers }, in_flight, request);
        }
        if self.hold().is_none()
            && self.charge != ChargePolicy::OnArrival
            && let Some(charge) =
                RefundableCharge::of(ruling, &rate.keeper, request.key, &request.amounts, self.charge)
        {
            admission.held.get_or_insert_default().charge = Some(charge);
        }
        if self.reports() {
            admission.rate = Some(LimitReport { decision, each: each(), headers });
        }
        admission.pass()
    }

    /// Returns the refusal of a request by its rate.
    #[cold]
    fn refuse_by(
        &self,
        rate: LimitReport,
        in_flight: Option<LimitReport>,
        request: &LimitRequest<'_>,
    ) -> LimitVerdict {
        let (decision, rule) = (rate.decision, rate.rule().cloned());
        let expected = match decision.reason {
            // When a place is free cannot be foreseen, and has nothing to do with when the rates are whole again.
            Reason::AtCapacity => Some(PLACE_WAIT),
            _ => decision.retry_after,
        };
        self.refuse(Some(rate), in_flight, decision, expected, rule, request)
    }

    /// Returns the refusal of a request while as many are in flight as may be.
    fn at_capacity(&self, in_flight: &InFlightSettings, request: &LimitRequest<'_>) -> LimitVerdict {
        let limit = in_flight.permits.limit();
        let mut decision = Decision::deny(limit, 0, None, Nanos::ZERO);
        decision.reason = Reason::AtCapacity;
        let report = LimitReport::of(decision, &in_flight.headers);
        let expected = in_flight.permits.expected_wait(request.key.as_bytes());
        let rule = report.rule().cloned();
        self.refuse(None, Some(report), decision, expected, rule, request)
    }

    fn refuse(
        &self,
        rate: Option<LimitReport>,
        in_flight: Option<LimitReport>,
        decision: Decision,
        expected: Option<Nanos>,
        rule: Option<Name>,
        request: &LimitRequest<'_>,
    ) -> LimitVerdict {
        let rule = rule.unwrap_or_else(|| self.name.clone());
        let key = request.key.as_bytes().into();
        LimitVerdict::Refuse(Box::new(LimitRefusal { rate, in_flight, decision, expected, rule, key }))
    }
}

impl RateSettings {
    /// Takes what a request takes; in turn, if there is a queue.
    fn acquire<'a>(
        &'a self,
        key: Key<'a>,
        request: &'a LimitRequest<'_>,
        queue: Option<QueueSettings>,
    ) -> Answer<'a, Ruling, KeeperError> {
        let attempt = self.keeper.acquire(key, &*request.plan, request.amounts.as_amounts());
        let asked = match queue {
            Some(QueueSettings { places, wait }) => attempt.within(wait).places(places).now(),
            None => attempt.now(),
        };
        asked.map_or_else(|later| later, Answer::ready)
    }

    /// Holds what a request is estimated to take; in turn, if there is a queue.
    fn hold<'a>(
        &'a self,
        key: Key<'a>,
        request: &'a LimitRequest<'_>,
        policy: &HoldPolicy,
        queue: Option<QueueSettings>,
    ) -> Answer<'a, Hold, KeeperError> {
        let attempt = self.keeper.hold(key, &*request.plan, request.amounts.as_amounts());
        let attempt = attempt.lease(policy.lease_time());
        let asked = match queue {
            Some(QueueSettings { places, wait }) => attempt.within(wait).places(places).now(),
            None => attempt.now(),
        };
        asked.map_or_else(|later| later, Answer::ready)
    }
}

impl AdmittedRequest {
    fn hold(&mut self, in_flight: &InFlightSettings, permit: InFlightPermit) {
        let decision = Decision::allow(in_flight.permits.limit(), permit.available(), Nanos::ZERO);
        let held = self.held.get_or_insert_default();
        held.in_flight = Some(LimitReport::of(decision, &in_flight.headers));
        held.permit = Some(permit);
    }

    fn pass(mut self) -> LimitVerdict {
        if let Some(held) = &mut self.held
            && let Some(permit) = &mut held.permit
        {
            permit.serve();
        }
        LimitVerdict::Pass(self)
    }
}

impl LimitVerdict {
    #[cold]
    fn failed(error: KeeperError) -> Self {
        LimitVerdict::Fail(Box::new(LimitFailure::Keeper(error)))
    }
}
