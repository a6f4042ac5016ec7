//! One limit.

use std::fmt;
use std::sync::Arc as StdArc;

use super::acquire::{Acquire, Held};
use super::clock::Source;
use super::core::Core;
use super::statistics::Statistics;
use super::sync::Arc;
use super::tank::Tank;
use super::ticks::Ticks;
use crate::port::Clock;
use crate::quota::QuotaError;
use crate::{Algorithm, Cost, Decision, Quota};

/// One limit, decided by any algorithm that a quota can name; for those who want an answer now, and for those who
/// would rather wait their turn. Clones are handles of the same limit.
///
/// ```
/// use ratekeeper::limiter::Limiter;
/// use ratekeeper::{Cost, Reason};
/// let limiter = Limiter::new("10/m burst 2".parse()?)?;
/// assert!(limiter.try_acquire(Cost::ONE).allowed);
/// assert!(limiter.try_acquire(Cost::ONE).allowed);
/// let refused = limiter.try_acquire(Cost::ONE);
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
/// use ratekeeper::limiter::{AcquireError, Limiter};
/// use ratekeeper::Cost;
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// # runtime.block_on(async {
/// let limiter = Limiter::new("100/s burst 1".parse()?)?;
/// for _ in 0..3 {
///     limiter.acquire(Cost::ONE).await?; // one every ten milliseconds
/// }
/// let error = limiter.acquire(Cost::ONE).within(Duration::from_millis(1)).await.unwrap_err();
/// assert!(matches!(error, AcquireError::Deadline { ready_in: Some(wait) } if wait.ceil_millis() <= 10));
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
        LimiterBuilder { made_of: MadeOf::Quota(quota), queue: usize::MAX, clock: Source::default() }
    }

    /// A limiter of whole tokens at whole intervals.
    pub fn ticking(ticks: Ticks) -> Result<Self, QuotaError> {
        Limiter::ticking_builder(ticks).build()
    }

    /// The same, with a bounded queue or another clock.
    pub fn ticking_builder(ticks: Ticks) -> LimiterBuilder {
        LimiterBuilder { made_of: MadeOf::Ticks(ticks), queue: usize::MAX, clock: Source::default() }
    }

    /// Takes, if it can be taken now and nobody waits for it.
    #[inline]
    pub fn try_acquire(&self, cost: Cost) -> Decision {
        self.core.try_acquire(cost)
    }

    /// Takes, in turn: awaited in a task, or [waited](Acquire::wait) for on a thread. On a free limiter it neither
    /// allocates nor touches a timer.
    pub fn acquire(&self, cost: Cost) -> Acquire<'_> {
        Acquire::new(Held::Borrowed(&self.core), cost)
    }

    /// What is there, whoever waits for it. Takes nothing.
    pub fn peek(&self, cost: Cost) -> Decision {
        self.core.peek(cost)
    }

    /// Gives back, never above the capacity; those who wait get it at once.
    pub fn refund(&self, cost: Cost) {
        self.core.with(|desk, now, wakes| desk.refund(cost, now, wakes));
    }

    /// Forgets all that was taken.
    pub fn reset(&self) {
        self.core.with(|desk, now, wakes| desk.reset(now, wakes));
    }

    /// Changes the quota; `inherit` says what becomes of what was taken. Whoever waits for more than the new
    /// capacity fails now. A limiter of [`Ticks`] has no quota: that is an error.
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
    /// The state is read under the new quota, cut to its capacity; nothing is refilled. If another algorithm
    /// decides from now on, as much counts as used as was used.
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
    clock: Source,
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
        self.clock = Source::Other(StdArc::new(clock));
        self
    }

    /// The limiter, if its quota is one that state decides.
    pub fn build(self) -> Result<Limiter, QuotaError> {
        let tank = match self.made_of {
            MadeOf::Quota(quota) => {
                check(&quota)?;
                Tank::Rate { quota, state: None }
            }
            MadeOf::Ticks(ticks) => Tank::Ticks(ticks.build(self.clock.now())?),
        };
        Ok(Limiter { core: Core::new(tank, self.queue, self.clock) })
    }
}

pub(crate) fn check(quota: &Quota) -> Result<(), QuotaError> {
    if quota.algorithm() == Algorithm::Concurrency {
        let remedy = "what is in flight is held by permits: use `Concurrency`";
        return Err(QuotaError::conflict("algorithm", quota.algorithm().word(), remedy));
    }
    Ok(())
}
