//! The plans of a limit that has one of its own.

use std::sync::Arc;

use ratekeeper::Plan;
use ratekeeper::port::Plans;

/// One plan, found without a table.
#[derive(Debug)]
pub(super) struct SolePlan(pub(super) Arc<Plan>);

impl Plans for SolePlan {
    fn find(&self, name: &str) -> Option<Arc<Plan>> {
        (self.0.name() == name).then(|| Arc::clone(&self.0))
    }
}
