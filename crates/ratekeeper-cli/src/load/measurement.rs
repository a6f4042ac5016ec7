//! What is counted while a load runs.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Latencies are told apart to three digits.
const DIGITS: u8 = 3;
/// Longer ones count as this, in nanoseconds: a minute.
const LONGEST: u64 = 60_000_000_000;

/// Answers, and how long they took.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// Requests that were allowed.
    pub allowed: u64,
    /// Requests that were denied.
    pub denied: u64,
    /// Requests that were answered by an error, or not at all.
    pub errors: u64,
    /// How long it went on.
    pub elapsed: Duration,
    /// In nanoseconds.
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

/// What a reply amounts to.
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

    /// Requests that were answered.
    pub fn answered(&self) -> u64 {
        self.allowed + self.denied
    }

    /// Answers a second.
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    pub fn throughput(&self) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 { self.answered() as f64 / seconds } else { 0.0 }
    }

    /// The latency that this share of requests did not exceed, in microseconds.
    #[expect(clippy::cast_precision_loss, reason = "three digits are known")]
    pub fn micros_at(&self, quantile: f64) -> f64 {
        self.latencies.value_at_quantile(quantile) as f64 / 1e3
    }

    /// All that happened beside each other.
    pub(super) fn add(&mut self, other: &Measurement) {
        self.merge(other);
        self.elapsed = self.elapsed.max(other.elapsed);
    }

    /// All that happened one after the other.
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
