//! One rate.

use std::fmt;

use super::acquire::Acquire;
use super::core::LimiterCore;
use super::core_ref::CoreRef;
use super::error::{AcquireError, LimiterKind, SetQuotaError};
use super::reservation::Reservation;
use super::statistics::LimiterStatistics;
use super::supply::{Inherit, Supply, Ticks, check_rate};
use crate::clock::TimeSource;
use crate::port::Clock;
use crate::sync::Arc;
use crate::{Charged, Cost, Decision, Quota, QuotaError};

/// One rate, decided by any algorithm that a quota can name: for callers who want an answer now, and for callers who
/// would rather wait their turn. Clones are handles of the same limit.
///
/// ```
/// use ratekeeper::{Limiter, Reason};
/// let limiter = Limiter::new("10/h burst 2".parse()?)?;
/// assert!(limiter.try_acquire(1).allowed);
/// assert!(limiter.try_acquire(1).allowed);
/// let refused = limiter.try_acquire(1);
/// let minutes = refused.retry_after.unwrap().ceil_secs().div_ceil(60);
/// assert_eq!((refused.reason, minutes), (Reason::QuotaExceeded, 6));
/// # Ok::<(), ratekeeper::QuotaError>(())
/// ```
///
/// Waiting is first come, first served, and nobody is overtaken: while anyone waits, `try_acquire` is refused. A
/// deadline that cannot be met fails at once:
///
/// ```
/// # #[cfg(feature = "tokio")] {
/// use std::time::Duration;
/// use ratekeeper::limiter::{AcquireErrorKind, Limiter};
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// # runtime.block_on(async {
/// let limiter = Limiter::new("100/s burst 1".parse()?)?;
/// for _ in 0..3 {
///     limiter.acquire(1).await?; // one every ten milliseconds
/// }
/// let slow = Limiter::new("1/m".parse()?)?;
/// slow.acquire(1).await?;
/// let error = slow.acquire(1).within(Duration::from_millis(1)).await.unwrap_err();
/// assert_eq!(error.kind(), AcquireErrorKind::Deadline);
/// assert!(error.retry_after().unwrap().ceil_secs() <= 60);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A limiter is made for speed, not to be one of very many: one of GCRA that several threads ask counts in a cache line for
/// each, 128 bytes for every core and 4 KiB at most. For a limit of each key, use [`Keyed`](super::Keyed), whose keys do without, or a
/// [`Keeper`](crate::Keeper).
#[derive(Clone)]
pub struct Limiter {
    pub(super) core: Arc<LimiterCore>,
}

impl Limiter {
    /// Builds a limiter of this quota.
    ///
    /// # Errors
    ///
    /// If the quota counts permits, such as `32 concurrent`: build a [`Concurrency`](super::Concurrency).
    pub fn new(quota: Quota) -> Result<Self, QuotaError> {
        Limiter::builder(quota).build()
    }

    /// Returns a builder, for a bounded queue or another clock.
    pub fn builder(quota: Quota) -> LimiterBuilder {
        LimiterBuilder::new(MadeOf::Quota(quota))
    }

    /// Builds a limiter of whole tokens at whole intervals.
    ///
    /// # Errors
    ///
    /// If a number is out of range, or more tokens are there at first than fit.
    pub fn ticking(ticks: Ticks) -> Result<Self, QuotaError> {
        Limiter::ticking_builder(ticks).build()
    }

    /// Returns a builder of a limiter of [`Ticks`], for a bounded queue or another clock.
    pub fn ticking_builder(ticks: Ticks) -> LimiterBuilder {
        LimiterBuilder::new(MadeOf::Ticks(ticks))
    }

    /// Takes the cost, if it is there now and nobody waits for it; else takes nothing. A cost of 0 asks and takes nothing.
    ///
    /// With GCRA, the default algorithm, this is one compare-and-swap while nobody waits, and a refusal writes nothing that
    /// other threads use; with others, one lock. It allocates nothing, but for a growing log, and once when a second thread
    /// asks: room to count by thread.
    #[inline]
    pub fn try_acquire(&self, cost: impl Into<Cost>) -> Decision {
        self.core.try_acquire(cost.into())
    }

