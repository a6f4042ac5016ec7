//! How many at once.

use std::fmt;

use super::core::LimiterCore;
use super::core_ref::CoreRef;
use super::error::LimiterKind;
use super::permit::{AcquirePermit, OwnedPermit, Permit};
#[cfg(feature = "adaptive")]
use super::queue::Adaptive;
use super::statistics::LimiterStatistics;
use super::supply::Supply;
use crate::clock::TimeSource;
use crate::port::Clock;
use crate::sync::Arc;
use crate::{Algorithm, Cost, Decision, Quota, QuotaError};

/// A limit of how many are in flight at once, however long each takes; in the order in which they came. Clones are
/// handles of the same limit.
///
/// ```
/// use ratekeeper::Reason;
/// use ratekeeper::limiter::Concurrency;
/// let database = Concurrency::new(2)?;
/// let first = database.try_acquire().expect("two may");
/// let second = database.try_acquire_owned().expect("two may");
/// assert_eq!(database.try_acquire().unwrap_err().reason, Reason::AtCapacity);
/// drop(first); // by scope, by panic or by cancellation: a permit comes back exactly once
/// assert!(database.try_acquire().is_ok());
/// std::thread::spawn(move || drop(second)).join().unwrap();
/// # Ok::<(), ratekeeper::QuotaError>(())
/// ```
#[derive(Clone)]
pub struct Concurrency {
    pub(super) core: Arc<LimiterCore>,
}

impl Concurrency {
    /// Builds a limit of this many at once.
    ///
    /// # Errors
    ///
    /// If the limit is 0, or more than [`Quota::MAX_COUNT`].
    pub fn new(limit: u64) -> Result<Self, QuotaError> {
        Concurrency::builder(Quota::concurrent(limit).build()?).build()
    }

    /// Returns a builder, for a bounded queue or another clock, of a quota such as `32 concurrent`.
    pub fn builder(quota: Quota) -> ConcurrencyBuilder {
        ConcurrencyBuilder {
            quota,
            queue: usize::MAX,
            clock: TimeSource::default(),
            #[cfg(feature = "adaptive")]
            adaptive: None,
        }
    }

    /// Takes a permit, if one is free and nobody waits for it. One lock, no allocation.
    ///
    /// # Errors
    ///
    /// The refusal, if there is none. When one comes back cannot be foreseen: `retry_after` is `None`.
    pub fn try_acquire(&self) -> Result<Permit<'_>, Decision> {
        self.try_take().map(|()| Permit::new(CoreRef::Borrowed(&self.core), Cost::ONE))
    }

    /// Like [`try_acquire`](Concurrency::try_acquire), but the permit can be moved into a task or thread.
    ///
    /// # Errors
    ///
    /// The refusal, if there is none.
    pub fn try_acquire_owned(&self) -> Result<OwnedPermit, Decision> {
        self.try_take().map(|()| Permit::new(CoreRef::shared(&self.core), Cost::ONE))
    }

    /// Takes a permit, in turn.
    pub fn acquire(&self) -> AcquirePermit<'_> {
        AcquirePermit::new(CoreRef::Borrowed(&self.core))
    }

    /// Like [`acquire`](Concurrency::acquire), but future and permit can be moved into a task or thread.
    pub fn acquire_owned(&self) -> AcquirePermit<'static> {
        AcquirePermit::new(CoreRef::shared(&self.core))
    }

    fn try_take(&self) -> Result<(), Decision> {
        let decision = self.core.try_acquire(Cost::ONE);
        if decision.allowed { Ok(()) } else { Err(decision) }
    }

    /// Changes the limit. If more are in flight than may be now, nobody is let in until they are not. An adaptive
    /// limit moves on from there, and stays within its bounds.
    ///
    /// # Errors
    ///
    /// If the limit is 0, or more than [`Quota::MAX_COUNT`].
    pub fn set_limit(&self, limit: u64) -> Result<(), QuotaError> {
        let limit = Quota::concurrent(limit).build()?.burst();
        self.core.with(|queue, at| queue.set_limit(limit, at));
        Ok(())
    }

    /// Returns how many may be in flight.
    pub fn limit(&self) -> u64 {
        self.statistics().max
    }

    /// Returns how many are in flight.
    pub fn in_flight(&self) -> u64 {
        self.core.with(|queue, _| queue.in_flight())
    }

    /// Returns what it has done so far.
    pub fn statistics(&self) -> LimiterStatistics {
        self.core.statistics()
    }

    /// Closes it: everybody who waits fails now, and everybody who comes later. Permits that are held stay valid.
    pub fn close(&self) {
        self.core.close();
    }

    /// Returns true once it was closed.
    pub fn is_closed(&self) -> bool {
        self.core.is_closed()
    }
}

impl fmt::Debug for Concurrency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Concurrency").field("statistics", &self.statistics()).finish()
    }
}

/// A builder of a [`Concurrency`].
#[derive(Clone, Debug)]
#[must_use = "a builder is not a limit yet: call `build`"]
pub struct ConcurrencyBuilder {
    quota: Quota,
    queue: usize,
    clock: TimeSource,
    #[cfg(feature = "adaptive")]
    adaptive: Option<Adaptive>,
}

impl ConcurrencyBuilder {
    /// Sets how many may wait; the next one fails at once. Unbounded by default.
    pub fn queue(mut self, bound: usize) -> Self {
        self.queue = bound;
        self
    }

    /// Sets the clock, which measures how long permits are held, and deadlines. By default the process's, or tokio's time
    /// if this is built in a runtime that has paused it.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = TimeSource::new(clock);
        self
    }

    /// Lets the limit move by itself, beginning with the quota's.
    #[cfg(feature = "adaptive")]
    pub fn adaptive(mut self, adaptive: Adaptive) -> Self {
        self.adaptive = Some(adaptive);
        self
    }

    /// Builds the limit.
    ///
    /// # Errors
    ///
    /// If the quota is a rate: build a [`Limiter`](super::Limiter).
    pub fn build(self) -> Result<Concurrency, QuotaError> {
        if self.quota.algorithm() != Algorithm::Concurrency {
            let remedy = "permits have no rate: write `32 concurrent`, or use `Limiter`";
            return Err(QuotaError::conflict("algorithm", self.quota.algorithm().word(), remedy));
        }
        let limit = self.quota.burst();
        let permits = Supply::Permits { limit, in_flight: 0 };
        let core = LimiterCore::new(LimiterKind::Concurrency, permits.into(), self.queue, self.clock);
        #[cfg(feature = "adaptive")]
        if let Some(adaptive) = self.adaptive {
            core.with(|queue, at| {
                queue.adapt(adaptive.begin(limit));
                queue.set_limit(limit, at);
            });
        }
        Ok(Concurrency { core })
    }
}
