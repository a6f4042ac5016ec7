//! Plans of one: for limits that need no registry.

use std::sync::Arc;

use ratekeeper::Plan;
use ratekeeper::port::Plans;

/// One plan: no table, no lookup.
#[derive(Debug)]
pub(super) struct Single(Arc<Plan>);

impl Single {
    pub(super) fn new(plan: Plan) -> Self {
        Single(Arc::new(plan))
    }
}

impl From<Arc<Plan>> for Single {
    fn from(plan: Arc<Plan>) -> Self {
        Single(plan)
    }
}

impl Plans for Single {
    fn find(&self, name: &str) -> Option<Arc<Plan>> {
        (self.0.name() == name).then(|| Arc::clone(&self.0))
    }
}
