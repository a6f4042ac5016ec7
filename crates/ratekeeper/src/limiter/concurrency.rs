//! How many at once.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::acquire::{Acquire, Held};
use super::core::Core;
use super::error::{AcquireError, LimiterKind};
use super::park::{Blockable, block_on};
use super::permit::{OwnedPermit, Permit};
use super::statistics::Statistics;
use super::tank::Contents;
use crate::clock::TimeSource;
use crate::port::Clock;
use crate::quota::QuotaError;
use crate::sync::Arc;
use crate::{Algorithm, Cost, Nanos, Quota, Timestamp};

/// At most so many at once, however long each takes; in the order in which they came. Clones are handles of the
/// same limit.
///
/// ```
/// use ratekeeper::limiter::Concurrency;
/// let database = Concurrency::new(2)?;
/// let first = database.try_acquire().expect("two may");
/// let second = database.try_acquire_owned().expect("two may");
/// assert!(database.try_acquire().is_none());
/// drop(first); // by scope, by panic or by cancellation: a permit comes back exactly once
/// assert!(database.try_acquire().is_some());
/// std::thread::spawn(move || drop(second)).join().unwrap();
/// # Ok::<(), ratekeeper::QuotaError>(())
/// ```
#[derive(Clone)]
pub struct Concurrency {
    pub(crate) core: Arc<Core>,
}

impl Concurrency {
    /// At most `limit` at once.
    pub fn new(limit: u64) -> Result<Self, QuotaError> {
        Concurrency::builder(Quota::concurrent(limit).build()?).build()
    }

    /// A limit with a bounded queue, or another clock; of a quota such as `32 concurrent`.
    pub fn builder(quota: Quota) -> ConcurrencyBuilder {
        ConcurrencyBuilder {
            quota,
            queue: usize::MAX,
            clock: TimeSource::default(),
            #[cfg(feature = "adaptive")]
            adaptive: None,
        }
    }

    /// A permit, if one is free and nobody waits for it.
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        self.try_take().then(|| Permit::new(Held::Borrowed(&self.core), Cost::ONE))
    }

    /// The same, to take along into a task or thread.
    pub fn try_acquire_owned(&self) -> Option<OwnedPermit> {
        self.try_take().then(|| Permit::new(Held::Owned(Arc::clone(&self.core)), Cost::ONE))
    }

    /// A permit, in turn.
    pub fn acquire(&self) -> AcquirePermit<'_> {
        AcquirePermit::new(Held::Borrowed(&self.core))
    }

    /// The same, to take along into a task or thread.
    pub fn acquire_owned(&self) -> AcquirePermit<'static> {
        AcquirePermit::new(Held::Owned(Arc::clone(&self.core)))
    }

    fn try_take(&self) -> bool {
        self.core.try_acquire(Cost::ONE).allowed
    }

    /// Changes the limit. If more are in flight than may be now, nobody is let in until they are not. An adaptive
    /// limit moves on from there, and stays within its bounds.
    pub fn set_limit(&self, limit: u64) -> Result<(), QuotaError> {
        let limit = Quota::concurrent(limit).build()?.burst();
        self.core.with(|desk, now, wakes| desk.set_limit(limit, now, wakes));
        Ok(())
    }

    /// How many may be in flight.
    pub fn limit(&self) -> u64 {
        self.statistics().max
    }

    /// How many are in flight.
    pub fn in_flight(&self) -> u64 {
        self.core.with(|desk, _, _| match desk.tank.contents {
            Contents::Permits { in_flight, .. } => in_flight,
            _ => 0,
        })
    }

    /// What it has done so far.
    pub fn statistics(&self) -> Statistics {
        self.core.statistics()
    }

    /// Everybody who waits fails now, and everybody who comes later. Permits that are held stay valid.
    pub fn close(&self) {
        self.core.with(|desk, _, wakes| desk.close(wakes));
    }

    /// Returns true once it was closed.
    pub fn is_closed(&self) -> bool {
        self.core.with(|desk, _, _| desk.is_closed())
    }
}

impl fmt::Debug for Concurrency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Concurrency").field("statistics", &self.statistics()).finish()
    }
}

/// A concurrency limit in the making.
#[derive(Clone, Debug)]
#[must_use = "a builder is not a limit yet: call `build`"]
pub struct ConcurrencyBuilder {
    quota: Quota,
    queue: usize,
    clock: TimeSource,
    #[cfg(feature = "adaptive")]
    adaptive: Option<super::adaptive::Adaptive>,
}

impl ConcurrencyBuilder {
    /// How many may wait; the next one is refused at once. Unbounded unless said otherwise.
    pub fn queue(mut self, bound: usize) -> Self {
        self.queue = bound;
        self
    }

    /// Another clock than the process's; it measures how long permits are held, and deadlines.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = TimeSource::new(clock);
        self
    }

    /// The limit moves by itself, beginning with the quota's; see [`Adaptive`](super::adaptive::Adaptive).
    #[cfg(feature = "adaptive")]
    pub fn adaptive(mut self, adaptive: super::adaptive::Adaptive) -> Self {
        self.adaptive = Some(adaptive);
        self
    }

    /// The limit, if the quota is one of permits.
    pub fn build(self) -> Result<Concurrency, QuotaError> {
        if self.quota.algorithm() != Algorithm::Concurrency {
            let remedy = "permits have no rate: write `32 concurrent`, or use `Limiter`";
            return Err(QuotaError::conflict("algorithm", self.quota.algorithm().word(), remedy));
        }
        let permits = Contents::Permits { limit: self.quota.burst(), in_flight: 0 };
        let core = Core::new(LimiterKind::Concurrency, permits.into(), self.queue, self.clock);
        #[cfg(feature = "adaptive")]
        if let Some(adaptive) = self.adaptive {
            core.with(|desk, now, wakes| {
                let limit = adaptive.begin(self.quota.burst());
                desk.adaptive = Some(limit);
                desk.set_limit(self.quota.burst(), now, wakes);
            });
        }
        Ok(Concurrency { core })
    }
}

/// Waits in turn for a permit.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct AcquirePermit<'a> {
    held: Held<'a>,
    acquire: Acquire<'a>,
}

impl<'a> AcquirePermit<'a> {
    fn new(held: Held<'a>) -> Self {
        AcquirePermit { acquire: Acquire::new(held.clone(), Cost::ONE), held }
    }

    /// Waits no longer than this. When permits come back cannot be foreseen, so only no time at all fails at once.
    pub fn within(mut self, time: Duration) -> Self {
        self.acquire = self.acquire.within(time);
        self
    }

    /// Waits on this thread instead of in a task: in the same queue, and without any runtime.
    pub fn wait(self) -> Result<Permit<'a>, AcquireError> {
        block_on(self)
    }
}

impl<'a> Future for AcquirePermit<'a> {
    type Output = Result<Permit<'a>, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let granted = ready!(Pin::new(&mut self.acquire).poll(cx));
        Poll::Ready(granted.map(|_| Permit::new(self.held.clone(), Cost::ONE)))
    }
}

impl<'a> Blockable for AcquirePermit<'a> {
    type Grant = Permit<'a>;

    fn block(&mut self, keeps_time: bool) {
        self.acquire.block(keeps_time);
    }

    fn turn(&mut self) -> Option<Nanos> {
        self.acquire.turn()
    }

    fn paused_clock(&self) -> Option<Timestamp> {
        self.acquire.paused_clock()
    }

    fn limiter(&self) -> LimiterKind {
        LimiterKind::Concurrency
    }
}
