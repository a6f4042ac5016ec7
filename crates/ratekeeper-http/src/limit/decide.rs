//! One request decided: at once if that can be, and otherwise in a future.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ratekeeper::keeper::KeeperError;
use ratekeeper::{Decision, Name, Nanos, Reason, Ruling};
use tokio::time::Instant;

use super::charge_policy::ChargePolicy;
use super::limit_request::LimitRequest;
use super::permits::InFlightPermit;
use super::policy_headers::LimitReport;
use super::refundable_charge::RefundableCharge;
use super::settings::{InFlightSettings, LimitSettings, PlanSource, RateSettings};
use super::verdict::{AdmittedRequest, LimitFailure, LimitRefusal, LimitVerdict};
use crate::instant::later;

pub(crate) type Deciding = Pin<Box<dyn Future<Output = LimitVerdict> + Send>>;

impl LimitSettings {
    /// Returns the verdict, if nothing has to be waited for. Otherwise nothing was taken. `wait`: whether it may wait for
    /// a turn, so that a refusal is not the last word.
    pub(crate) fn decide_now(&self, request: &LimitRequest<'_>, wait: bool) -> Option<LimitVerdict> {
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
        let attempt = rate.keeper.acquire(request.key.key().ok()?, &*request.plan, request.cost);
        let answer = match queue {
            Some(queue) => attempt.within(queue.wait).places(queue.places).now(),
            None => attempt.now(),
        };
        match answer.ok()? {
            Ok(ruling) => Some(self.judge(rate, admission, &ruling, request)),
            Err(error) => Some(LimitVerdict::Fail(Box::new(LimitFailure::Keeper(error)))),
        }
    }

    /// Returns the verdict, waiting for the store, and for a turn if `wait`.
    pub(crate) fn decide_later(self: &Arc<Self>, request: LimitRequest<'_>, wait: bool) -> Deciding {
        let (settings, request) = (Arc::clone(self), request.into_owned());
        Box::pin(async move {
            settings
                .decide(&request, wait)
                .await
                .unwrap_or_else(|error| LimitVerdict::Fail(Box::new(LimitFailure::Keeper(error))))
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
        let attempt = rate.keeper.acquire(request.key.key()?, &*request.plan, request.cost);
        let ruling = match queue {
            Some(queue) => {
                let left = deadline.saturating_duration_since(Instant::now());
                attempt.within(left).places(queue.places).await?
            }
            None => attempt.await?,
        };
        Ok(self.judge(rate, admission, &ruling, request))
    }

    /// Returns the verdict of a ruling.
    fn judge(
        &self,
        rate: &RateSettings,
        mut admission: AdmittedRequest,
        ruling: &Ruling,
        request: &LimitRequest<'_>,
    ) -> LimitVerdict {
        let decision = *ruling.decision();
        let headers = match (&rate.plan, ruling.plan()) {
            (PlanSource::Own { headers, .. }, _) => Arc::clone(headers),
            (PlanSource::Named { headers, .. } | PlanSource::PerRequest { headers, .. }, Some(plan)) => {
                headers.of(plan)
            }
            // Held to no plan at all: the keeper was set to go on without one that is missing.
            (_, None) => return admission.pass(),
        };
        if !decision.allowed {
            let rule = headers.rule(decision.rule).cloned();
            admission.report.rate = Some((headers, decision));
            return self.refuse(admission.report, decision, decision.retry_after, rule, request);
        }
        admission.report.rate = Some((headers, decision));
        if self.charge != ChargePolicy::OnArrival {
            let charge = RefundableCharge::of(ruling, &rate.keeper, &request.key, self.charge);
            admission.charge = charge.map(Box::new);
        }
        admission.pass()
    }

    /// Returns the refusal of a request while as many are in flight as may be.
    fn at_capacity(&self, in_flight: &InFlightSettings, request: &LimitRequest<'_>) -> LimitVerdict {
        let limit = in_flight.permits.limit();
        let mut decision = Decision::deny(limit, 0, None, Nanos::ZERO);
        decision.reason = Reason::AtCapacity;
        let report = LimitReport { in_flight: Some((Arc::clone(&in_flight.headers), decision)), rate: None };
        let expected = in_flight.permits.expected_wait(request.key.as_bytes());
        self.refuse(report, decision, expected, in_flight.headers.rule(0).cloned(), request)
    }

    fn refuse(
        &self,
        report: LimitReport,
        decision: Decision,
        expected: Option<Nanos>,
        rule: Option<Name>,
        request: &LimitRequest<'_>,
    ) -> LimitVerdict {
        let rule = rule.unwrap_or_else(|| self.name.clone());
        let key = request.key.as_bytes().into();
        LimitVerdict::Refuse(Box::new(LimitRefusal { report, decision, expected, rule, key }))
    }
}

impl AdmittedRequest {
    fn hold(&mut self, in_flight: &InFlightSettings, permit: InFlightPermit) {
        let decision = Decision::allow(in_flight.permits.limit(), permit.available(), Nanos::ZERO);
        self.report.in_flight = Some((Arc::clone(&in_flight.headers), decision));
        self.permit = Some(Box::new(permit));
    }

    fn pass(mut self) -> LimitVerdict {
        if let Some(permit) = &mut self.permit {
            permit.serve();
        }
        LimitVerdict::Pass(self)
    }
}
