//! Requests, counted without locks or sharing: every event loop counts for itself, and readers add up.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ratekeeper::{Decision, Key, Name, Plan, Ruling};

use super::decision_times::{DecisionTimes, TimesReading};
use super::recent::{RecentRequests, RecordedWindow};
use super::recorder::{AskedRequest, RequestRecorder};
use super::sketch::DenialSketch;
use crate::net::ConnectionSlots;
use crate::settings::Settings;

/// The counters of one transport on one event loop. Aligned to two cache lines: other loops write their own next to it.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct TransportMetrics {
    allowed: AtomicU64,
    denied: AtomicU64,
    errors: AtomicU64,
    auth_failures: AtomicU64,
    floods: AtomicU64,
    times: DecisionTimes,
    /// Those of them that Envoy asked for.
    rls_times: DecisionTimes,
    rls_errors: AtomicU64,
    /// The keys that are denied most, if `--top-denied` is set. Locked for a denial and by readers, never for a request
    /// that is allowed.
    denied_keys: Option<Mutex<DenialSketch>>,
    recorder: RequestRecorder,
}

/// What the counters of one transport say, summed over all event loops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TransportReading {
    /// Requests that were allowed.
    pub(crate) allowed: u64,
    /// Requests that were denied.
    pub(crate) denied: u64,
    /// Requests that could not be decided.
    pub(crate) errors: u64,
    /// Tokens that were wrong.
    pub(crate) auth_failures: u64,
    /// Connections that were cut because they sent too many control frames.
    pub(crate) floods: u64,
    /// How long decisions took.
    pub(crate) times: TimesReading,
    /// How long those of them took that Envoy asked for.
    pub(crate) rls_times: TimesReading,
    /// Requests of Envoy that could not be decided.
    pub(crate) rls_errors: u64,
}

impl TransportMetrics {
    fn new(denied_keys: Option<Mutex<DenialSketch>>, recorder: RequestRecorder) -> Self {
        TransportMetrics {
            allowed: AtomicU64::new(0),
            denied: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            auth_failures: AtomicU64::new(0),
            floods: AtomicU64::new(0),
            times: DecisionTimes::default(),
            rls_times: DecisionTimes::default(),
            rls_errors: AtomicU64::new(0),
            denied_keys,
            recorder,
        }
    }

    /// Counts decisions that were made in one batch, which took this long.
    #[inline]
    pub(crate) fn decided(&self, allowed: u64, denied: u64, took: Duration) {
        let count = allowed + denied;
        if count == 0 {
            return;
        }
        add(&self.allowed, allowed);
        add(&self.denied, denied);
        self.times.took(count, took);
    }

    /// Counts an answer to Envoy.
    pub(crate) fn judged(&self, is_ok: bool, took: Duration) {
        self.decided(is_ok.into(), (!is_ok).into(), took);
        self.rls_times.took(1, took);
    }

    /// Counts a request of Envoy that could not be decided, besides that it [failed](Self::failed).
    pub(crate) fn not_judged(&self) {
        add(&self.rls_errors, 1);
    }

    /// Counts one decision on a request that was asked then, and [notes](Self::asked) the request.
    pub(crate) fn took(&self, key: Key<'_>, cost: u64, ruling: &Ruling, began: Instant) {
        self.looked(ruling, began.elapsed());
        // The plan that denied, or the first that was named.
        let first = || ruling.rules().plans().next();
        let plan = if ruling.allowed { first() } else { ruling.plan().or_else(first) }.map(Plan::name);
        self.asked(AskedRequest { key: key.as_bytes(), plan, cost, is_denied: !ruling.allowed }, began);
    }

    /// Records a request that was asked then and decided, and remembers a key that was denied.
    #[inline]
    pub(crate) fn asked(&self, request: AskedRequest<'_>, began: Instant) {
        self.recorder.record(request, began);
        if request.is_denied {
            self.denied(request.key, request.plan);
        }
    }

    /// Counts the answer to a peek or a refund: nothing was to be taken, so no key was denied anything.
    pub(crate) fn looked(&self, decision: &Decision, took: Duration) {
        self.decided(decision.allowed.into(), (!decision.allowed).into(), took);
    }

    /// Remembers a key that was denied by this plan, if `--top-denied` is set.
    #[inline]
    fn denied(&self, key: &[u8], plan: Option<&Name>) {
        if let Some(sketch) = &self.denied_keys {
            lock(sketch).add(key, plan);
        }
    }