    /// Takes the cost, in turn: await it in a task, or [wait](Acquire::wait) for it on a thread.
    pub fn acquire(&self, cost: impl Into<Cost>) -> Acquire<'_> {
        Acquire::new(CoreRef::Borrowed(&self.core), cost.into())
    }

    /// Takes an estimate, now or in turn, to be settled when the true cost is known.
    ///
    /// ```
    /// use ratekeeper::{Limiter, Nanos};
    /// let tokens = Limiter::new("1000/day".parse()?)?;
    /// let call = tokens.reserve(800)?;
    /// assert_eq!(call.ready_in(), Some(Nanos::ZERO));
    /// assert!(!tokens.try_acquire(300).allowed, "800 of 1000 are taken");
    /// call.settle(500); // it was less: the rest is given back
    /// assert!(tokens.try_acquire(300).allowed);
    ///
    /// drop(tokens.reserve(150)?); // cancelled in full
    /// assert!(tokens.try_acquire(150).allowed);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the estimate is more than the capacity, the queue is full, or the limiter is closed.
    pub fn reserve(&self, estimate: impl Into<Cost>) -> Result<Reservation, AcquireError> {
        Reservation::new(&self.core, estimate.into())
    }

    /// Decides as if nobody waited, and takes nothing.
    pub fn peek(&self, cost: impl Into<Cost>) -> Decision {
        self.core.peek(cost.into())
    }

    /// Gives back what was taken just now, never above the capacity; those who wait get it at once.
    ///
    /// What was taken comes in again by itself, so what is given back later must not be given back in full: for
    /// anything but the very last moment, use [`refund_charged`](Limiter::refund_charged), or a
    /// [reservation](Limiter::reserve), which knows when it was taken.
    pub fn refund(&self, cost: impl Into<Cost>) {
        self.refund_charged(cost, Charged::NOW);
    }

    /// Gives back what is left of what was taken then: what has come in again since is not given back twice, and after
    /// a [reset](Limiter::reset) nothing is.
    ///
    /// ```
    /// use ratekeeper::{Charged, Limiter};
    /// let limiter = Limiter::new("10/h".parse()?)?;
    /// let decision = limiter.try_acquire(3);
    /// // … the work turns out to be unnecessary …
    /// if let Some(at) = decision.charged_at() {
    ///     limiter.refund_charged(3, Charged::at(at));
    /// }
    /// assert!(limiter.peek(1).remaining >= 9, "10, less what has come in again since");
    /// # Ok::<(), ratekeeper::QuotaError>(())
    /// ```
    pub fn refund_charged(&self, cost: impl Into<Cost>, charged: Charged) {
        let cost = cost.into();
        self.core.with(|queue, at| queue.refund(cost, charged, at));
    }

    /// Forgets all that was taken, and what is owed. A reservation that was made before gives back nothing any more.
    pub fn reset(&self) {
        self.core.with(|queue, at| queue.reset(at));
    }

    /// Changes the quota; `inherit` says what becomes of what was taken. What was taken before cannot be given back any
    /// more: it has come in again at another rate. Whoever waits for more than the new capacity fails now.
    ///
    /// From then on the limiter decides under its lock, which takes a few nanoseconds longer.
    ///
    /// # Errors
    ///
    /// If the new quota counts permits, or this is a limiter of [`Ticks`], which has no quota. Nothing has changed then.
    pub fn set_quota(&self, quota: Quota, inherit: Inherit) -> Result<(), SetQuotaError> {
        check_rate(&quota).map_err(SetQuotaError::Quota)?;
        self.core.set_quota(quota, inherit)
    }

    /// Returns what it has done so far.
    pub fn statistics(&self) -> LimiterStatistics {
        self.core.statistics()
    }

    /// Closes it: everybody who waits fails now, and everybody who comes later. Statistics stay readable.
    pub fn close(&self) {
        self.core.close();
    }

    /// Returns true once it was closed.
    pub fn is_closed(&self) -> bool {
        self.core.is_closed()
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter").field("statistics", &self.statistics()).finish()
    }
}

/// A builder of a [`Limiter`].
#[derive(Clone, Debug)]
#[must_use = "a builder is not a limiter yet: call `build`"]
pub struct LimiterBuilder {
    made_of: MadeOf,
    queue: usize,
    clock: TimeSource,
}

#[derive(Clone, Debug)]
enum MadeOf {
    Quota(Quota),
    Ticks(Ticks),
}

impl LimiterBuilder {
    fn new(made_of: MadeOf) -> Self {
        LimiterBuilder { made_of, queue: usize::MAX, clock: TimeSource::default() }
    }

    /// Sets how many may wait; the next one fails at once. Unbounded by default.
    pub fn queue(mut self, bound: usize) -> Self {
        self.queue = bound;
        self
    }

    /// Sets the clock. By default the process's, or tokio's time if this is built in a runtime that has paused it. Timers
    /// still run on real (or tokio's) time: a clock that is moved by hand suits callers who do not wait.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = TimeSource::new(clock);
        self
    }

    /// Builds the limiter.
    ///
    /// # Errors
    ///
    /// If the quota counts permits, or the ticks cannot be honoured.
    pub fn build(self) -> Result<Limiter, QuotaError> {
        let (kind, capacity) = match self.made_of {
            MadeOf::Quota(quota) => {
                check_rate(&quota)?;
                (LimiterKind::Rate, quota.into())
            }
            MadeOf::Ticks(ticks) => {
                (LimiterKind::Ticks, Supply::Ticks(ticks.build(self.clock.now())?).into())
            }
        };
        Ok(Limiter { core: LimiterCore::new(kind, capacity, self.queue, self.clock) })
    }
}
