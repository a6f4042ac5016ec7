//! A constant rate out, however they come in.

use std::fmt;

use super::acquire::Acquire;
use super::core::LimiterCore;
use super::core_ref::CoreRef;
use super::error::LimiterKind;
use super::statistics::LimiterStatistics;
use super::supply::{LeakyLine, Supply, check_rate};
use crate::clock::TimeSource;
use crate::port::Clock;
use crate::sync::Arc;
use crate::{Cost, Decision, Quota, QuotaError};

/// The leaky bucket as a queue: callers leave it in order, one every interval and never closer together, and at most
/// `capacity` have not left yet. Clones are handles of the same queue.
///
/// Only the rate of the quota counts, not its burst: smoothing is what this is for. A caller who does not wait
/// ([`try_acquire`](LeakyQueue::try_acquire)) learns at once whether there is room, and takes it until it would have left.
///
/// ```
/// use ratekeeper::limiter::{AcquireError, LeakyQueue};
/// let queue = LeakyQueue::new("20/s".parse()?, 8)?;
/// let start = std::time::Instant::now();
/// for _ in 0..3 {
///     queue.acquire().wait()?;
/// }
/// assert!(start.elapsed().as_millis() >= 99, "one at once, two at intervals of 50 ms");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct LeakyQueue {
    pub(super) core: Arc<LimiterCore>,
}

impl LeakyQueue {
    /// Builds a queue that lets one leave every emission interval of the quota, with room for `capacity` to wait.
    ///
    /// # Errors
    ///
    /// If the quota counts permits, or a full queue would take longer than 200 years to drain.
    pub fn new(quota: Quota, capacity: u64) -> Result<Self, QuotaError> {
        LeakyQueue::build(quota, capacity, TimeSource::default())
    }

    /// Like [`new`](LeakyQueue::new), with another clock.
    ///
    /// # Errors
    ///
    /// As [`new`](LeakyQueue::new).
    pub fn with_clock(quota: Quota, capacity: u64, clock: impl Clock + 'static) -> Result<Self, QuotaError> {
        LeakyQueue::build(quota, capacity, TimeSource::new(clock))
    }

    fn build(quota: Quota, capacity: u64, clock: TimeSource) -> Result<Self, QuotaError> {
        check_rate(&quota)?;
        let interval = quota.emission_interval();
        let drained = u128::from(interval.as_nanos()) * (u128::from(capacity) + 1);
        if drained > u128::from(Quota::MAX_SPAN.as_nanos()) {
            let value = format!("{capacity} at one every {interval}");
            return Err(QuotaError::range("capacity", value, "must drain within 200 years"));
        }
        let line = Supply::Line(LeakyLine { interval, capacity, free_at: clock.now() });
        Ok(LeakyQueue { core: LimiterCore::new(LimiterKind::LeakyQueue, line.into(), usize::MAX, clock) })
    }

    /// Takes room for one without waiting in it, if there is some and nobody waits.
    pub fn try_acquire(&self) -> Decision {
        self.core.try_acquire(Cost::ONE)
    }

    /// Waits in turn, if there is room to wait in.
    pub fn acquire(&self) -> Acquire<'_> {
        Acquire::new(CoreRef::Borrowed(&self.core), Cost::ONE)
    }

    /// Returns what it has done so far; `available` is how many more there is room for.
    pub fn statistics(&self) -> LimiterStatistics {
        self.core.statistics()
    }

    /// Closes it: everybody who waits fails now, and everybody who comes later.
    pub fn close(&self) {
        self.core.close();
    }

    /// Returns true once it was closed.
    pub fn is_closed(&self) -> bool {
        self.core.is_closed()
    }
}

impl fmt::Debug for LeakyQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeakyQueue").field("statistics", &self.statistics()).finish()
    }
}