    /// Counts a request that could not be decided.
    pub(crate) fn failed(&self) {
        add(&self.errors, 1);
    }

    /// Counts a token that was wrong.
    pub(crate) fn auth_failed(&self) {
        add(&self.auth_failures, 1);
    }

    /// Counts a connection that was cut for its control frames.
    pub(crate) fn cut(&self) {
        add(&self.floods, 1);
    }

    fn read_into(&self, sum: &mut TransportReading) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        sum.allowed += read(&self.allowed);
        sum.denied += read(&self.denied);
        sum.errors += read(&self.errors);
        sum.auth_failures += read(&self.auth_failures);
        sum.floods += read(&self.floods);
        sum.rls_errors += read(&self.rls_errors);
        self.times.read_into(&mut sum.times);
        self.rls_times.read_into(&mut sum.rls_times);
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

/// The counters of all transports on all event loops.
#[derive(Debug, Default)]
pub(crate) struct ServerMetrics {
    top_denied: usize,
    loops: Mutex<Vec<(&'static str, Arc<TransportMetrics>)>>,
    slots: Mutex<Vec<(&'static str, Arc<ConnectionSlots>)>>,
    certificate_expiry: Mutex<Option<i64>>,
    recent: Arc<RecentRequests>,
}

/// A key that is among those that are denied most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeniedKey {
    /// The key.
    pub(crate) key: Box<[u8]>,
    /// How often it was denied, about.
    pub(crate) count: u64,
    /// How often at least: without what may have been denied to others.
    pub(crate) surely: u64,
    /// The plan of one of its last denials; none for a quota of the request's own.
    pub(crate) plan: Option<Name>,
}

impl ServerMetrics {
    /// How many keys are watched for each that is listed, so that the listed ones are the right ones.
    const WATCHED: usize = 8;

    /// Returns counters that remember the `top_denied` keys that are denied most; 0 for none.
    pub(crate) fn new(top_denied: usize) -> Self {
        ServerMetrics { top_denied: top_denied.min(Settings::MOST_TOP_DENIED), ..ServerMetrics::default() }
    }

    /// Returns new counters for a transport on an event loop.
    pub(crate) fn transport(&self, transport: &'static str) -> Arc<TransportMetrics> {
        let watched = self.top_denied * Self::WATCHED;
        let denied_keys = (watched > 0).then(|| Mutex::new(DenialSketch::new(watched)));
        let recorder = RequestRecorder::new(&self.recent);
        let counters = Arc::new(TransportMetrics::new(denied_keys, recorder));
        lock(&self.loops).push((transport, Arc::clone(&counters)));
        counters
    }

    /// Adds the connections of a transport to what is reported.
    pub(crate) fn watch(&self, transport: &'static str, slots: &Arc<ConnectionSlots>) {
        lock(&self.slots).push((transport, Arc::clone(slots)));
    }

    /// Returns the connections of each transport.
    pub(crate) fn slots(&self) -> Vec<(&'static str, Arc<ConnectionSlots>)> {
        lock(&self.slots).clone()
    }

    /// Notes when the TLS certificate in use expires, in seconds since the epoch.
    pub(crate) fn certificate_expires(&self, at: Option<i64>) {
        *lock(&self.certificate_expiry) = at;
    }

    /// Returns when the TLS certificate in use expires, in seconds since the epoch, if there is one.
    pub(crate) fn certificate_expiry(&self) -> Option<i64> {
        *lock(&self.certificate_expiry)
    }

    /// Returns how many of the keys that are denied most are remembered; 0 for none.
    pub(crate) fn most_denied(&self) -> usize {
        self.top_denied
    }

    /// Returns the keys that are denied most, over all event loops and transports, each with its approximate count.
    /// Empty unless `--top-denied` is set: keys are personal data.
    pub(crate) fn top_denied(&self) -> Vec<DeniedKey> {
        let mut sums: HashMap<Box<[u8]>, (u64, u64, Option<Name>)> = HashMap::new();
        for (_, counters) in &*lock(&self.loops) {
            let Some(sketch) = &counters.denied_keys else { continue };
            for (key, count, inherited, plan) in lock(sketch).entries() {
                let (sum, surely, of) = sums.entry(key.into()).or_default();
                *sum += count;
                *surely += count.saturating_sub(inherited);
                *of = plan.cloned().or(of.take());
            }
        }
        let denied = |(key, (count, surely, plan))| DeniedKey { key, count, surely, plan };
        let mut all: Vec<_> = sums.into_iter().map(denied).collect();
        all.sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.key.cmp(&other.key)));
        all.truncate(self.top_denied);
        all
    }

