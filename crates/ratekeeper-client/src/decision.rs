//! What a server decided, as the MessagePack wire carries it.

use std::time::Duration;

/// A server's decision about one request. A denial is a decision, not an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteDecision {
    /// True if the request may pass; its cost has been taken then.
    pub allowed: bool,
    /// The most that can be taken at once.
    pub limit: i64,
    /// How much can be taken at once now.
    pub remaining: i64,
    /// The time until the same request would pass, rounded up to seconds: zero if it did, `None` if it never will.
    pub retry_after: Option<Duration>,
    /// The time until `remaining` is `limit` again, rounded up to seconds.
    pub reset_after: Duration,
}
