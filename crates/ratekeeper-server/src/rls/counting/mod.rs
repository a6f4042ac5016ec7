//! What the service counts.
//!
//! ```text
//! rule_counts   hits of one rule, and how they are split     series    rules and domains by name, at most so many
//! rls_counts    all of it
//! ```

mod rls_counts;
mod rule_counts;
mod series;

pub(in crate::rls) use rls_counts::CountedHits;
pub use rls_counts::{DomainReading, RlsCounts, RlsReading};
pub use rule_counts::RuleReading;
pub(in crate::rls) use rule_counts::{HitSplit, RuleCounts};
