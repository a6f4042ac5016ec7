//! What a response says about its limits, whichever dialect it said it in.

use std::fmt;
use std::time::Duration;

/// Everything one response says about rate limits.
///
/// `Default` is a response that says nothing.
///
/// Durations come from the other side of a network and may be as long as `u64::MAX` seconds. Cap them before
/// adding them to a clock, or use `checked_add`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Where the caller stands, limit by limit; at most [`MAX_ENTRIES`](super::MAX_ENTRIES).
    pub limits: Vec<Limit>,
    /// The rules behind them, as far as they were told; at most [`MAX_ENTRIES`](super::MAX_ENTRIES).
    pub policies: Vec<Policy>,
    /// How long the server asks us to stay away. A moment already past is zero.
    pub retry_after: Option<Duration>,
    /// A cache answered (`Age` above zero): the numbers are old, and nothing should be learnt from them.
    pub cached: bool,
}

impl Limits {
    /// Whether the response said nothing about limits. (Being cached says nothing about limits.)
    pub fn is_empty(&self) -> bool {
        self.limits.is_empty() && self.policies.is_empty() && self.retry_after.is_none()
    }
}

/// Where the caller stands with one limit. At least one of the numbers is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Limit {
    /// What the server calls it; most `X-RateLimit-*` servers do not call it anything.
    pub name: Option<String>,
    /// The quota: how much there is in total.
    pub limit: Option<u64>,
    /// How much is left now.
    pub remaining: Option<u64>,
    /// How long until there is more. A moment already past is zero.
    pub reset: Option<Duration>,
}

impl Limit {
    /// Whether no number is known, so that there is nothing to report.
    pub(crate) fn is_blank(&self) -> bool {
        self.limit.is_none() && self.remaining.is_none() && self.reset.is_none()
    }
}

/// A rule: `quota` units per `window`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// What the server calls it; drafts before 08 gave it no name.
    pub name: Option<String>,
    /// How much is allowed in a window.
    pub quota: u64,
    /// The window, if the server told.
    pub window: Option<Duration>,
    /// What is counted.
    pub unit: Unit,
    /// Which share of the server's capacity this is about: opaque bytes, often a hash of the caller.
    pub partition_key: Option<Vec<u8>>,
}

impl Policy {
    /// A named rule that counts requests, with no window told.
    pub fn new(name: impl Into<String>, quota: u64) -> Self {
        Policy { name: Some(name.into()), quota, window: None, unit: Unit::Requests, partition_key: None }
    }

    /// The same rule, over this window.
    pub fn window(self, window: Duration) -> Self {
        Policy { window: Some(window), ..self }
    }

    /// The same rule, counting something other than requests.
    pub fn unit(self, unit: Unit) -> Self {
        Policy { unit, ..self }
    }

    /// The same rule, about one partition.
    pub fn partition_key(self, key: impl Into<Vec<u8>>) -> Self {
        Policy { partition_key: Some(key.into()), ..self }
    }
}

/// What a quota counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unit {
    /// `requests`, and what is meant when nothing is said.
    #[default]
    Requests,
    /// `content-bytes`.
    ContentBytes,
    /// `concurrent-requests`.
    ConcurrentRequests,
    /// A unit that the draft does not register.
    Other(String),
}

impl Unit {
    /// The name on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Unit::Requests => "requests",
            Unit::ContentBytes => "content-bytes",
            Unit::ConcurrentRequests => "concurrent-requests",
            Unit::Other(unit) => unit,
        }
    }
}

impl From<&str> for Unit {
    fn from(name: &str) -> Self {
        match name {
            "requests" => Unit::Requests,
            "content-bytes" => Unit::ContentBytes,
            "concurrent-requests" => Unit::ConcurrentRequests,
            other => Unit::Other(other.to_owned()),
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
