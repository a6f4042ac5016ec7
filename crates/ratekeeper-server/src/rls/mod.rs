//! In place of envoyproxy/ratelimit: descriptors find rules, rules become charges, and the keeper judges them.
//!
//! - [`RlsRequest`], [`RlsAnswer`]: what is asked and told, whichever wire carries it
//! - [`RateLimitConfig`]: all rules, and which of them a descriptor finds; [`DomainSpec`]: what it is made of
//! - [`LimitRule`]: one rule of a configuration; [`LimitUnit`]: its unit
//! - [`RateLimitService`]: answers; [`RlsReading`]: what it has counted
//! - [`watch_sources`]: has the service follow its files
//! - [`RlsSettings`]: how the service is set

mod answer;
mod asked;
mod compile;
mod counting;
mod error;
#[cfg(any(test, fuzzing))]
mod exercise;
mod finding;
mod json;
mod listing;
mod matching;
mod reload;
mod rule;
mod service;
mod source;
mod spec;
mod unit;
mod yaml;

pub use answer::{CurrentLimit, DescriptorStatus, RlsAnswer, RlsCode};
pub use asked::{RlsDescriptor, RlsEntry, RlsOverride, RlsRequest};
pub use counting::{DomainReading, RlsCounts, RlsReading, RuleReading};
pub use error::{RlsError, RlsErrorKind};
#[cfg(any(test, fuzzing))]
pub(crate) use exercise::exercise;
pub use finding::{RlsFinding, RlsRefusal};
pub use json::{RlsJsonError, read_json, write_json};
pub use matching::{
    ExplainedLevel, ExplainedRule, Explanation, Found, FoundRule, NamedPlan, RateLimitConfig, SharedLevels,
    StatName, write_counter_key, write_envoyproxy_key, write_override_stat,
};
pub use reload::watch_sources;
pub use rule::{LimitPlan, LimitRule, Limited, RuleLimit, ToldLimit, usual_over};
pub use service::RateLimitService;
pub use source::{SourceFingerprint, SourceTexts, parse_sources, read_sources};
pub use spec::{DescriptorSpec, DomainSpec, LimitSpec, Placed};
pub use unit::LimitUnit;

pub use crate::settings::{RedisLayout, RlsFileNames, RlsHeaders, RlsSettings, XdsSettings, XdsTls};
