//! A configuration as it was written, before it is known to be right: what files and xDS have in common.

use std::sync::Arc;

use serde_json::{Map, Value};

/// Something that was written, and the line it stands in, if there are lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed<T> {
    /// What was written.
    pub value: T,
    /// The line, from 1.
    pub line: Option<usize>,
}

impl<T> From<T> for Placed<T> {
    fn from(value: T) -> Self {
        Placed { value, line: None }
    }
}

impl From<&str> for Placed<String> {
    fn from(value: &str) -> Self {
        value.to_owned().into()
    }
}

/// What one file, or one resource of xDS, says of a domain.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DomainSpec {
    /// The name of the file or the resource, for messages.
    pub file: Arc<str>,
    /// The domain.
    pub domain: Placed<String>,
    /// The descriptors at its first level.
    pub descriptors: Vec<DescriptorSpec>,
}

/// A descriptor as it was written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DescriptorSpec {
    /// The line it begins in.
    pub line: Option<usize>,
    /// The key; empty if there is none, which is a mistake.
    pub key: Placed<String>,
    /// The value; empty for any value.
    pub value: Placed<String>,
    /// Its limit.
    pub rate_limit: Option<LimitSpec>,
    /// A limit that is judged beside it and never enforced: its text.
    pub shadow: Option<Placed<String>>,
    /// Whether the limit is judged and charged, and never refuses.
    pub shadow_mode: bool,
    /// Whether the limit refuses only together with all others of its kind.
    pub quota_mode: bool,
    /// Whether every value of a request is part of the name that it is counted under.
    pub detailed_metric: bool,
    /// Whether the value of this level is part of that name.
    pub value_to_metric: bool,
    /// Whether all values that match the pattern share a counter, and where it says so.
    pub share_threshold: Placed<bool>,
    /// What filters are told when it passes.
    pub metadata: Option<Map<String, Value>>,
    /// The descriptors below.
    pub descriptors: Vec<DescriptorSpec>,
}

impl DescriptorSpec {
    /// Returns key and value as they are told: `user_bob`, or `user` without a value.
    pub(in crate::rls) fn composite(&self) -> String {
        match &*self.value.value {
            "" => self.key.value.clone(),
            value => format!("{}_{value}", self.key.value),
        }
    }
}

/// A limit as it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitSpec {
    /// The line it begins in.
    pub line: Option<usize>,
    /// The unit: `minute`.
    pub unit: Option<Placed<String>>,
    /// How many may pass in a unit.
    pub requests_per_unit: Option<Placed<u32>>,
    /// Whether there is no limit.
    pub unlimited: bool,
    /// Its name.
    pub name: Placed<String>,
    /// The names of those that do not count where this one is found.
    pub replaces: Vec<Placed<String>>,
    /// How it is counted: `fixed`, `gcra`, `bucket`, `leaky`, `sliding`, `log`.
    pub algorithm: Option<Placed<String>>,
    /// How much may come at once.
    pub burst: Option<Placed<u64>>,
    /// How many units long a window is.
    pub unit_multiplier: Option<Placed<u64>>,
    /// The time zone whose weeks, months and years are meant.
    pub calendar: Option<Placed<String>>,
    /// The limit as a text, instead of a unit: `10/s burst 20; 250/day fixed grid`.
    pub limit: Option<Placed<String>>,
    /// The name of a plan, instead of a unit.
    pub plan: Option<Placed<String>>,
    /// What is done with hits that are over: `count`, `ignore`.
    pub over: Option<Placed<String>>,
    /// What is answered when the store fails: `error`, `open`, `closed`, `local`.
    pub on_store_error: Option<Placed<String>>,
    /// Whether something in it could not be read, which was told already: then nothing more is said of it.
    pub is_unreadable: bool,
}
