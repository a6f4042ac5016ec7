//! The rules behind limits, as header fields tell them.

use std::fmt;
use std::time::Duration;

/// A rule, as servers publish it: `quota` units per `window`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QuotaPolicy {
    /// What the server calls it; drafts before 08 gave it no name.
    pub name: Option<String>,
    /// How much is allowed in a window.
    pub quota: u64,
    /// The window, if the server tells it.
    pub window: Option<Duration>,
    /// The unit that the quota counts in.
    pub unit: QuotaUnit,
    /// Which share of the server's capacity this is about: opaque bytes, often a hash of the caller.
    pub partition_key: Option<Vec<u8>>,
}

impl QuotaPolicy {
    /// Creates a rule that counts requests, without a window.
    pub fn new(name: impl Into<String>, quota: u64) -> Self {
        QuotaPolicy {
            name: Some(name.into()),
            quota,
            window: None,
            unit: QuotaUnit::Requests,
            partition_key: None,
        }
    }

    /// Sets the time that the quota is for.
    #[must_use]
    pub fn window(self, window: Duration) -> Self {
        QuotaPolicy { window: Some(window), ..self }
    }

    /// Sets what is counted, if not requests.
    #[must_use]
    pub fn unit(self, unit: QuotaUnit) -> Self {
        QuotaPolicy { unit, ..self }
    }

    /// Sets the partition that the rule is about.
    #[must_use]
    pub fn partition_key(self, key: impl Into<Vec<u8>>) -> Self {
        QuotaPolicy { partition_key: Some(key.into()), ..self }
    }
}

/// The unit that a [`QuotaPolicy`] counts in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QuotaUnit {
    /// `requests`, and what is meant when nothing is said.
    #[default]
    Requests,
    /// Bytes of message content, written `content-bytes`.
    ContentBytes,
    /// Requests in flight at once, written `concurrent-requests`.
    ConcurrentRequests,
    /// A unit that the draft does not register.
    Other(String),
}

impl QuotaUnit {
    /// Returns the name on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            QuotaUnit::Requests => "requests",
            QuotaUnit::ContentBytes => "content-bytes",
            QuotaUnit::ConcurrentRequests => "concurrent-requests",
            QuotaUnit::Other(unit) => unit,
        }
    }
}

impl From<&str> for QuotaUnit {
    fn from(name: &str) -> Self {
        match name {
            "requests" => QuotaUnit::Requests,
            "content-bytes" => QuotaUnit::ContentBytes,
            "concurrent-requests" => QuotaUnit::ConcurrentRequests,
            other => QuotaUnit::Other(other.to_owned()),
        }
    }
}

impl fmt::Display for QuotaUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
