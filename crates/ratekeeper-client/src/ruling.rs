//! What a server decided on plans and holds.

use std::time::Duration;

use crate::hold_id::RemoteHoldId;

/// A server's decision on a request by the names of plans. A denial is a decision, not an error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoteRuling {
    /// True if the request may pass; of a debit, true if one more of every unit would.
    pub allowed: bool,
    /// The capacity of the rule that binds.
    pub limit: u64,
    /// The least that is left under all rules.
    pub remaining: u64,
    /// The time until the same request would pass, rounded up to milliseconds: zero if it did, `None` if it never will, or if
    /// nobody knows when a place is free.
    pub retry_after: Option<Duration>,
    /// The time until everything is whole again, rounded up to milliseconds.
    pub reset_after: Duration,
    /// The plan of the rule that binds.
    pub plan: Option<String>,
    /// The rule that binds.
    pub rule: Option<String>,
    /// Why it was decided so, for instance `within_quota`, `quota_exceeded`, `at_capacity`, `never_fits`, `fail_open`.
    pub reason: String,
    /// What each rule says by itself, if that was [asked for](crate::PlanRequest::each).
    pub rules: Vec<RemoteRule>,
}

/// What one rule says by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoteRule {
    /// Its plan.
    pub plan: String,
    /// Its name.
    pub rule: String,
    /// What it counts.
    pub unit: String,
    /// True if it allows the request.
    pub allowed: bool,
    /// Its capacity.
    pub limit: u64,
    /// What is left of it.
    pub remaining: u64,
    /// As of [`RemoteRuling`].
    pub retry_after: Option<Duration>,
    /// As of [`RemoteRuling`].
    pub reset_after: Duration,
}

/// A server's decision on something to be held.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "what is held takes places until it is ended, or its lease runs out"]
pub struct RemoteHold {
    /// The decision.
    pub ruling: RemoteRuling,
    /// What it is ended by; `None` if it was denied.
    pub id: Option<RemoteHoldId>,
}

/// What has become of a hold, and where its key stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoteOutcome {
    /// What it is now.
    pub state: RemoteHoldState,
    /// The least that is left under all rules; 0 if it is gone.
    pub remaining: u64,
    /// The time until one more of every unit would pass; `None` if that cannot be foreseen, or it is gone.
    pub retry_after: Option<Duration>,
    /// The time until everything is whole again.
    pub reset_after: Duration,
}

/// What a hold is after it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RemoteHoldState {
    /// It was settled, now or before.
    Settled,
    /// It was cancelled, now or before.
    Cancelled,
    /// It is live, with a new lease.
    Extended,
    /// There is no such hold of this key: it has ended, its lease has run out, or it never was. Nothing has changed.
    Gone,
}
