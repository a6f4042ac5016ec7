//! What one second or one minute counts.

use serde::Serialize;

use crate::watch::{PlanRuleReading, TimesReading, part_of};

/// Answers, by what they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct TrafficCounts {
    /// Requests that were allowed, those included that `would_deny` and `failed_open` count.
    pub(super) allowed: u64,
    /// Requests that were denied, those included that `failed_closed` counts.
    pub(super) denied: u64,
    /// Requests that were allowed, and that a rule in shadow would have denied.
    pub(super) would_deny: u64,
    /// Requests that were allowed because the store failed.
    pub(super) failed_open: u64,
    /// Requests that were denied because the store failed.
    pub(super) failed_closed: u64,
    /// Requests that could not be decided.
    pub(super) errors: u64,
    /// Failures of the store.
    pub(super) store_errors: u64,
}

impl TrafficCounts {
    /// Returns what was counted since another reading of the same counters.
    pub(super) fn since(&self, before: &Self) -> Self {
        TrafficCounts {
            allowed: self.allowed.saturating_sub(before.allowed),
            denied: self.denied.saturating_sub(before.denied),
            would_deny: self.would_deny.saturating_sub(before.would_deny),
            failed_open: self.failed_open.saturating_sub(before.failed_open),
            failed_closed: self.failed_closed.saturating_sub(before.failed_closed),
            errors: self.errors.saturating_sub(before.errors),
            store_errors: self.store_errors.saturating_sub(before.store_errors),
        }
    }

    /// Returns one of `of` parts that add up to this.
    fn part(&self, index: u64, of: u64) -> Self {
        let part = |count| part_of(count, index, of);
        TrafficCounts {
            allowed: part(self.allowed),
            denied: part(self.denied),
            would_deny: part(self.would_deny),
            failed_open: part(self.failed_open),
            failed_closed: part(self.failed_closed),
            errors: part(self.errors),
            store_errors: part(self.store_errors),
        }
    }

    /// Adds other counts to these.
    pub(super) fn add(&mut self, other: &Self) {
        self.allowed += other.allowed;
        self.denied += other.denied;
        self.would_deny += other.would_deny;
        self.failed_open += other.failed_open;
        self.failed_closed += other.failed_closed;
        self.errors += other.errors;
        self.store_errors += other.store_errors;
    }
}

/// One point of the history of the whole server.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ServerPoint {
    /// Answers.
    pub(super) traffic: TrafficCounts,
    /// How long decisions took.
    pub(super) times: TimesReading,
    /// States in the store in memory at the end; none for another store.
    pub(super) keys: Option<u64>,
    /// Bytes of the store in memory at the end; none for another store.
    pub(super) bytes: Option<u64>,
}

impl ServerPoint {
    /// Returns one of `of` parts that add up to this.
    pub(super) fn part(&self, index: u64, of: u64) -> Self {
        let (traffic, times) = (self.traffic.part(index, of), self.times.part(index, of));
        ServerPoint { traffic, times, ..*self }
    }

    /// Adds a later point to this one.
    pub(super) fn add(&mut self, later: &Self) {
        self.traffic.add(&later.traffic);
        self.times = self.times.plus(&later.times);
        (self.keys, self.bytes) = (later.keys, later.bytes);
    }
}

/// One point of the history of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct PlanPoint {
    /// Requests that its rules allowed.
    pub(super) allowed: u32,
    /// Requests that its rules denied.
    pub(super) denied: u32,
    /// Requests that were allowed, and that its rules in shadow would have denied.
    pub(super) would_deny: u32,
}

impl PlanPoint {
    /// Returns what was counted between two readings.
    pub(super) fn between(before: &PlanRuleReading, now: &PlanRuleReading) -> Self {
        PlanPoint {
            allowed: narrow(now.allowed.saturating_sub(before.allowed)),
            denied: narrow(now.denied.saturating_sub(before.denied)),
            would_deny: narrow(now.would_deny.saturating_sub(before.would_deny)),
        }
    }
}

/// One point of the history of a transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TransportPoint {
    /// Requests that were allowed.
    pub(super) allowed: u32,
    /// Requests that were denied.
    pub(super) denied: u32,
    /// Requests that could not be decided.
    pub(super) errors: u32,
    /// Connections at the end.
    pub(super) connections: u32,
    /// Connections that were refused because there were too many.
    pub(super) refused: u32,
}

/// What can be a point: later ones are added to it.
pub(super) trait LanePoint: Copy + Default {
    /// Adds a later point to this one.
    fn merge(&mut self, later: &Self);

    /// Returns one of `of` parts that add up to this.
    fn part(&self, index: u64, of: u64) -> Self;
}

impl LanePoint for PlanPoint {
    fn merge(&mut self, later: &Self) {
        self.allowed = self.allowed.saturating_add(later.allowed);
        self.denied = self.denied.saturating_add(later.denied);
        self.would_deny = self.would_deny.saturating_add(later.would_deny);
    }

    fn part(&self, index: u64, of: u64) -> Self {
        let part = |count: u32| narrow(part_of(count.into(), index, of));
        PlanPoint {
            allowed: part(self.allowed),
            denied: part(self.denied),
            would_deny: part(self.would_deny),
        }
    }
}

impl LanePoint for TransportPoint {
    fn merge(&mut self, later: &Self) {
        self.allowed = self.allowed.saturating_add(later.allowed);
        self.denied = self.denied.saturating_add(later.denied);
        self.errors = self.errors.saturating_add(later.errors);
        self.refused = self.refused.saturating_add(later.refused);
        self.connections = later.connections;
    }

    fn part(&self, index: u64, of: u64) -> Self {
        let part = |count: u32| narrow(part_of(count.into(), index, of));
        TransportPoint {
            allowed: part(self.allowed),
            denied: part(self.denied),
            errors: part(self.errors),
            refused: part(self.refused),
            ..*self
        }
    }
}

/// Returns a count in the size of a point: no server counts more in a minute.
pub(super) fn narrow(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
