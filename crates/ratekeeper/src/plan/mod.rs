//! Plans: named lists of rules that callers are held to.
//!
//! ```text
//! error   why rules cannot make a plan     plan     the plan
//! rule    one of its rules                 text     a rule as text
//! rules   those that a request is held to  owned_rules  a copy of them
//! lease   how long tokens are kept ahead   leasing  what that comes to under rules
//! ```

mod error;
mod lease;
mod leasing;
mod owned_rules;
mod plan;
mod rule;
mod rules;
mod text;

pub use error::PlanError;
pub use lease::{Lease, LeaseSettingError};
pub use leasing::{Leasing, NotLeased};
pub use owned_rules::OwnedRules;
pub use plan::{OnLapse, Plan};
pub use rule::{Rule, RuleId};
pub use rules::Rules;
