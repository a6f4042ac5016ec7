//! What follows from a verdict.

use http::{Request, Response};

use super::refusal;
use crate::limit::{
    AdmittedRequest, LimitDecision, LimitFailure, LimitSettings, LimitVerdict, MethodKind, Upgrade,
};

/// Returns what follows from a verdict: the request passes, perhaps with the decision, or this is the response.
pub(super) fn judge<B>(
    settings: &LimitSettings,
    verdict: LimitVerdict,
    is_grpc: bool,
    request: &mut Request<B>,
) -> Result<AdmittedRequest, Box<Response<Vec<u8>>>> {
    let (mut admission, decision) = match verdict {
        LimitVerdict::Pass(admission) => {
            let rate = admission.report.rate.as_ref().or(admission.report.in_flight.as_ref());
            let decision = rate.filter(|_| settings.with_decision).map(|(headers, decision)| {
                let rule = headers.rule(decision.rule).unwrap_or(&settings.name).clone();
                LimitDecision { decision: *decision, limit: settings.name.clone(), rule }
            });
            (admission, decision)
        }
        LimitVerdict::Refuse(refusal) => {
            let response = refusal::refused(settings, &refusal, is_grpc);
            if !settings.shadow {
                return Err(Box::new(response));
            }
            let (decision, rule) = (refusal.decision, refusal.rule);
            let refused = LimitDecision { decision, limit: settings.name.clone(), rule };
            (AdmittedRequest::default(), settings.with_decision.then_some(refused))
        }
        LimitVerdict::Fail(failure) => {
            let response = refusal::failed(settings, &failure, is_grpc);
            // Shadow mode breaks nothing, unless it can never work.
            match *failure {
                LimitFailure::Keeper(error) if settings.shadow && error.is_transient() => {
                    (AdmittedRequest::default(), None)
                }
                _ => return Err(Box::new(response)),
            }
        }
    };
    if let Some(decision) = decision {
        request.extensions_mut().insert(decision);
    }
    admission.method = MethodKind::from(request.method());
    if admission.permit.is_some() {
        admission.upgrade = Upgrade::intercept(request);
    }
    Ok(admission)
}
