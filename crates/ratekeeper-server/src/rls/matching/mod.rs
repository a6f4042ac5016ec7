//! From a descriptor to its rule, its counter and the name it is counted under.
//!
//! ```text
//! pattern       values with `*`                         level    what a configuration has at one level
//! stat_name     what rules are counted under            config   all domains; finds rules
//! counter_key   what counters are kept under            found    what was found
//! explain       why that, or nothing, was found         configured   a rule where it stands
//! ```

mod config;
mod configured;
mod counter_key;
mod explain;
mod found;
mod level;
mod pattern;
mod stat_name;

pub use config::{NamedPlan, RateLimitConfig};
pub(in crate::rls) use configured::{ConfiguredRule, StatDetail};
pub use counter_key::{SharedLevels, write_counter_key, write_envoyproxy_key};
pub use explain::{ExplainedLevel, ExplainedRule, Explanation};
pub use found::{Found, FoundRule};
pub(in crate::rls) use level::{Level, LevelNode};
pub use stat_name::{StatName, write_override_stat};
