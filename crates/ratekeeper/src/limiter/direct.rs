//! One limit.

use std::fmt;

use super::acquire::{Acquire, Held};
use super::core::Core;
use super::error::LimiterKind;
use super::statistics::Statistics;
use super::tank::{Contents, Tank};
use super::ticks::Ticks;
use crate::clock::TimeSource;
use crate::port::Clock;
use crate::quota::QuotaError;
use crate::sync::Arc;
use crate::{Algorithm, Charged, Cost, Decision, Quota};

/// One limit, decided by any algorithm that a quota can name; for those who want an answer now, and for those who
/// would rather wait their turn. Clones are handles of the same limit.
///
/// ```
/// use ratekeeper::{Limiter, Reason};
/// let limiter = Limiter::new("10/m burst 2".parse()?)?;
/// assert!(limiter.try_acquire(1).allowed);
/// assert!(limiter.try_acquire(1).allowed);
/// let refused = limiter.try_acquire(1);
/// assert_eq!((refused.reason, refused.retry_after.unwrap().ceil_secs()), (Reason::QuotaExceeded, 6));
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
/// let error = limiter.acquire(1).within(Duration::from_millis(1)).await.unwrap_err();
/// assert_eq!(error.kind(), AcquireErrorKind::Deadline);
/// assert!(error.retry_after().unwrap().ceil_millis() <= 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Limiter {
    pub(crate) core: Arc<Core>,
}

impl Limiter {
    /// A limiter of this quota. Permits are not counted by it: for `32 concurrent`, see
    /// [`Concurrency`](super::Concurrency).
    pub fn new(quota: Quota) -> Result<Self, QuotaError> {
        Limiter::builder(quota).build()
    }

    /// A limiter with a bounded queue, or another clock.
    pub fn builder(quota: Quota) -> LimiterBuilder {
        LimiterBuilder { made_of: MadeOf::Quota(quota), queue: usize::MAX, clock: TimeSource::default() }
    }

    /// A limiter of whole tokens at whole intervals.
    pub fn ticking(ticks: Ticks) -> Result<Self, QuotaError> {
        Limiter::ticking_builder(ticks).build()
    }

    /// The same, with a bounded queue or another clock.
    pub fn ticking_builder(ticks: Ticks) -> LimiterBuilder {
        LimiterBuilder { made_of: MadeOf::Ticks(ticks), queue: usize::MAX, clock: TimeSource::default() }
    }

    /// Takes, if it can be taken now and nobody waits for it. The cost is a number, or a [`Cost`]; 0 asks and takes
    /// nothing.
    #[inline]
    pub fn try_acquire(&self, cost: impl Into<Cost>) -> Decision {
        self.core.try_acquire(cost.into())
    }

    /// Takes, in turn: awaited in a task, or [waited](Acquire::wait) for on a thread. On a free limiter it neither
    /// allocates nor touches a timer.
    pub fn acquire(&self, cost: impl Into<Cost>) -> Acquire<'_> {
        Acquire::new(Held::Borrowed(&self.core), cost.into())
    }

    /// What is there, whoever waits for it. Takes nothing.
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
        self.core.with(|desk, now, wakes| desk.refund(cost, charged, now, wakes));
    }

    /// Forgets all that was taken, and what is owed. A reservation that was made before gives back nothing any more.
    pub fn reset(&self) {
        self.core.with(|desk, now, wakes| desk.reset(now, wakes));
    }

    /// Changes the quota; `inherit` says what becomes of what was taken. What was taken before cannot be given back any
    /// more: it has come in again at another rate. Whoever waits for more than the new capacity fails now. A limiter of [`Ticks`] has no quota: that is an error.
    ///
    /// From then on the limiter decides under its lock, which takes a few nanoseconds longer.
    pub fn set_quota(&self, quota: Quota, inherit: Inherit) -> Result<(), QuotaError> {
        check(&quota)?;
        self.core.set_quota(quota, inherit)
    }

    /// What it has done so far.
    pub fn statistics(&self) -> Statistics {
        self.core.statistics()
    }

    /// Everybody who waits fails now, and everybody who comes later. Statistics stay readable.
    pub fn close(&self) {
        self.core.with(|desk, _, wakes| desk.close(wakes));
    }

    /// True once it was closed.
    pub fn is_closed(&self) -> bool {
        self.core.with(|desk, _, _| desk.is_closed())
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter").field("statistics", &self.statistics()).finish()
    }
}

/// What becomes of what was taken when the quota changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Inherit {
    /// As much counts as used as was used, cut to the new capacity and rounded up: a drained `10/s` is a drained
    /// `10/h`. Nothing is refilled. (A drained token bucket stays drained under a larger capacity too.)
    ///
    /// (Plans that are reloaded in a [`Keeper`](crate::Keeper) cannot do that: the quota that a stored state was written
    /// under is not known there. A GCRA keeps the time until it is whole, and so counts as less used under a slower
    /// rate.)
    #[default]
    Keep,
    /// The same share of the capacity counts as used, rounded up.
    Proportional,
    /// Nothing was ever taken.
    Reset,
}

/// A limiter in the making.
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
    /// How many may wait; the next one is refused at once. Unbounded unless said otherwise.
    pub fn queue(mut self, bound: usize) -> Self {
        self.queue = bound;
        self
    }

    /// Another clock than the process's. Timers still run on real (or tokio's) time: a clock that is moved by hand
    /// suits those who do not wait.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = TimeSource::new(clock);
        self
    }

    /// The limiter, if its quota is one that state decides.
    pub fn build(self) -> Result<Limiter, QuotaError> {
        let (kind, tank) = match self.made_of {
            MadeOf::Quota(quota) => {
                check(&quota)?;
                (LimiterKind::Rate, Tank::of_quota(quota))
            }
            MadeOf::Ticks(ticks) => {
                (LimiterKind::Ticks, Contents::Ticks(ticks.build(self.clock.now())?).into())
            }
        };
        Ok(Limiter { core: Core::new(kind, tank, self.queue, self.clock) })
    }
}

pub(crate) fn check(quota: &Quota) -> Result<(), QuotaError> {
    if quota.algorithm() == Algorithm::Concurrency {
        let remedy = "what is in flight is held by permits: use `Concurrency`";
        return Err(QuotaError::conflict("algorithm", quota.algorithm().word(), remedy));
    }
    Ok(())
}
