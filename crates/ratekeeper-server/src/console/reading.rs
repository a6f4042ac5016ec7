//! The counters of a server at one instant.

use ratekeeper::store::StoreStatistics;

use super::points::{TrafficCounts, TransportPoint, narrow};
use crate::engine::Engine;
use crate::watch::TimesReading;

/// The counters of a server at one instant, but for those of plans.
#[derive(Clone, Debug, Default)]
pub(super) struct CounterReading {
    /// Answers since the start.
    pub(super) traffic: TrafficCounts,
    /// How long decisions took.
    pub(super) times: TimesReading,
    /// In the order in which they were started.
    pub(super) transports: Vec<TransportCounts>,
    /// Of the store in memory; none for another store.
    pub(super) statistics: Option<StoreStatistics>,
}

/// The counters of one transport since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TransportCounts {
    /// Its name.
    pub(super) transport: &'static str,
    /// Requests that were allowed.
    pub(super) allowed: u64,
    /// Requests that were denied.
    pub(super) denied: u64,
    /// Requests that could not be decided.
    pub(super) errors: u64,
    /// Tokens that were wrong.
    pub(super) auth_failures: u64,
    /// Connections now.
    pub(super) connections: usize,
    /// Connections that were refused because there were too many.
    pub(super) refused: u64,
}

impl CounterReading {
    /// Reads the counters of all event loops.
    pub(super) fn of(engine: &Engine) -> Self {
        let (metrics, plans) = (engine.metrics(), engine.plan_metrics());
        let slots = metrics.slots();
        let answers = plans.failure_total();
        let mut reading = CounterReading {
            statistics: engine.memory().map(|store| store.statistics()),
            ..CounterReading::default()
        };
        for (transport, counted) in metrics.read() {
            reading.traffic.allowed += counted.allowed;
            reading.traffic.denied += counted.denied;
            reading.traffic.errors += counted.errors;
            reading.times = reading.times.plus(&counted.times);
            let own = slots.iter().filter(|(name, _)| *name == transport).map(|(_, slots)| slots);
            reading.transports.push(TransportCounts {
                transport,
                allowed: counted.allowed,
                denied: counted.denied,
                errors: counted.errors,
                auth_failures: counted.auth_failures,
                connections: own.clone().map(|slots| slots.in_use()).sum(),
                refused: own.map(|slots| slots.history().1).sum(),
            });
        }
        reading.traffic.failed_open = answers.open;
        reading.traffic.failed_closed = answers.closed;
        reading.traffic.store_errors = plans.store_errors().iter().map(|(_, count)| count).sum();
        reading
    }
}

impl TransportCounts {
    /// Returns what was counted since an earlier reading.
    pub(super) fn since(&self, before: Option<&Self>) -> TransportPoint {
        let before = before.copied().unwrap_or_default();
        TransportPoint {
            allowed: narrow(self.allowed.saturating_sub(before.allowed)),
            denied: narrow(self.denied.saturating_sub(before.denied)),
            errors: narrow(self.errors.saturating_sub(before.errors)),
            connections: u32::try_from(self.connections).unwrap_or(u32::MAX),
            refused: narrow(self.refused.saturating_sub(before.refused)),
        }
    }
}
