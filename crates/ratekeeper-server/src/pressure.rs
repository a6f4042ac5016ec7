//! A store in memory, or the one that decides in the place of a Redis, that is full: who is refused, told in the log once a minute at the most, and room kept for plans.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ratekeeper::store::StoreStatistics;
use tokio::time::{MissedTickBehavior, interval};

use crate::engine::Engine;

/// How often the store is looked at.
const GLANCE: Duration = Duration::from_secs(1);
/// How often a store that stays full is told of.
const SUMMARY: Duration = Duration::from_secs(60);
/// For how long after the last refusal the store counts as full.
const LINGER: Duration = Duration::from_secs(10);

/// What is known of refusals.
#[derive(Debug, Default)]
pub struct Pressure {
    /// The percentage to keep for plans, while there are any.
    kept: AtomicU8,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// Refusals by the last look.
    last: Refused,
    /// Refusals that the log has told of.
    told: Refused,
    told_at: Option<Instant>,
    /// When a new key was last refused.
    plan_at: Option<Instant>,
    request_at: Option<Instant>,
}

/// How often new keys were refused, by what they were to be held to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// To plans.
    pub plan: u64,
    /// To quotas of requests.
    pub request: u64,
}

impl Refused {
    /// The refusals among these statistics.
    pub fn of(statistics: &StoreStatistics) -> Self {
        let request = statistics.refused_of_requests;
        Refused { plan: statistics.refused.saturating_sub(request), request }
    }
}

impl Pressure {
    pub(crate) fn keep_for_plans(&self, percent: u8) {
        self.kept.store(percent, Ordering::Relaxed);
    }

    /// Whose new keys were refused by the last look, or a moment before.
    pub(crate) fn refusing(&self) -> Vec<&'static str> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |at: Option<Instant>| at.is_some_and(|at| at.elapsed() < LINGER);
        let all = [("plan", seen.plan_at), ("request", seen.request_at)];
        all.into_iter().filter(|(_, at)| is_recent(*at)).map(|(whose, _)| whose).collect()
    }

    /// Looks at the store: tells the log of refusals, and keeps room for plans if there are any by now.
    pub(crate) fn look(&self, engine: &Engine) {
        let store = engine.local();
        let statistics = store.statistics();
        // Without plans nobody needs what would be kept for them.
        let kept = if engine.registry().all().is_empty() { 0 } else { self.kept.load(Ordering::Relaxed) };
        if kept != statistics.kept_for_plans {
            store.keep_for_plans(kept);
        }
        let name = if engine.memory().is_some() { "memory" } else { "local" };
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).look(name, &statistics, Instant::now());
    }
}

impl Seen {
    fn look(&mut self, store: &str, statistics: &StoreStatistics, now: Instant) {
        let refused = Refused::of(statistics);
        if refused.plan > self.last.plan {
            self.plan_at = Some(now);
        }
        if refused.request > self.last.request {
            self.request_at = Some(now);
        }
        self.last = refused;
        let since = self.told_at.map(|at| now.duration_since(at));
        if since.is_some_and(|since| since < SUMMARY) {
            return;
        }
        if refused == self.told {
            // What comes next is told at once.
            self.told_at = None;
            return;
        }
        tracing::warn!(
            store,
            of_plans = refused.plan - self.told.plan,
            of_requests = refused.request - self.told.request,
            bound = bound(statistics),
            keys = statistics.keys,
            keys_of_requests = statistics.keys_of_requests,
            max_keys = statistics.max_keys,
            bytes = statistics.bytes,
            max_bytes = statistics.max_bytes,
            kept_for_plans = statistics.kept_for_plans,
            "store full: new keys are refused; raise --max-keys or --max-bytes, or forget keys by prefix"
        );
        (self.told, self.told_at) = (refused, Some(now));
    }
}

/// What there is too little of, as far as it can be seen.
fn bound(statistics: &StoreStatistics) -> &'static str {
    let for_requests = statistics.max_keys / 100 * usize::from(100 - statistics.kept_for_plans.min(100));
    let is_short_of_states = statistics.keys >= statistics.max_keys
        || (statistics.kept_for_plans > 0 && statistics.keys_of_requests >= for_requests);
    if is_short_of_states { "states" } else { "bytes" }
}

/// Looks at the store once a second, for as long as the server runs.
pub(crate) async fn watch(engine: Arc<Engine>) {
    let mut glances = interval(GLANCE);
    glances.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        glances.tick().await;
        engine.watch_store();
    }
}
