//! A store in memory that is full: whose new keys it refuses, and how much of it is kept for plans.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ratekeeper::MemoryStore;
use ratekeeper::store::StoreStatistics;

use crate::settings::Settings;

/// How often a store that stays full is logged.
const SUMMARY: Duration = Duration::from_secs(60);
/// For how long after the last refusal the store counts as full.
const LINGER: Duration = Duration::from_secs(10);

/// Watches a store in memory for refusals, and decides how much of it is kept for plans.
#[derive(Debug)]
pub(crate) struct StorePressure {
    /// The percentage to keep for plans, while there are any.
    kept: AtomicU8,
    seen: Mutex<SeenRefusals>,
}

#[derive(Debug, Default)]
struct SeenRefusals {
    /// Refusals by the last look.
    last: RefusedKeys,
    /// Refusals that were logged.
    logged: RefusedKeys,
    logged_at: Option<Instant>,
    /// When a new key was last refused.
    plan_at: Option<Instant>,
    request_at: Option<Instant>,
}

/// How often new keys were refused because the store was full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RefusedKeys {
    /// Keys held to plans.
    pub(crate) plan: u64,
    /// Keys held to quotas of requests.
    pub(crate) request: u64,
}

impl RefusedKeys {
    /// Returns the refusals among these statistics.
    pub(crate) fn of(statistics: &StoreStatistics) -> Self {
        let request = statistics.refused_of_requests;
        RefusedKeys { plan: statistics.refused.saturating_sub(request), request }
    }
}

impl Default for StorePressure {
    fn default() -> Self {
        StorePressure { kept: AtomicU8::new(Settings::DEFAULT_KEPT_FOR_PLANS), seen: Mutex::default() }
    }
}

impl StorePressure {
    /// Keeps this percentage of the store for plans, from the next [look](StorePressure::look) on.
    pub(crate) fn keep_for_plans(&self, percent: u8) {
        self.kept.store(percent, Ordering::Relaxed);
    }

    /// Returns whose new keys were refused at the last look, or shortly before: `plan`, `request`, both or none.
    pub(crate) fn refusing(&self) -> Vec<&'static str> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |at: Option<Instant>| at.is_some_and(|at| at.elapsed() < LINGER);
        let all = [("plan", seen.plan_at), ("request", seen.request_at)];
        all.into_iter().filter(|(_, at)| is_recent(*at)).map(|(whose, _)| whose).collect()
    }

    /// Looks at the store: logs refusals, and keeps room for plans exactly while there are any.
    ///
    /// This is the one place that decides how much a store of the server keeps for plans. The store's own rule (half of
    /// it, from the first plan that is asked for) would begin too late: by then quotas of requests may have filled it.
    pub(crate) fn look(&self, name: &str, store: &MemoryStore, has_plans: bool) {
        let kept = if has_plans { self.kept.load(Ordering::Relaxed) } else { 0 };
        store.keep_for_plans(kept);
        let statistics = store.statistics();
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).look(name, &statistics, Instant::now());
    }
}

impl SeenRefusals {
    fn look(&mut self, store: &str, statistics: &StoreStatistics, now: Instant) {
        let refused = RefusedKeys::of(statistics);
        if refused.plan > self.last.plan {
            self.plan_at = Some(now);
        }
        if refused.request > self.last.request {
            self.request_at = Some(now);
        }
        self.last = refused;
        let since = self.logged_at.map(|at| now.duration_since(at));
        if since.is_some_and(|since| since < SUMMARY) {
            return;
        }
        if refused == self.logged {
            // The next refusal is logged at once.
            self.logged_at = None;
            return;
        }
        tracing::warn!(
            store,
            of_plans = refused.plan - self.logged.plan,
            of_requests = refused.request - self.logged.request,
            bound = bound(statistics),
            keys = statistics.keys,
            keys_of_requests = statistics.keys_of_requests,
            max_keys = statistics.max_keys,
            bytes = statistics.bytes,
            max_bytes = statistics.max_bytes,
            kept_for_plans = statistics.kept_for_plans,
            "store full: new keys are refused; raise --max-keys or --max-bytes, or forget keys by prefix"
        );
        (self.logged, self.logged_at) = (refused, Some(now));
    }
}

/// Returns which bound was reached, as far as the statistics show.
fn bound(statistics: &StoreStatistics) -> &'static str {
    let for_requests = statistics.max_keys / 100 * usize::from(100 - statistics.kept_for_plans.min(100));
    let is_short_of_states = statistics.keys >= statistics.max_keys
        || (statistics.kept_for_plans > 0 && statistics.keys_of_requests >= for_requests);
    if is_short_of_states { "states" } else { "bytes" }
}
