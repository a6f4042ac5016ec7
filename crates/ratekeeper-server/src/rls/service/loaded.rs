//! A configuration in force.

use std::sync::Arc;

use crate::rls::counting::CountedHits;
use crate::rls::matching::RateLimitConfig;

/// A configuration, and the counters of its rules.
#[derive(Debug)]
pub(super) struct LoadedConfig {
    pub(super) config: Arc<RateLimitConfig>,
    pub(super) counts: CountedHits,
}

impl LoadedConfig {
    /// Returns the configuration with counters that go on where those of the one before were.
    pub(super) fn after(before: Option<&LoadedConfig>, config: RateLimitConfig) -> Self {
        let counts = CountedHits::new(&config, before.map(LoadedConfig::parts));
        LoadedConfig { config: Arc::new(config), counts }
    }

    /// Returns both.
    pub(super) fn parts(&self) -> (&RateLimitConfig, &CountedHits) {
        (&self.config, &self.counts)
    }
}
