//! What is counted, without a lock and without sharing: every event loop counts for itself, and whoever asks adds up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::server::Places;

/// Upper bounds of the buckets of `ratekeeper_decision_seconds`, in nanoseconds.
pub const BUCKETS: [u64; 12] = [
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

/// The counters of one transport on one event loop. A cache line of its own: neighbours are written by others.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Meter {
    allowed: AtomicU64,
    denied: AtomicU64,
    errors: AtomicU64,
    buckets: [AtomicU64; BUCKETS.len() + 1],
    nanos: AtomicU64,
}

/// A reading of one or of many meters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Requests that were allowed.
    pub allowed: u64,
    /// Requests that were denied.
    pub denied: u64,
    /// Requests that could not be decided.
    pub errors: u64,
    /// How many decisions took at most [`BUCKETS`]; the last one holds what took longer.
    pub buckets: [u64; BUCKETS.len() + 1],
    /// What all decisions took.
    pub nanos: u64,
}

impl Meter {
    /// Counts decisions that were made together, in this time.
    #[inline]
    pub fn decided(&self, allowed: u64, denied: u64, took: Duration) {
        let count = allowed + denied;
        if count == 0 {
            return;
        }
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BUCKETS.partition_point(|bound| *bound < nanos / count);
        add(&self.allowed, allowed);
        add(&self.denied, denied);
        add(&self.buckets[bucket], count);
        add(&self.nanos, nanos);
    }

    /// Counts a request that could not be decided.
    pub fn failed(&self) {
        add(&self.errors, 1);
    }

    fn read_into(&self, sum: &mut Reading) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        sum.allowed += read(&self.allowed);
        sum.denied += read(&self.denied);
        sum.errors += read(&self.errors);
        sum.nanos += read(&self.nanos);
        for (sum, bucket) in sum.buckets.iter_mut().zip(&self.buckets) {
            *sum += read(bucket);
        }
    }
}

#[inline]
fn add(counter: &AtomicU64, count: u64) {
    if count > 0 {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

/// All meters there are.
#[derive(Debug, Default)]
pub struct Metrics {
    meters: Mutex<Vec<(&'static str, Arc<Meter>)>>,
    places: Mutex<Vec<(&'static str, Arc<Places>)>>,
}

impl Metrics {
    /// A new meter for a transport on an event loop.
    pub fn meter(&self, transport: &'static str) -> Arc<Meter> {
        let meter = Arc::new(Meter::default());
        self.lock().push((transport, Arc::clone(&meter)));
        meter
    }

    /// Has the connections of a transport counted.
    pub fn watch(&self, transport: &'static str, places: &Arc<Places>) {
        self.lock_places().push((transport, Arc::clone(places)));
    }

    /// The connections of each transport.
    pub fn places(&self) -> Vec<(&'static str, Arc<Places>)> {
        self.lock_places().clone()
    }

    fn lock_places(&self) -> std::sync::MutexGuard<'_, Vec<(&'static str, Arc<Places>)>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sum over all event loops, transport by transport, in the order in which they were started.
    pub fn read(&self) -> Vec<(&'static str, Reading)> {
        let mut sums: Vec<(&'static str, Reading)> = Vec::new();
        for (transport, meter) in &*self.lock() {
            let at = match sums.iter().position(|(name, _)| name == transport) {
                Some(at) => at,
                None => {
                    sums.push((transport, Reading::default()));
                    sums.len() - 1
                }
            };
            meter.read_into(&mut sums[at].1);
        }
        sums
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(&'static str, Arc<Meter>)>> {
        self.meters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_are_added_up_and_a_batch_is_spread_over_its_decisions() {
        let metrics = Metrics::default();
        let (one, two) = (metrics.meter("resp"), metrics.meter("resp"));
        metrics.meter("http").failed();
        one.decided(3, 1, Duration::from_nanos(2_000));
        two.decided(0, 0, Duration::from_secs(9));
        two.decided(1, 0, Duration::from_secs(9));
        let read = metrics.read();
        assert_eq!(read[0].0, "resp");
        assert_eq!((read[0].1.allowed, read[0].1.denied, read[0].1.errors), (4, 1, 0));
        assert_eq!(read[0].1.buckets[1], 4, "500 ns each");
        assert_eq!(read[0].1.buckets[BUCKETS.len()], 1, "longer than every bound");
        assert_eq!((read[1].0, read[1].1.errors), ("http", 1));
    }
}
