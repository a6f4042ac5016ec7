//! The settings of a breaker.

use crate::Nanos;

/// The settings of a breaker: when it opens, and how long it leaves the store alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    pub(super) failures_in_a_row: u32,
    pub(super) failed_percent: u8,
    pub(super) least_in_window: u32,
    pub(super) window: Nanos,
    pub(super) rest: Nanos,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        BreakerSettings {
            failures_in_a_row: 5,
            failed_percent: 50,
            least_in_window: 20,
            window: Nanos::from_secs(10),
            rest: Nanos::from_secs(1),
        }
    }
}

impl BreakerSettings {
    /// Sets after how many failures with no answer between them the breaker opens: at least 1. Defaults to 5.
    #[must_use]
    pub fn failures_in_a_row(mut self, failures: u32) -> Self {
        self.failures_in_a_row = failures.max(1);
        self
    }

    /// Sets which part of the requests within the window may fail before the breaker opens, `percent` from 1 to 100, if
    /// there were at least `least` of them. Defaults to 50 % of at least 20.
    #[must_use]
    pub fn failed_percent(mut self, percent: u8, least: u32) -> Self {
        self.failed_percent = percent.clamp(1, 100);
        self.least_in_window = least.max(1);
        self
    }

    /// Sets the window over which failures are counted. Defaults to 10 s.
    #[must_use]
    pub fn window(mut self, window: impl Into<Nanos>) -> Self {
        self.window = window.into();
        self
    }

    /// Sets how long the store is left alone before one question probes it. Defaults to 1 s.
    #[must_use]
    pub fn rest(mut self, rest: impl Into<Nanos>) -> Self {
        self.rest = rest.into();
        self
    }
}
