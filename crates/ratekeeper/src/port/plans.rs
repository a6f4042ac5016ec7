//! The plans by name.

use std::fmt::Debug;
use std::sync::Arc;

use crate::Plan;

/// Knows the plans by name.
pub trait Plans: Send + Sync + Debug {
    /// Returns the plan of this name. Asked for every request: it must not block.
    fn find(&self, name: &str) -> Option<Arc<Plan>>;
}
