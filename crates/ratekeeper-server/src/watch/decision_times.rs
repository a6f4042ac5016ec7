//! How long decisions took.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets of histograms, in nanoseconds.
pub(crate) const BUCKETS: [u64; 12] = [
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    50_000,
    100_000,
    1_000_000,
    10_000_000,
    100_000_000,
    1_000_000_000,
];

/// A histogram that is written without locks.
#[derive(Debug, Default)]
pub(super) struct DecisionTimes {
    buckets: [AtomicU64; BUCKETS.len() + 1],
    nanos: AtomicU64,
}

/// What a histogram says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimesReading {
    /// How many took at most the bound in [`BUCKETS`]; the last bucket holds those that took longer.
    pub(crate) buckets: [u64; BUCKETS.len() + 1],
    /// Nanoseconds that all of them took.
    pub(crate) nanos: u64,
}

/// Returns one of `of` parts of a number, which add up to it and differ by one at most.
pub(crate) fn part_of(number: u64, index: u64, of: u64) -> u64 {
    let of = of.max(1);
    number / of + u64::from(index < number % of)
}

impl DecisionTimes {
    /// Counts decisions, at least one, that took so long together.
    #[inline]
    pub(super) fn took(&self, count: u64, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BUCKETS.partition_point(|bound| *bound < nanos / count);
        self.buckets[bucket].fetch_add(count, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    pub(super) fn read_into(&self, sum: &mut TimesReading) {
        sum.nanos += self.nanos.load(Ordering::Relaxed);
        for (sum, bucket) in sum.buckets.iter_mut().zip(&self.buckets) {
            *sum += bucket.load(Ordering::Relaxed);
        }
    }
}

impl TimesReading {
    /// Returns one of `of` parts that add up to this.
    pub(crate) fn part(&self, index: u64, of: u64) -> Self {
        let buckets = self.buckets.map(|count| part_of(count, index, of));
        TimesReading { buckets, nanos: part_of(self.nanos, index, of) }
    }

    /// Returns both together.
    pub(crate) fn plus(mut self, other: &TimesReading) -> Self {
        self.nanos += other.nanos;
        for (sum, bucket) in self.buckets.iter_mut().zip(&other.buckets) {
            *sum += bucket;
        }
        self
    }

    /// Returns what was counted since an earlier reading.
    pub(crate) fn since(mut self, before: &TimesReading) -> Self {
        self.nanos = self.nanos.saturating_sub(before.nanos);
        for (bucket, before) in self.buckets.iter_mut().zip(&before.buckets) {
            *bucket = bucket.saturating_sub(*before);
        }
        self
    }

    /// Returns how many there are.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}
