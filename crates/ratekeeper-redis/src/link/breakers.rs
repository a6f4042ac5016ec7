//! A breaker for each server: one that fails is left alone, and nobody else is.

use std::sync::Arc;

use ratekeeper::port::Observer;
use ratekeeper::store::{Breaker, BreakerChange, BreakerSettings, BreakerState};

/// Makes the breaker of each server as it becomes known.
#[derive(Clone, Debug)]
pub(crate) struct Breakers {
    /// None for no breakers at all.
    pub(crate) settings: Option<BreakerSettings>,
    /// Who is told of the changes of every breaker.
    pub(crate) observers: Vec<Arc<dyn Observer>>,
}

impl Default for Breakers {
    fn default() -> Self {
        Breakers { settings: Some(BreakerSettings::default()), observers: Vec::new() }
    }
}

impl Breakers {
    /// A breaker before what has this name.
    pub(super) fn before(&self, name: &str) -> Option<Arc<Breaker>> {
        let breaker = Breaker::new(self.settings?).named(name).observer(Arc::new(Log));
        Some(Arc::new(self.observers.iter().cloned().fold(breaker, Breaker::observer)))
    }
}

/// Logs the changes of a breaker, once each.
#[derive(Debug)]
struct Log;

impl Observer for Log {
    fn breaker_changed(&self, change: &BreakerChange) {
        let node = &*change.name;
        match (change.to, &change.cause) {
            (BreakerState::Open, Some(error)) => {
                let (from, reason) = (change.from.as_str(), error.reason());
                tracing::warn!(%node, from, reason, %error, "breaker opened: the node fails and is left alone");
            }
            (BreakerState::Open, None) => {
                tracing::warn!(%node, "breaker opened: the node fails and is left alone");
            }
            (BreakerState::HalfOpen, _) => {
                tracing::debug!(%node, "breaker half-open: one request finds out whether the node is back");
            }
            (BreakerState::Closed, _) => tracing::info!(%node, "breaker closed: the node is back"),
        }
    }
}
