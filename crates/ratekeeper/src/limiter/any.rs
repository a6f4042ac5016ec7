//! What all limiters have in common.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::acquire::Acquire;
use super::acquire_all::AcquireAll;
use super::all::All;
use super::close::Close;
use super::concurrency::Concurrency;
use super::core::LimiterCore;
use super::core_ref::CoreRef;
use super::direct::Limiter;
use super::error::{AcquireError, LimiterKind};
use super::granted::Granted;
use super::leaky_queue::LeakyQueue;
use super::permit::Permit;
use super::statistics::LimiterStatistics;
use crate::sync::Arc;
use crate::{Cost, Decision};

/// What every limiter can do, for code that does not care which one it is given: generic over it, or with a
/// `dyn AnyLimiter`.
///
/// [`Limiter`], [`Concurrency`], [`LeakyQueue`] and [`All`] are such limiters; of a [`Keyed`](super::Keyed), the
/// [handle of a key](super::Keyed::limiter) is. What is granted is a [`Granted`]: keep it for as long as the work takes,
/// for it may hold permits.
///
/// The cost is what a rate is charged. [`Concurrency`] and [`LeakyQueue`] take room for one, for any cost; a cost of 0
/// takes nothing anywhere.
///
/// ```
/// use ratekeeper::limiter::{AcquireError, AnyLimiter, Concurrency, Limiter};
/// use ratekeeper::{Cost, all};
///
/// fn call(limiter: &dyn AnyLimiter) -> Result<&'static str, AcquireError> {
///     let _granted = limiter.acquire(Cost::ONE).wait()?; // or `.await`
///     Ok("called")
/// }
///
/// let (rate, slots) = (Limiter::new("1000/s".parse()?)?, Concurrency::new(4)?);
/// let both = all![&rate, &slots]?;
/// let limiters: [&dyn AnyLimiter; 3] = [&rate, &slots, &both];
/// for limiter in limiters {
///     assert_eq!(call(limiter)?, "called");
///     assert!(limiter.try_acquire(Cost::ONE).is_ok());
/// }
/// assert_eq!((rate.statistics().acquired, slots.statistics().acquired), (4, 4));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait AnyLimiter: Close + fmt::Debug + Send + Sync {
    /// Returns which sort of limiter it is.
    fn kind(&self) -> LimiterKind;

    /// Takes the cost, if it is there now and nobody waits for it.
    ///
    /// # Errors
    ///
    /// The refusal, if it is not.
    fn try_acquire(&self, cost: Cost) -> Result<Granted, Decision>;

    /// Takes the cost, in turn: await it in a task, or [wait](AcquireAny::wait) for it on a thread.
    fn acquire(&self, cost: Cost) -> AcquireAny<'_>;

    /// Returns what it has done so far.
    fn statistics(&self) -> LimiterStatistics;

    /// Returns true once it was closed.
    fn is_closed(&self) -> bool;
}

/// A future that waits in turn for any limiter; made by [`AnyLimiter::acquire`].
///
/// # Cancel safety
///
/// Dropping it leaves the queue and takes nothing; see [`Acquire`] and [`AcquireAll`].
///
/// # Panics
///
/// If it is polled after it was ready.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct AcquireAny<'a>(AnyAcquire<'a>);

#[derive(Debug)]
enum AnyAcquire<'a> {
    /// With the limiter whose permit is to be held, if there is one.
    One(Acquire<'a>, Option<&'a Arc<LimiterCore>>),
    All(AcquireAll<'a>),
}