    /// Begins to record requests, so that limits can be tried on them.
    pub(crate) fn record_requests(&self) {
        self.recent.begin();
    }

    /// Gathers what the event loops have recorded, and drops what is too old. To be called once a second.
    pub(crate) fn tend_recorded(&self) {
        self.gather_recorded();
        self.recent.tend();
    }

    /// Returns what was recorded lately: all of it, or what was asked under this plan.
    pub(crate) fn recorded(&self, plan: Option<&str>) -> RecordedWindow {
        self.gather_recorded();
        self.recent.window(plan)
    }

    fn gather_recorded(&self) {
        // Not while the list is locked: an event loop that starts would wait.
        let loops: Vec<_> = lock(&self.loops).iter().map(|(_, counters)| Arc::clone(counters)).collect();
        let now = Instant::now();
        loops.iter().for_each(|counters| counters.recorder.hand_in(now));
    }

    /// Returns the sums over all event loops, one per transport, in the order in which they were started.
    pub(crate) fn read(&self) -> Vec<(&'static str, TransportReading)> {
        let mut sums: Vec<(&'static str, TransportReading)> = Vec::new();
        for (transport, counters) in &*lock(&self.loops) {
            let at = match sums.iter().position(|(name, _)| name == transport) {
                Some(at) => at,
                None => {
                    sums.push((transport, TransportReading::default()));
                    sums.len() - 1
                }
            };
            counters.read_into(&mut sums[at].1);
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::super::decision_times::BUCKETS;
    use super::*;

    #[test]
    fn loops_are_added_up_and_a_batch_is_spread_over_its_decisions() {
        let metrics = ServerMetrics::default();
        let (one, two) = (metrics.transport("resp"), metrics.transport("resp"));
        metrics.transport("http").failed();
        one.decided(3, 1, Duration::from_nanos(2_000));
        two.decided(0, 0, Duration::from_secs(9));
        two.decided(1, 0, Duration::from_secs(9));
        let read = metrics.read();
        assert_eq!(read[0].0, "resp");
        assert_eq!((read[0].1.allowed, read[0].1.denied, read[0].1.errors), (4, 1, 0));
        assert_eq!(read[0].1.times.buckets[1], 4, "500 ns each");
        assert_eq!(read[0].1.times.buckets[BUCKETS.len()], 1, "longer than every bound");
        assert_eq!((read[1].0, read[1].1.errors), ("http", 1));
    }

    #[test]
    fn what_envoy_asks_for_is_counted_with_all_and_by_itself() {
        let metrics = ServerMetrics::default();
        let counters = metrics.transport("grpc");
        counters.decided(1, 0, Duration::from_nanos(100));
        counters.judged(true, Duration::from_nanos(300));
        counters.judged(false, Duration::from_nanos(300));
        counters.not_judged();
        let (_, read) = metrics.read()[0];
        assert_eq!((read.allowed, read.denied, read.times.count()), (2, 1, 3));
        assert_eq!((read.rls_times.buckets[1], read.rls_times.nanos, read.rls_errors), (2, 600, 1));
    }

    #[test]
    fn denied_keys_are_added_up_over_loops_and_only_if_asked_for() {
        let metrics = ServerMetrics::new(2);
        let (one, two) = (metrics.transport("resp"), metrics.transport("http"));
        for (counters, key, times) in [(&one, "a", 3), (&two, "a", 2), (&two, "b", 4), (&one, "c", 1)] {
            (0..times).for_each(|_| counters.denied(key.as_bytes(), None));
        }
        let gold = Name::new("gold").unwrap();
        two.denied(b"b", Some(&gold));
        let top = |key: &[u8], count, plan| DeniedKey { key: key.into(), count, surely: count, plan };
        assert_eq!(metrics.top_denied(), [top(b"a", 5, None), top(b"b", 5, Some(gold))]);
        let silent = ServerMetrics::default();
        silent.transport("resp").denied(b"a", None);
        assert!(silent.top_denied().is_empty());
    }
}
