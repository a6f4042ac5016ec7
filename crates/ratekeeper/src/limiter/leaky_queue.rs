//! A constant rate out, however they come in.

use std::fmt;

use super::acquire::{Acquire, Held};
use super::core::Core;
use super::error::LimiterKind;
use super::line::Line;
use super::statistics::Statistics;
use super::tank::Contents;
use crate::clock::TimeSource;
use crate::port::Clock;
use crate::quota::QuotaError;
use crate::sync::Arc;
use crate::{Cost, Decision, Quota};

/// The leaky bucket as a queue: whoever waits leaves it in order, one every interval and never closer together, and
/// at most `capacity` have not left yet. Clones are handles of the same queue.
///
/// Only the rate of the quota counts, not its burst: smoothing is what this is for. Who does not wait
/// ([`try_acquire`](LeakyQueue::try_acquire)) is told at once whether there is a place, and occupies it until it would
/// have leaked.
///
/// ```
/// use ratekeeper::limiter::{AcquireError, LeakyQueue};
/// let queue = LeakyQueue::new("20/s".parse()?, 8)?;
/// let start = std::time::Instant::now();
/// for _ in 0..3 {
///     queue.acquire().wait()?;
/// }
/// assert!(start.elapsed().as_millis() >= 100, "one at once, two at intervals of 50 ms");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct LeakyQueue {
    pub(crate) core: Arc<Core>,
}

impl LeakyQueue {
    /// One every emission interval of the quota, with places for `capacity` to wait.
    pub fn new(quota: Quota, capacity: u64) -> Result<Self, QuotaError> {
        LeakyQueue::build(quota, capacity, TimeSource::default())
    }

    /// The same, with another clock.
    pub fn with_clock(quota: Quota, capacity: u64, clock: impl Clock + 'static) -> Result<Self, QuotaError> {
        LeakyQueue::build(quota, capacity, TimeSource::new(clock))
    }

    fn build(quota: Quota, capacity: u64, clock: TimeSource) -> Result<Self, QuotaError> {
        super::direct::check(&quota)?;
        let interval = quota.emission_interval();
        let drained = u128::from(interval.as_nanos()) * (u128::from(capacity) + 1);
        if drained > u128::from(Quota::MAX_SPAN.as_nanos()) {
            let value = format!("{capacity} at one every {interval}");
            return Err(QuotaError::range("capacity", value, "must drain within 200 years"));
        }
        let line = Line { interval, capacity, free_at: clock.now() };
        let core = Core::new(LimiterKind::LeakyQueue, Contents::Line(line).into(), usize::MAX, clock);
        Ok(LeakyQueue { core })
    }

    /// Takes a place without waiting in it, if one is free and nobody waits.
    pub fn try_acquire(&self) -> Decision {
        self.core.try_acquire(Cost::ONE)
    }

    /// Waits in turn, if there is a place to wait in.
    pub fn acquire(&self) -> Acquire<'_> {
        Acquire::new(Held::Borrowed(&self.core), Cost::ONE)
    }

    /// What it has done so far; `available` are the places.
    pub fn statistics(&self) -> Statistics {
        self.core.statistics()
    }

    /// Everybody who waits fails now, and everybody who comes later.
    pub fn close(&self) {
        self.core.with(|desk, _, wakes| desk.close(wakes));
    }

    /// Returns true once it was closed.
    pub fn is_closed(&self) -> bool {
        self.core.with(|desk, _, _| desk.is_closed())
    }
}

impl fmt::Debug for LeakyQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeakyQueue").field("statistics", &self.statistics()).finish()
    }
}
