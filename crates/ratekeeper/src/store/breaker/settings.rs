//! When a breaker opens, and for how long.

use crate::Nanos;

/// When a breaker opens, and for how long it rests.
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
    /// Opens after so many failures with no answer between them; 5 unless said otherwise, at least 1.
    #[must_use]
    pub fn failures_in_a_row(mut self, failures: u32) -> Self {
        self.failures_in_a_row = failures.max(1);
        self
    }

    /// Opens when `percent` (1 to 100) of the questions within the window failed, if there were at least `least` of
    /// them; half of 20 unless said otherwise.
    #[must_use]
    pub fn failed_percent(mut self, percent: u8, least: u32) -> Self {
        self.failed_percent = percent.clamp(1, 100);
        self.least_in_window = least.max(1);
        self
    }

    /// What failures are counted over; 10 s unless said otherwise.
    #[must_use]
    pub fn window(mut self, window: impl Into<Nanos>) -> Self {
        self.window = window.into();
        self
    }

    /// How long the store is left alone before one question probes it; 1 s unless said otherwise.
    #[must_use]
    pub fn rest(mut self, rest: impl Into<Nanos>) -> Self {
        self.rest = rest.into();
        self
    }
}
