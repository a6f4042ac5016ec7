//! Plans: named lists of rules that callers are held to.
//!
//! ```text
//! error   why rules cannot make a plan     plan    the plan and its rules
//! rules   those that a request is held to
//! ```

mod error;
mod plan;
mod rules;

pub use error::PlanError;
pub use plan::{Plan, Rule, RuleId};
pub use rules::Rules;
