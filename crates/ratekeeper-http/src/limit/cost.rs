//! What a request costs.

use std::fmt;
use std::sync::Arc;

use ratekeeper::Cost;

use crate::key::RequestView;

/// What a request costs: the same for all, or a function of the request.
#[derive(Clone)]
pub(crate) enum CostRule {
    Fixed(Cost),
    Of(Arc<dyn Fn(&RequestView<'_>) -> u64 + Send + Sync>),
}

impl fmt::Debug for CostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CostRule::Fixed(cost) => write!(f, "{cost}"),
            CostRule::Of(_) => f.write_str("a function"),
        }
    }
}

impl Default for CostRule {
    fn default() -> Self {
        CostRule::Fixed(Cost::ONE)
    }
}

impl CostRule {
    /// Returns the cost, if it is the same for all.
    pub(crate) fn fixed(&self) -> Option<Cost> {
        match self {
            CostRule::Fixed(cost) => Some(*cost),
            CostRule::Of(_) => None,
        }
    }

    /// Returns the cost of this request.
    pub(crate) fn of(&self, request: &RequestView<'_>) -> Cost {
        match self {
            CostRule::Fixed(cost) => *cost,
            CostRule::Of(function) => Cost::new(function(request)),
        }
    }
}
