//! One request decided: at once if that can be, and otherwise in a future.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ratekeeper::keeper::{Hold, KeeperError};
use ratekeeper::port::{Answer, Request};
use ratekeeper::{Decision, Keeper, Name, Nanos, Plan, Reason, Rules, Ruling};
use tokio::time::Instant;

use super::charge_policy::ChargePolicy;
use super::hold_policy::HoldPolicy;
use super::limit_request::LimitRequest;
use super::permits::InFlightPermit;
use super::policy_headers::{LimitReport, PolicyHeaders};
use super::refundable_charge::RefundableCharge;
use super::request_hold::RequestHold;
use super::settings::{InFlightSettings, LimitSettings, PlanSource, RateSettings};
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
        let asked = Request::new(request.key.key().ok()?, Rules::Plan(plan), request.cost);
        Some(match keeper.acquire_resolved(asked).now().ok()? {
            Ok(decision) if decision.allowed => {
                let rate = self.report(decision, Box::default(), headers);
                LimitVerdict::Pass(AdmittedRequest { rate, held: None })
            }
            Ok(decision) => {
                let rate = LimitReport { decision, each: Box::default(), headers: Arc::clone(headers) };
                self.refuse_by(rate, None, request)
            }
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
        let taken = if let Some(policy) = self.hold() {
            let attempt = rate.keeper.hold(key, &*request.plan, request.amounts()).lease(policy.lease_time());
            let answer = match queue {
                Some(queue) => attempt.within(queue.wait).places(queue.places).now(),
                None => attempt.now(),
            };
            answer.ok()?.map(|hold| self.held(rate, admission, hold, policy, request))
        } else {
            let attempt = rate.keeper.acquire(key, &*request.plan, request.amounts());
            let answer = match queue {
                Some(queue) => attempt.within(queue.wait).places(queue.places).now(),
                None => attempt.now(),
            };
            answer.ok()?.map(|ruling| self.judge(rate, admission, &ruling, request))
        };
        Some(taken.unwrap_or_else(LimitVerdict::failed))
    }

    /// Returns the verdict, waiting for the store, and for a turn if `wait`.
    pub(crate) fn decide_later(self: &Arc<Self>, request: LimitRequest<'_>, wait: bool) -> Deciding {
        let (settings, key, plan) = (Arc::clone(self), request.key.clone(), request.plan.into_owned());
        let (cost, units) = (request.cost, request.units);
        Box::pin(async move {
            let request = LimitRequest { key: &key, plan: plan.into(), cost, units };
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
        if let Some(policy) = self.hold() {
            let attempt = rate.keeper.hold(key, &*request.plan, request.amounts()).lease(policy.lease_time());
            let hold = match queue {
                Some(queue) => answer(attempt.within(left).places(queue.places).now()).await?,
                None => answer(attempt.now()).await?,
            };
            return Ok(self.held(rate, admission, hold, policy, request));
        }
        let attempt = rate.keeper.acquire(key, &*request.plan, request.amounts());
        let ruling = match queue {
            Some(queue) => answer(attempt.within(left).places(queue.places).now()).await?,
            None => answer(attempt.now()).await?,
        };
        Ok(self.judge(rate, admission, &ruling, request))
    }

    /// Returns how estimates are held, if they are.
    fn hold(&self) -> Option<&Arc<HoldPolicy>> {
        self.metering.as_ref()?.hold.as_ref()
    }

    /// Returns the verdict of one who asked to hold an estimate.
    fn held(
        &self,
        rate: &RateSettings,
        mut admission: AdmittedRequest,
        hold: Hold,
        policy: &Arc<HoldPolicy>,
        request: &LimitRequest<'_>,
    ) -> LimitVerdict {
        let ruling = hold.ruling().clone();
        if ruling.allowed {
            let hold = RequestHold::new(hold, &rate.keeper, request.key, policy);
            admission.held.get_or_insert_default().hold = Some(hold);
        }
        self.judge(rate, admission, &ruling, request)
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
            && let Some(charge) = RefundableCharge::of(ruling, &rate.keeper, request.key, self.charge)
        {
            admission.held.get_or_insert_default().charge = Some(charge);
        }
        if self.reports() {
            admission.rate = Some(LimitReport { decision, each: each(), headers });
        }
        admission.pass()
    }

    /// Returns what is reported of a decision that lets a request pass, if anybody is told.
    #[inline]
    fn report(
        &self,
        decision: Decision,
        each: Box<[Decision]>,
        headers: &Arc<PolicyHeaders>,
    ) -> Option<LimitReport> {
        self.reports().then(|| LimitReport { decision, each, headers: Arc::clone(headers) })
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
        let headers = Arc::clone(&in_flight.headers);
        let report = LimitReport { decision, each: Box::default(), headers };
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

/// Waits for an answer that is not there yet.
async fn answer<T>(
    asked: Result<Result<T, KeeperError>, Answer<'_, T, KeeperError>>,
) -> Result<T, KeeperError> {
    match asked {
        Ok(answer) => answer,
        Err(later) => later.await,
    }
}

impl AdmittedRequest {
    fn hold(&mut self, in_flight: &InFlightSettings, permit: InFlightPermit) {
        let decision = Decision::allow(in_flight.permits.limit(), permit.available(), Nanos::ZERO);
        let held = self.held.get_or_insert_default();
        let headers = Arc::clone(&in_flight.headers);
        held.in_flight = Some(LimitReport { decision, each: Box::default(), headers });
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
