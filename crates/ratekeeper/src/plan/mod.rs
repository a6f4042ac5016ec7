//! Plans: named lists of rules that callers are held to.
//!
//! ```text
//! error   why a plan cannot be      failure_mode   what it answers when the store fails
//! plan    the plan and its rules    rules          those of one request
//! ```

mod error;
mod failure_mode;
mod plan;
mod rules;

pub use error::PlanError;
pub use failure_mode::FailureMode;
pub use plan::{Plan, Rule, RuleId};
pub use rules::Rules;
