//! The breaker of each server: while one server fails it is not asked, and all others are.

use std::sync::Arc;

use ratekeeper::port::Observer;
use ratekeeper::store::{Breaker, BreakerChange, BreakerSettings, BreakerState};

/// Makes the breaker of each server as it becomes known.
#[derive(Clone, Debug)]
pub(crate) struct BreakerFactory {
    /// The settings of every breaker; none to have no breakers at all.
    pub(crate) settings: Option<BreakerSettings>,
    /// Called at every change of every breaker.
    pub(crate) observers: Vec<Arc<dyn Observer>>,
}

impl Default for BreakerFactory {
    fn default() -> Self {
        BreakerFactory { settings: Some(BreakerSettings::default()), observers: Vec::new() }
    }
}

impl BreakerFactory {
    /// Returns the breaker of what has this name.
    pub(super) fn make(&self, name: &str) -> Option<Arc<Breaker>> {
        let breaker = Breaker::new(self.settings?).named(name).observer(Arc::new(BreakerLog));
        Some(Arc::new(self.observers.iter().cloned().fold(breaker, Breaker::observer)))
    }
}

/// Logs each change of a breaker, once.
#[derive(Debug)]
struct BreakerLog;

impl Observer for BreakerLog {
    fn breaker_changed(&self, change: &BreakerChange) {
        let node = &*change.name;
        match (change.to, &change.cause) {
            (BreakerState::Open, Some(error)) => {
                let (from, reason) = (change.from.as_str(), error.reason());
                tracing::warn!(%node, from, reason, %error, "breaker opened: the node fails and is not asked");
            }
            (BreakerState::Open, None) => {
                tracing::warn!(%node, "breaker opened: the node fails and is not asked");
            }
            (BreakerState::HalfOpen, _) => {
                tracing::debug!(%node, "breaker half-open: one request probes the node");
            }
            (BreakerState::Closed, _) => tracing::info!(%node, "breaker closed: the node answers again"),
        }
    }
}
