//! What a response says about its limits, whichever dialect it said it in.

use std::time::Duration;

use super::quota_policy::QuotaPolicy;

/// Everything that one response says about rate limits, in whichever dialect. [`client::Pace`](crate::client::Pace)
/// leaves it in the extensions of every response that says anything.
///
/// The default is a response that says nothing.
///
/// Durations come from the other side of a network and may be as long as `u64::MAX` seconds. Cap them before
/// adding them to a clock, or use `checked_add`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerLimits {
    /// What is left, limit by limit; at most [`MAX_ENTRIES`](super::MAX_ENTRIES).
    pub limits: Vec<ServerLimit>,
    /// The rules behind them, as far as the server tells them; at most [`MAX_ENTRIES`](super::MAX_ENTRIES).
    pub policies: Vec<QuotaPolicy>,
    /// How long the server asks us to stay away. A moment already past is zero.
    pub retry_after: Option<Duration>,
    /// A cache answered (`Age` above zero): the numbers are old, and nothing should be learnt from them.
    pub cached: bool,
}

impl ServerLimits {
    /// Returns true if the response says nothing about limits. Having been cached says nothing about limits.
    pub fn is_empty(&self) -> bool {
        self.limits.is_empty() && self.policies.is_empty() && self.retry_after.is_none()
    }
}

/// One limit, as a server reports it: what it grants, what is left. At least one of the numbers is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ServerLimit {
    /// What the server calls it; most `X-RateLimit-*` servers do not call it anything.
    pub name: Option<String>,
    /// The quota: how much there is in total.
    pub limit: Option<u64>,
    /// How much is left now.
    pub remaining: Option<u64>,
    /// How long until there is more. A moment already past is zero.
    pub reset: Option<Duration>,
}

impl ServerLimit {
    /// Returns true if no number is known, so that there is nothing to report.
    pub(crate) fn is_blank(&self) -> bool {
        self.limit.is_none() && self.remaining.is_none() && self.reset.is_none()
    }
}
