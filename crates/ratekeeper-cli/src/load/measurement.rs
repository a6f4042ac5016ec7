//! What is counted while a load runs.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Significant digits of latencies.
const DIGITS: u8 = 3;
/// The longest latency in nanoseconds, one minute: longer ones count as this.
const LONGEST: u64 = 60_000_000_000;

/// How many requests were answered how, and how long that took.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// How many requests were allowed.
    pub allowed: u64,
    /// How many requests were denied.
    pub denied: u64,
    /// How many requests were answered by an error, or not at all.
    pub errors: u64,
    /// How long the measurement took.
    pub elapsed: Duration,
    /// Latencies in nanoseconds.
    latencies: Histogram<u64>,
}

impl Default for Measurement {
    fn default() -> Self {
        // The bounds are constants, and right.
        let latencies = Histogram::new_with_bounds(1, LONGEST, DIGITS);
        let latencies = latencies.unwrap_or_else(|_| unreachable!("constant bounds"));
        Measurement { allowed: 0, denied: 0, errors: 0, elapsed: Duration::ZERO, latencies }
    }
}

/// What a server answered to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoadAnswer {
    Allowed,
    Denied,
    Error,
}

impl Measurement {
    #[inline]
    pub(super) fn count(&mut self, answer: LoadAnswer, latency: Duration) {
        match answer {
            LoadAnswer::Allowed => self.allowed += 1,
            LoadAnswer::Denied => self.denied += 1,
            LoadAnswer::Error => self.errors += 1,
        }
        self.latencies.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(LONGEST).max(1));
    }

    /// Returns how many requests were allowed or denied.
    pub fn answered(&self) -> u64 {
        self.allowed + self.denied
    }

    /// Returns answers per second.
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    pub fn throughput(&self) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 { self.answered() as f64 / seconds } else { 0.0 }
    }

    /// Returns the latency that this share of requests did not exceed, in microseconds.
    #[expect(clippy::cast_precision_loss, reason = "three digits are known")]
    pub fn micros_at(&self, quantile: f64) -> f64 {
        self.latencies.value_at_quantile(quantile) as f64 / 1e3
    }

    /// Adds what was measured at the same time.
    pub(super) fn add(&mut self, other: &Measurement) {
        self.merge(other);
        self.elapsed = self.elapsed.max(other.elapsed);
    }

    /// Adds what was measured afterwards.
    pub(super) fn append(&mut self, other: &Measurement) {
        self.merge(other);
        self.elapsed += other.elapsed;
    }

    fn merge(&mut self, other: &Measurement) {
        self.allowed += other.allowed;
        self.denied += other.denied;
        self.errors += other.errors;
        // Both have the same bounds.
        let _ = self.latencies.add(&other.latencies);
    }
}
