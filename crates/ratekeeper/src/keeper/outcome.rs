//! What a store answers, and what stands in for it.

use crate::port::{Grant, Request};
use crate::{Cost, Decision, Nanos, Reason, Rules};

/// What a store answers, and what stands in for it when it fails.
pub(super) trait Outcome: Sized {
    fn fallback(reason: Reason, request: Request<'_>) -> Self;
    /// The answer to a request that is held to nothing.
    fn unlimited(request: Request<'_>) -> Self;
    fn decision(&self) -> &Decision;
}

impl Outcome for Decision {
    fn fallback(reason: Reason, request: Request<'_>) -> Self {
        let limit = Rules::iter(request.rules).map(|(_, quota)| quota.burst()).min().unwrap_or(0);
        Decision::uninformed(reason == Reason::FailOpen, limit, reason)
    }

    fn unlimited(_: Request<'_>) -> Self {
        Decision::allow(u64::MAX, u64::MAX, Nanos::ZERO)
    }

    fn decision(&self) -> &Decision {
        self
    }
}

impl Outcome for Grant {
    fn fallback(reason: Reason, request: Request<'_>) -> Self {
        let decision = Decision::fallback(reason, request);
        Grant { granted: if decision.allowed { request.cost } else { Cost::PEEK }, decision }
    }

    fn unlimited(request: Request<'_>) -> Self {
        Grant { granted: request.cost, decision: Decision::unlimited(request) }
    }

    fn decision(&self) -> &Decision {
        &self.decision
    }
}