impl AcquireAny<'_> {
    /// Waits no longer than this, counted from the first poll. If that cannot be enough, it fails at once; a time of zero
    /// means now or never.
    pub fn within(self, time: Duration) -> Self {
        AcquireAny(match self.0 {
            AnyAcquire::One(acquire, permit_of) => AnyAcquire::One(acquire.within(time), permit_of),
            AnyAcquire::All(acquire) => AnyAcquire::All(acquire.within(time)),
        })
    }

    /// Waits on this thread instead of in a task.
    ///
    /// # Errors
    ///
    /// As [`Acquire::wait`].
    pub fn wait(self) -> Result<Granted, AcquireError> {
        match self.0 {
            AnyAcquire::One(acquire, permit_of) => acquire.wait().map(|decision| hold(decision, permit_of)),
            AnyAcquire::All(acquire) => acquire.wait(),
        }
    }
}

impl Future for AcquireAny<'_> {
    type Output = Result<Granted, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            AnyAcquire::One(acquire, permit_of) => {
                Pin::new(acquire).poll(cx).map_ok(|decision| hold(decision, *permit_of))
            }
            AnyAcquire::All(acquire) => Pin::new(acquire).poll(cx),
        }
    }
}

/// What was granted, with the permit that was taken, if one was. The decision is that of when it was taken.
fn hold(decision: Decision, permit_of: Option<&Arc<LimiterCore>>) -> Granted {
    Granted::new(decision, permit_of.map(|core| Permit::new(CoreRef::shared(core), Cost::ONE)))
}

/// Implements the trait for a limiter with one core: what it takes for a cost, and whether that is a permit.
macro_rules! one_core {
    ($limiter:ty, $takes:expr, $holds_permits:expr) => {
        impl AnyLimiter for $limiter {
            fn kind(&self) -> LimiterKind {
                self.core.kind
            }

            fn try_acquire(&self, cost: Cost) -> Result<Granted, Decision> {
                let cost = $takes(cost);
                let decision = self.core.try_acquire(cost);
                let holds = $holds_permits && cost != Cost::ZERO;
                if decision.allowed { Ok(hold(decision, holds.then_some(&self.core))) } else { Err(decision) }
            }

            fn acquire(&self, cost: Cost) -> AcquireAny<'_> {
                let cost = $takes(cost);
                let holds = $holds_permits && cost != Cost::ZERO;
                let acquire = Acquire::new(CoreRef::Borrowed(&self.core), cost);
                AcquireAny(AnyAcquire::One(acquire, holds.then_some(&self.core)))
            }

            fn statistics(&self) -> LimiterStatistics {
                self.core.statistics()
            }

            fn is_closed(&self) -> bool {
                self.core.is_closed()
            }
        }
    };
}

/// One, for any cost but nothing.
fn at_most_one(cost: Cost) -> Cost {
    cost.min(Cost::ONE)
}

one_core!(Limiter, std::convert::identity, false);
one_core!(LeakyQueue, at_most_one, false);
one_core!(Concurrency, at_most_one, true);

impl AnyLimiter for All {
    fn kind(&self) -> LimiterKind {
        LimiterKind::All
    }

    fn try_acquire(&self, cost: Cost) -> Result<Granted, Decision> {
        All::try_acquire(self, cost)
    }

    fn acquire(&self, cost: Cost) -> AcquireAny<'_> {
        AcquireAny(AnyAcquire::All(All::acquire(self, cost)))
    }

    fn statistics(&self) -> LimiterStatistics {
        All::statistics(self)
    }

    fn is_closed(&self) -> bool {
        All::is_closed(self)
    }
}

/// A limiter behind a pointer is one too.
impl<L: AnyLimiter + ?Sized> AnyLimiter for std::sync::Arc<L> {
    fn kind(&self) -> LimiterKind {
        (**self).kind()
    }

    fn try_acquire(&self, cost: Cost) -> Result<Granted, Decision> {
        (**self).try_acquire(cost)
    }

    fn acquire(&self, cost: Cost) -> AcquireAny<'_> {
        (**self).acquire(cost)
    }

    fn statistics(&self) -> LimiterStatistics {
        (**self).statistics()
    }

    fn is_closed(&self) -> bool {
        (**self).is_closed()
    }
}
