//! What a request costs.

use std::sync::Arc;

use ratekeeper::Cost;

use crate::key::RequestView;

/// What [`Limit::cost`](super::Limit::cost) takes: a number, or a function of the request.
pub trait CostOf {
    #[doc(hidden)]
    fn rule(self) -> CostRule;
}

#[doc(hidden)]
#[derive(Clone)]
pub enum CostRule {
    Fixed(Cost),
    Of(Arc<dyn Fn(&RequestView<'_>) -> u64 + Send + Sync>),
}

impl std::fmt::Debug for CostRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
    /// The cost, if it is the same for all.
    pub(crate) fn fixed(&self) -> Option<Cost> {
        match self {
            CostRule::Fixed(cost) => Some(*cost),
            CostRule::Of(_) => None,
        }
    }

    pub(crate) fn of(&self, request: &RequestView<'_>) -> Cost {
        match self {
            CostRule::Fixed(cost) => *cost,
            CostRule::Of(function) => Cost::new(function(request)),
        }
    }
}

impl CostOf for u64 {
    fn rule(self) -> CostRule {
        CostRule::Fixed(Cost::new(self))
    }
}

/// What a literal is when nothing else is known. A negative one costs nothing.
impl CostOf for i32 {
    fn rule(self) -> CostRule {
        CostRule::Fixed(Cost::new(u64::try_from(self).unwrap_or(0)))
    }
}

impl CostOf for Cost {
    fn rule(self) -> CostRule {
        CostRule::Fixed(self)
    }
}

impl<F: Fn(&RequestView<'_>) -> u64 + Send + Sync + 'static> CostOf for F {
    fn rule(self) -> CostRule {
        CostRule::Of(Arc::new(self))
    }
}
