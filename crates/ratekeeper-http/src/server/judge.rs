//! What follows from a verdict.

use http::{Request, Response};

use super::refusal;
use crate::key::RequestView;
use crate::limit::{
    AdmittedRequest, LimitDecision, LimitFailure, LimitRefusal, LimitSettings, LimitVerdict, MethodKind,
    Upgrade,
};

/// A response that does not come from the service. In a box: responses are large, and few are refusals.
type Refusal = Box<Response<Vec<u8>>>;

/// Returns what follows from a verdict: the request passes, perhaps with the decision, or this is the response.
#[inline(always)]
pub(super) fn judge<B>(
    settings: &LimitSettings,
    verdict: LimitVerdict,
    request: &mut Request<B>,
) -> Result<AdmittedRequest, Refusal> {
    match verdict {
        LimitVerdict::Pass(mut admission) => {
            if settings.with_decision {
                tell_handler(settings, &admission, request);
            }
            if settings.shadow {
                // Responses say nothing of the limit.
                admission.rate = None;
            }
            if let Some(held) = &mut admission.held {
                held.in_flight = held.in_flight.take().filter(|_| !settings.shadow);
                held.method = MethodKind::from(request.method());
                if held.permit.is_some() || held.hold.is_some() {
                    held.upgrade = Upgrade::intercept(request);
                }
            }
            Ok(admission)
        }
        LimitVerdict::Refuse(refusal) => refused(settings, *refusal, request),
        LimitVerdict::Fail(failure) => failed(settings, *failure, request),
    }
}

/// Puts the decision on a request that passes into its extensions.
fn tell_handler<B>(settings: &LimitSettings, admission: &AdmittedRequest, request: &mut Request<B>) {
    let in_flight = admission.held.as_ref().and_then(|held| held.in_flight.as_ref());
    if let Some(report) = admission.rate.as_ref().or(in_flight) {
        let rule = report.rule().unwrap_or(&settings.name).clone();
        let decision = LimitDecision { decision: report.decision, limit: settings.name.clone(), rule };
        request.extensions_mut().insert(decision);
    }
}

#[cold]
fn refused<B>(
    settings: &LimitSettings,
    refusal: LimitRefusal,
    request: &mut Request<B>,
) -> Result<AdmittedRequest, Refusal> {
    let response = refusal::refused(settings, &refusal, RequestView::from(&*request).is_grpc());
    if !settings.shadow {
        return Err(Box::new(response));
    }
    if settings.with_decision {
        let (decision, rule) = (refusal.decision, refusal.rule);
        request.extensions_mut().insert(LimitDecision { decision, limit: settings.name.clone(), rule });
    }
    Ok(AdmittedRequest::default())
}

#[cold]
fn failed<B>(
    settings: &LimitSettings,
    failure: LimitFailure,
    request: &mut Request<B>,
) -> Result<AdmittedRequest, Refusal> {
    let response = refusal::failed(settings, &failure, RequestView::from(&*request).is_grpc());
    match failure {
        // Shadow mode breaks nothing, unless it can never work.
        LimitFailure::Keeper(error) if settings.shadow && error.is_transient() => {
            Ok(AdmittedRequest::default())
        }
        _ => Err(Box::new(response)),
    }
}
