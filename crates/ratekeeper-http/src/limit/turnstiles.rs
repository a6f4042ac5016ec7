//! One limit of permits for each key that somebody is at, and none for the others.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ratekeeper::limiter::{AcquireError, Concurrency, OwnedPermit};
use ratekeeper::{Nanos, Quota};
use tokio::time::Instant;

/// Turnstiles by key. A key's exists for as long as somebody is at it or past it: memory is bounded by how many
/// requests the server has.
pub(crate) struct Turnstiles {
    table: Mutex<HashMap<Box<[u8]>, Turnstile>>,
    limit: u64,
    queue: usize,
    /// How long a seat is kept, in nanoseconds, on average over the last few of any key; 0 if none was given back yet.
    kept: AtomicU64,
}

struct Turnstile {
    permits: Concurrency,
    visitors: usize,
    /// What all of them want together.
    cost: u64,
}

impl Turnstiles {
    /// At most `limit` past each, at most `queue` before it.
    pub(crate) fn new(limit: u64, queue: usize) -> Self {
        Turnstiles { table: Mutex::default(), limit, queue, kept: AtomicU64::new(0) }
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// How many may wait.
    pub(crate) fn bound(&self) -> usize {
        self.queue
    }

    /// What those at the key's turnstile want together; nothing if nobody is there.
    pub(crate) fn wanted(&self, key: &[u8]) -> Option<u64> {
        self.lock().get(key).map(|turnstile| turnstile.cost)
    }

    /// How many are past the key's turnstile, and how many before it.
    pub(crate) fn statistics(&self, key: &[u8]) -> (u64, usize) {
        let permits = self.lock().get(key).map(|turnstile| turnstile.permits.clone());
        permits.map_or((0, 0), |permits| (permits.in_flight(), permits.statistics().queue_depth))
    }

    /// How long somebody who comes now would wait, if seats are kept for as long as they were lately; `None` as long as
    /// nobody knows.
    pub(crate) fn expected_wait(&self, key: &[u8]) -> Option<Nanos> {
        let kept = self.kept.load(Ordering::Relaxed);
        let (_, waiting) = self.statistics(key);
        // So many must leave before it is this one's turn, and all that are past leave one after another.
        let leaves = u64::try_from(waiting).unwrap_or(u64::MAX).saturating_add(1);
        let wait = u128::from(kept) * u128::from(leaves) / u128::from(self.limit.max(1));
        (kept > 0).then(|| Nanos::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX)))
    }

    /// A seat was kept for so long. An average in which the last eight or so count most; of two at once one may get
    /// lost, which an estimate can bear.
    fn learn(&self, kept: Duration) {
        let new = u64::try_from(kept.as_nanos()).unwrap_or(u64::MAX).max(1);
        let old = self.kept.load(Ordering::Relaxed);
        let average = if old == 0 { new } else { (old - old / 8).saturating_add(new / 8).max(1) };
        self.kept.store(average, Ordering::Relaxed);
    }

    /// Steps up to the key's turnstile. Everybody steps up in the order of these calls.
    pub(crate) fn visit(self: &Arc<Self>, key: &[u8], cost: u64) -> Visit {
        let mut table = self.lock();
        if let Some(turnstile) = table.get_mut(key) {
            turnstile.visitors += 1;
            turnstile.cost = turnstile.cost.saturating_add(cost);
            return Visit::new(self, key, cost, turnstile.permits.clone());
        }
        let permits = self.make();
        table.insert(key.into(), Turnstile { permits: permits.clone(), visitors: 1, cost });
        Visit::new(self, key, cost, permits)
    }

    /// A limit of permits. Its number is at least one, which cannot be refused.
    #[expect(clippy::expect_used, reason = "the limit is within the bounds by construction")]
    fn make(&self) -> Concurrency {
        let limit = self.limit.clamp(1, Quota::MAX_COUNT);
        let quota = Quota::concurrent(limit).build().expect("within bounds");
        Concurrency::builder(quota).queue(self.queue).build().expect("a quota of permits")
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, Turnstile>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody at a turnstile.
pub(crate) struct Visit {
    owner: Arc<Turnstiles>,
    key: Box<[u8]>,
    cost: u64,
    permits: Concurrency,
}

impl Visit {
    fn new(owner: &Arc<Turnstiles>, key: &[u8], cost: u64, permits: Concurrency) -> Self {
        Visit { owner: Arc::clone(owner), key: key.into(), cost, permits }
    }

    /// Passes, if that can be now.
    pub(crate) fn try_pass(self) -> Option<Seat> {
        let permit = self.permits.try_acquire_owned().ok()?;
        Some(Seat { _permit: permit, visit: self, since: Instant::now() })
    }

    /// Passes, in turn.
    pub(crate) async fn pass(self, within: Duration) -> Result<Seat, AcquireError> {
        let permit = self.permits.acquire_owned().within(within).await?;
        Ok(Seat { _permit: permit, visit: self, since: Instant::now() })
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let mut table = self.owner.lock();
        if let Some(turnstile) = table.get_mut(&self.key) {
            turnstile.visitors -= 1;
            turnstile.cost = turnstile.cost.saturating_sub(self.cost);
            if turnstile.visitors == 0 {
                table.remove(&self.key);
            }
        }
    }
}

/// Somebody past a turnstile. Dropping it lets the next one pass: the permit goes first, then the visit.
pub(crate) struct Seat {
    _permit: OwnedPermit,
    visit: Visit,
    since: Instant,
}

impl Seat {
    /// How many more may pass.
    pub(crate) fn available(&self) -> u64 {
        self.visit.permits.statistics().available
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.visit.owner.learn(self.since.elapsed());
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seat({})", self.visit.key.escape_ascii())
    }
}
