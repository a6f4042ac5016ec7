//! One request decided: at once if that can be, and otherwise in a future.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ratekeeper::keeper::KeeperError;
use ratekeeper::{Decision, Name, Nanos, Reason, Ruling};
use tokio::time::Instant;

use super::charge_policy::ChargePolicy;
use super::limit_request::LimitRequest;
use super::pending_charge::PendingCharge;
use super::permits::InFlightPermit;
use super::policy_headers::LimitReport;
use super::settings::{InFlightSettings, LimitSettings, PlanSource, RateSettings};
use super::verdict::{Admission, LimitFailure, LimitRefusal, LimitVerdict};
use crate::instant::later;

pub(crate) type Deciding = Pin<Box<dyn Future<Output = LimitVerdict> + Send>>;

impl LimitSettings {
    /// Returns the verdict, if nothing has to be waited for. Otherwise nothing was taken.
    pub(crate) fn decide_now(&self, request: &LimitRequest<'_>) -> Option<LimitVerdict> {
        let key = request.key.as_bytes();
        let mut admission = Admission::default();
        if let Some(in_flight) = &self.in_flight {
            match in_flight.permits.visit(key, 1).try_pass() {
                Some(permit) => admission.hold(in_flight, permit),
                None if self.queue.is_some() => return None,
                None => return Some(self.at_capacity(in_flight, request)),
            }
        }
        let Some(rate) = &self.rate else { return Some(LimitVerdict::Pass(admission)) };
        if let Some(queue) = &self.queue
            && queue.turns.wanted(key).is_some()
        {
            return None;
        }
        // The key was checked to be one.
        let ruling = rate.keeper.acquire(request.key.key().ok()?, &*request.plan, request.cost).now().ok()?;
        match ruling {
            Ok(ruling) if !ruling.allowed && self.queue.is_some() => None,
            Ok(ruling) => Some(self.judge(rate, admission, &ruling, *ruling.decision(), request)),
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
        let queue = self.queue.as_ref().filter(|_| wait);
        let patience = queue.map_or(Duration::ZERO, |queue| queue.wait);
        let deadline = later(Instant::now(), patience);
        let mut admission = Admission::default();
        if let Some(in_flight) = &self.in_flight {
            let visit = in_flight.permits.visit(request.key.as_bytes(), 1);
            match visit.pass(patience).await {
                Ok(permit) => admission.hold(in_flight, permit),
                Err(_) => return Ok(self.at_capacity(in_flight, request)),
            }
        }
        let Some(rate) = &self.rate else { return Ok(LimitVerdict::Pass(admission)) };
        let (ruling, decision) = match &self.queue {
            Some(queue) if wait => rate.ask_in_turn(queue, request, deadline).await?,
            // Who does not wait does not overtake those who do.
            Some(queue) => match queue.turns.wanted(request.key.as_bytes()) {
                Some(ahead) => rate.turn_away(request, ahead).await?,
                None => rate.ask(request).await?,
            },
            None => rate.ask(request).await?,
        };
        Ok(self.judge(rate, admission, &ruling, decision, request))
    }

    /// Returns the verdict of a ruling.
    fn judge(
        &self,
        rate: &RateSettings,
        mut admission: Admission,
        ruling: &Ruling,
        decision: Decision,
        request: &LimitRequest<'_>,
    ) -> LimitVerdict {
        let headers = match (&rate.plan, ruling.plan()) {
            (PlanSource::Own { headers, .. }, _) => Arc::clone(headers),
            (PlanSource::Named { headers, .. } | PlanSource::PerRequest { headers, .. }, Some(plan)) => {
                headers.of(plan)
            }
            // Held to no plan at all: the keeper was set to go on without one that is missing.
            (_, None) => return LimitVerdict::Pass(admission),
        };
        if !decision.allowed {
            let rule = headers.rule(decision.rule).cloned();
            admission.report.rate = Some((headers, decision));
            return self.refuse(admission.report, decision, decision.retry_after, rule, request);
        }
        admission.report.rate = Some((headers, decision));
        if self.charge != ChargePolicy::OnArrival {
            let charge = PendingCharge::of(ruling, &rate.keeper, &request.key, self.charge);
            admission.charge = charge.map(Box::new);
        }
        LimitVerdict::Pass(admission)
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

impl Admission {
    fn hold(&mut self, in_flight: &InFlightSettings, permit: InFlightPermit) {
        let decision = Decision::allow(in_flight.permits.limit(), permit.available(), Nanos::ZERO);
        self.report.in_flight = Some((Arc::clone(&in_flight.headers), decision));
        self.permit = Some(Box::new(permit));
    }
}
