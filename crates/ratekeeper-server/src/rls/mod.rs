//! In place of envoyproxy/ratelimit: descriptors find rules, rules become charges, and the keeper judges them.
//!
//! - [`RlsRequest`], [`RlsAnswer`]: what is asked and told, whichever wire carries it
//! - [`LimitRule`]: one rule of a configuration; [`LimitUnit`]: its unit
//! - [`RlsSettings`]: how the service is set

mod answer;
mod asked;
mod json;
mod rule;
mod unit;

pub use answer::{CurrentLimit, DescriptorStatus, RlsAnswer, RlsCode};
pub use asked::{RlsDescriptor, RlsEntry, RlsOverride, RlsRequest};
pub use json::{RlsJsonError, read_json, write_json};
pub use rule::{LimitRule, Limited, PlanSource, RuleLimit, ToldLimit};
pub use unit::LimitUnit;

pub use crate::settings::{RedisLayout, RlsFileNames, RlsHeaders, RlsSettings};
