//! A decision, for the handler of its request.

use ratekeeper::{Decision, Name};

/// The decision on a request, in its extensions; see [`Limit::with_decision`](super::Limit::with_decision). In axum it
/// is an extractor.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LimitDecision {
    /// The decision. In shadow mode it may be a denial.
    pub decision: Decision,
    /// The name of the limit.
    pub limit: Name,
    /// The name of the rule that bound the decision.
    pub rule: Name,
}
