//! What stands in for a store's answer.

use crate::port::{Grant, Request, Standing};
use crate::{Cost, Decision, FailureMode, Nanos, Reason, Rules};

/// What a store answers to a question about a cost, and what stands in for it when it fails.
pub(super) trait Fallback: Sized {
    /// True if it may know what each rule says.
    const TELLS_EACH: bool = false;

    /// Returns what the failure mode answers without asking anybody; none if it asks the local store, or hands over the
    /// error.
    fn instead(mode: FailureMode, request: Request<'_>) -> Option<Self>;

    /// Returns the answer to a request that is held to nothing.
    fn unlimited(request: Request<'_>) -> Self;

    fn decision(&self) -> &Decision;

    /// Returns how much of the cost was taken, if the question was one to take.
    fn granted(&self, cost: Cost) -> Cost;

    /// Returns what each rule says, if that is known.
    fn each(&self) -> &[Decision] {
        &[]
    }
}

impl Fallback for Decision {
    fn instead(mode: FailureMode, request: Request<'_>) -> Option<Self> {
        let reason = match mode {
            FailureMode::Open => Reason::FailOpen,
            FailureMode::Closed => Reason::FailClosed,
            FailureMode::Local | FailureMode::Error => return None,
        };
        let limit = Rules::iter(request.rules).map(|(_, quota)| quota.burst()).min().unwrap_or(0);
        Some(Decision::uninformed(mode == FailureMode::Open, limit, reason))
    }

    fn unlimited(_: Request<'_>) -> Self {
        Decision::allow(u64::MAX, u64::MAX, Nanos::ZERO)
    }

    fn decision(&self) -> &Decision {
        self
    }

    fn granted(&self, cost: Cost) -> Cost {
        if self.allowed { cost } else { Cost::ZERO }
    }
}

impl Fallback for Grant {
    fn instead(mode: FailureMode, request: Request<'_>) -> Option<Self> {
        let decision = Decision::instead(mode, request)?;
        Some(Grant::without_state(decision.granted(request.cost), decision))
    }

    fn unlimited(request: Request<'_>) -> Self {
        Grant::without_state(request.cost, Decision::unlimited(request))
    }

    fn decision(&self) -> &Decision {
        &self.decision
    }

    fn granted(&self, _: Cost) -> Cost {
        self.granted
    }
}

impl Fallback for Standing {
    const TELLS_EACH: bool = true;

    fn instead(mode: FailureMode, request: Request<'_>) -> Option<Self> {
        Decision::instead(mode, request).map(Standing::of)
    }

    fn unlimited(request: Request<'_>) -> Self {
        Standing::of(Decision::unlimited(request))
    }

    fn decision(&self) -> &Decision {
        &self.decision
    }

    fn granted(&self, cost: Cost) -> Cost {
        self.decision.granted(cost)
    }

    fn each(&self) -> &[Decision] {
        &self.each
    }
}
