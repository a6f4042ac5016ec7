//! What is counted, without a lock and without sharing: every event loop counts for itself, and whoever asks adds up.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ratekeeper::{Decision, Key};

use crate::server::Places;
use crate::sketch::Sketch;

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
    auth_failures: AtomicU64,
    floods: AtomicU64,
    buckets: [AtomicU64; BUCKETS.len() + 1],
    nanos: AtomicU64,
    /// Who is denied most, if anyone wants to know. Locked for a denial and by who reads it, never for who is
    /// allowed.
    denied_keys: Option<Mutex<Sketch>>,
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
    /// Tokens that were wrong.
    pub auth_failures: u64,
    /// Connections that were cut because they sent more of what costs work and asks for nothing than there is a reason
    /// for.
    pub floods: u64,
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

    /// Counts one decision, and who was denied.
    pub fn took(&self, key: Key<'_>, decision: &Decision, took: Duration) {
        self.looked(decision, took);
        if !decision.allowed {
            self.denied(key.as_bytes());
        }
    }

    /// Counts an answer to somebody who did not want to take anything, and so was not denied anything.
    pub fn looked(&self, decision: &Decision, took: Duration) {
        self.decided(decision.allowed.into(), (!decision.allowed).into(), took);
    }

    /// Remembers who was denied, if that is wanted.
    #[inline]
    pub fn denied(&self, key: &[u8]) {
        if let Some(sketch) = &self.denied_keys {
            lock(sketch).add(key);
        }
    }

    /// Counts a request that could not be decided.
    pub fn failed(&self) {
        add(&self.errors, 1);
    }

    /// Counts a token that was wrong.
    pub fn auth_failed(&self) {
        add(&self.auth_failures, 1);
    }

    /// Counts a connection that was cut.
    pub fn cut(&self) {
        add(&self.floods, 1);
    }

    fn read_into(&self, sum: &mut Reading) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        sum.allowed += read(&self.allowed);
        sum.denied += read(&self.denied);
        sum.errors += read(&self.errors);
        sum.auth_failures += read(&self.auth_failures);
        sum.floods += read(&self.floods);
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All meters there are.
#[derive(Debug, Default)]
pub struct Metrics {
    top_denied: usize,
    meters: Mutex<Vec<(&'static str, Arc<Meter>)>>,
    places: Mutex<Vec<(&'static str, Arc<Places>)>>,
    certificate_expiry: Mutex<Option<i64>>,
}

impl Metrics {
    /// The most keys that [`top_denied`](Metrics::top_denied) may list: each is a line that Prometheus keeps.
    pub const MOST_TOP_DENIED: usize = 1_000;
    /// How many keys are watched for one that is listed, so that the listed ones are the right ones.
    const WATCHED: usize = 8;

    /// Meters that remember the so many keys that are denied most; 0 for none.
    pub fn new(top_denied: usize) -> Self {
        Metrics { top_denied: top_denied.min(Self::MOST_TOP_DENIED), ..Metrics::default() }
    }

    /// A new meter for a transport on an event loop.
    pub fn meter(&self, transport: &'static str) -> Arc<Meter> {
        let watched = self.top_denied * Self::WATCHED;
        let denied_keys = (watched > 0).then(|| Mutex::new(Sketch::new(watched)));
        let meter = Arc::new(Meter { denied_keys, ..Meter::default() });
        lock(&self.meters).push((transport, Arc::clone(&meter)));
        meter
    }

    /// Has the connections of a transport counted.
    pub fn watch(&self, transport: &'static str, places: &Arc<Places>) {
        lock(&self.places).push((transport, Arc::clone(places)));
    }

    /// The connections of each transport.
    pub fn places(&self) -> Vec<(&'static str, Arc<Places>)> {
        lock(&self.places).clone()
    }

    /// Notes when the TLS certificate in use expires, in seconds since the epoch.
    pub fn certificate_expires(&self, at: Option<i64>) {
        *lock(&self.certificate_expiry) = at;
    }

    /// Returns when the TLS certificate in use expires, in seconds since the epoch, if there is one.
    pub fn certificate_expiry(&self) -> Option<i64> {
        *lock(&self.certificate_expiry)
    }

    /// The keys that are denied most, over all event loops and transports, and how often about. Empty unless asked
    /// for: keys are personal data.
    pub fn top_denied(&self) -> Vec<(Box<[u8]>, u64)> {
        let mut sums: HashMap<Box<[u8]>, u64> = HashMap::new();
        for (_, meter) in &*lock(&self.meters) {
            let Some(sketch) = &meter.denied_keys else { continue };
            for (key, count) in lock(sketch).entries() {
                *sums.entry(key.into()).or_default() += count;
            }
        }
        let mut all: Vec<_> = sums.into_iter().collect();
        all.sort_by(|(one, ones), (other, others)| others.cmp(ones).then_with(|| one.cmp(other)));
        all.truncate(self.top_denied);
        all
    }

    /// The sum over all event loops, transport by transport, in the order in which they were started.
    pub fn read(&self) -> Vec<(&'static str, Reading)> {
        let mut sums: Vec<(&'static str, Reading)> = Vec::new();
        for (transport, meter) in &*lock(&self.meters) {
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

    #[test]
    fn denied_keys_are_added_up_over_loops_and_only_if_asked_for() {
        let metrics = Metrics::new(2);
        let (one, two) = (metrics.meter("resp"), metrics.meter("http"));
        for (meter, key, times) in [(&one, "a", 3), (&two, "a", 2), (&two, "b", 4), (&one, "c", 1)] {
            (0..times).for_each(|_| meter.denied(key.as_bytes()));
        }
        let top = metrics.top_denied();
        assert_eq!(top, [(Box::from(&b"a"[..]), 5), (Box::from(&b"b"[..]), 4)]);
        let silent = Metrics::default();
        silent.meter("resp").denied(b"a");
        assert!(silent.top_denied().is_empty());
    }
}
