//! Permits by key: how many of each key may be in flight at once.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ratekeeper::limiter::{AcquireError, Concurrency, OwnedPermit};
use ratekeeper::{Nanos, Quota};
use tokio::time::Instant;

/// A concurrency limit for each key that is in use. It exists for as long as somebody waits for or holds a permit of
/// it: memory is bounded by how many requests the server has.
pub(crate) struct KeyedPermits {
    table: Mutex<HashMap<Box<[u8]>, KeyEntry>>,
    limit: u64,
    queue: usize,
    /// How long a permit is held that a request is served with, in nanoseconds, on average over the last few of any
    /// key; 0 before the first came back.
    held: AtomicU64,
}

struct KeyEntry {
    permits: Concurrency,
    /// How many wait for a permit or hold one.
    visitors: usize,
}

impl KeyedPermits {
    /// Creates limits of at most `limit` permits for each key, for which at most `queue` may wait.
    pub(crate) fn new(limit: u64, queue: usize) -> Self {
        KeyedPermits { table: Mutex::default(), limit, queue, held: AtomicU64::new(0) }
    }

    /// Returns how many permits each key has.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns how many permits of this key are held, and how many wait for one.
    pub(crate) fn statistics(&self, key: &[u8]) -> (u64, usize) {
        let permits = self.lock().get(key).map(|entry| entry.permits.clone());
        permits.map_or((0, 0), |permits| (permits.in_flight(), permits.statistics().queue_depth))
    }

    /// Returns how long somebody who comes now would wait, if permits are held for as long as they were lately; `None`
    /// before the first came back.
    pub(crate) fn expected_wait(&self, key: &[u8]) -> Option<Nanos> {
        let held = self.held.load(Ordering::Relaxed);
        let (_, waiting) = self.statistics(key);
        // So many permits must come back before it is this one's turn, and all that are held do so one after another.
        let returns = u64::try_from(waiting).unwrap_or(u64::MAX).saturating_add(1);
        let wait = u128::from(held) * u128::from(returns) / u128::from(self.limit.max(1));
        (held > 0).then(|| Nanos::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX)))
    }

    /// Notes how long a permit was held. An average in which the last eight or so count most; of two at once one may
    /// get lost, which an estimate can bear.
    fn learn(&self, held: Duration) {
        let new = u64::try_from(held.as_nanos()).unwrap_or(u64::MAX).max(1);
        let old = self.held.load(Ordering::Relaxed);
        let average = if old == 0 { new } else { (old - old / 8).saturating_add(new / 8).max(1) };
        self.held.store(average, Ordering::Relaxed);
    }

    /// Registers somebody who wants a permit of this key. Takes a lock.
    pub(crate) fn visit(self: &Arc<Self>, key: &[u8]) -> PermitVisit {
        let mut table = self.lock();
        let entry = match table.get_mut(key) {
            Some(entry) => entry,
            None => table.entry(key.into()).or_insert_with(|| KeyEntry { permits: self.make(), visitors: 0 }),
        };
        entry.visitors += 1;
        PermitVisit { owner: Arc::clone(self), key: key.into(), permits: entry.permits.clone() }
    }

    /// Creates the limit of a key. There is at least one permit, so it cannot be refused.
    #[expect(clippy::expect_used, reason = "the limit is within the bounds by construction")]
    fn make(&self) -> Concurrency {
        let limit = self.limit.clamp(1, Quota::MAX_COUNT);
        let quota = Quota::concurrent(limit).build().expect("within bounds");
        Concurrency::builder(quota).queue(self.queue).build().expect("a quota of permits")
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, KeyEntry>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who wants a permit of a key, or holds one.
pub(crate) struct PermitVisit {
    owner: Arc<KeyedPermits>,
    key: Box<[u8]>,
    permits: Concurrency,
}

impl PermitVisit {
    /// Takes a permit, if one is free and nobody waits for it.
    pub(crate) fn try_pass(self) -> Option<InFlightPermit> {
        let permit = self.permits.try_acquire_owned().ok()?;
        Some(InFlightPermit { _permit: permit, visit: self, since: Instant::now(), is_served: false })
    }

    /// Waits for a permit, in turn.
    pub(crate) async fn pass(self, within: Duration) -> Result<InFlightPermit, AcquireError> {
        let permit = self.permits.acquire_owned().within(within).await?;
        Ok(InFlightPermit { _permit: permit, visit: self, since: Instant::now(), is_served: false })
    }
}

impl Drop for PermitVisit {
    fn drop(&mut self) {
        let mut table = self.owner.lock();
        if let Some(entry) = table.get_mut(&self.key) {
            entry.visitors -= 1;
            if entry.visitors == 0 {
                table.remove(&self.key);
            }
        }
    }
}

/// A permit of a key. Dropping it lets the next one in.
pub(crate) struct InFlightPermit {
    /// Before the visit, because fields are dropped in order: the permit comes back before the key can be forgotten.
    _permit: OwnedPermit,
    visit: PermitVisit,
    since: Instant,
    /// Whether a request is served with it. If not, how long it was held says nothing about how long requests take.
    is_served: bool,
}

impl InFlightPermit {
    /// Notes that a request is served with it.
    pub(crate) fn serve(&mut self) {
        self.is_served = true;
    }

    /// Returns how many more permits of the key are free.
    pub(crate) fn available(&self) -> u64 {
        self.visit.permits.statistics().available
    }
}

impl Drop for InFlightPermit {
    fn drop(&mut self) {
        if self.is_served {
            self.visit.owner.learn(self.since.elapsed());
        }
    }
}

impl fmt::Debug for InFlightPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InFlightPermit({})", self.visit.key.escape_ascii())
    }
}
