//! One face for all limiters.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::acquire::{Acquire, Held};
use super::acquire_all::AcquireAll;
use super::all::{All, Granted, Refusal};
use super::concurrency::Concurrency;
use super::core::Core;
use super::direct::Limiter;
use super::error::{AcquireError, LimiterKind};
use super::leaky_queue::LeakyQueue;
use super::permit::Permit;
use super::repository::Close;
use super::statistics::Statistics;
use crate::sync::Arc;
use crate::{Cost, Decision};

/// What every limiter can do, for code that does not care which one it is given: generic over it, or with a
/// `dyn AnyLimiter`.
///
/// [`Limiter`], [`Concurrency`], [`LeakyQueue`] and [`All`] are such limiters; of a [`Keyed`](super::Keyed), the
/// [handle of a key](super::Keyed::limiter) is. What is granted is a [`Granted`]: keep it for as long as the work takes,
/// for it may hold permits.
///
/// The cost is what a rate is charged. [`Concurrency`] and [`LeakyQueue`] take one permit or place for any cost; a cost
/// of 0 takes nothing anywhere.
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

    /// Takes, if it can be taken now and nobody waits for it.
    fn try_acquire(&self, cost: Cost) -> Result<Granted, Refusal>;

    /// Takes, in turn: awaited in a task, or [waited](AcquireAny::wait) for on a thread.
    fn acquire(&self, cost: Cost) -> AcquireAny<'_>;

    /// Returns what it has done so far.
    fn statistics(&self) -> Statistics;

    /// Returns true once it was closed.
    fn is_closed(&self) -> bool;
}

/// Waits in turn for any limiter; made by [`AnyLimiter::acquire`]. Dropping it gives the place up.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct AcquireAny<'a>(Which<'a>);

#[derive(Debug)]
enum Which<'a> {
    /// With the limiter whose permit is to be held, if there is one.
    One(Acquire<'a>, Option<&'a Arc<Core>>),
    All(AcquireAll<'a>),
}

impl AcquireAny<'_> {
    /// Waits no longer than this. If that cannot be enough, it fails at once; nothing at all means: now or never.
    pub fn within(self, time: Duration) -> Self {
        AcquireAny(match self.0 {
            Which::One(acquire, permit_of) => Which::One(acquire.within(time), permit_of),
            Which::All(acquire) => Which::All(acquire.within(time)),
        })
    }

    /// Waits on this thread instead of in a task; see [`Acquire::wait`].
    pub fn wait(self) -> Result<Granted, AcquireError> {
        match self.0 {
            Which::One(acquire, permit_of) => acquire.wait().map(|decision| hold(decision, permit_of)),
            Which::All(acquire) => acquire.wait(),
        }
    }
}

impl Future for AcquireAny<'_> {
    type Output = Result<Granted, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Which::One(acquire, permit_of) => {
                Pin::new(acquire).poll(cx).map_ok(|decision| hold(decision, *permit_of))
            }
            Which::All(acquire) => Pin::new(acquire).poll(cx),
        }
    }
}

/// What was granted, with the permit that was taken, if one was. What is told is what was decided then.
fn hold(decision: Decision, permit_of: Option<&Arc<Core>>) -> Granted {
    let permit = permit_of.map(|core| Permit::new(Held::Owned(Arc::clone(core)), Cost::ONE));
    Granted::new(decision, permit)
}

/// What the decision of a limiter that nobody waits for amounts to.
fn answer(decision: Decision, kind: LimiterKind, permit_of: Option<&Arc<Core>>) -> Result<Granted, Refusal> {
    if decision.allowed { Ok(hold(decision, permit_of)) } else { Err(Refusal::new(decision, kind)) }
}

/// Whose permit is to be held: nobody's where nothing is taken.
fn taken_of(core: &Arc<Core>, permits: Cost) -> Option<&Arc<Core>> {
    (permits != Cost::PEEK).then_some(core)
}

impl AnyLimiter for Limiter {
    fn kind(&self) -> LimiterKind {
        self.core.kind
    }

    fn try_acquire(&self, cost: Cost) -> Result<Granted, Refusal> {
        answer(Limiter::try_acquire(self, cost), self.core.kind, None)
    }

    fn acquire(&self, cost: Cost) -> AcquireAny<'_> {
        AcquireAny(Which::One(Limiter::acquire(self, cost), None))
    }

    fn statistics(&self) -> Statistics {
        Limiter::statistics(self)
    }

    fn is_closed(&self) -> bool {
        Limiter::is_closed(self)
    }
}

impl AnyLimiter for LeakyQueue {
    fn kind(&self) -> LimiterKind {
        LimiterKind::LeakyQueue
    }

    fn try_acquire(&self, cost: Cost) -> Result<Granted, Refusal> {
        answer(self.core.try_acquire(cost.min(Cost::ONE)), LimiterKind::LeakyQueue, None)
    }

    fn acquire(&self, cost: Cost) -> AcquireAny<'_> {
        let place = cost.min(Cost::ONE);
        AcquireAny(Which::One(Acquire::new(Held::Borrowed(&self.core), place), None))
    }

    fn statistics(&self) -> Statistics {
        LeakyQueue::statistics(self)
    }

    fn is_closed(&self) -> bool {
        LeakyQueue::is_closed(self)
    }
}

impl AnyLimiter for Concurrency {
    fn kind(&self) -> LimiterKind {
        LimiterKind::Concurrency
    }

    fn try_acquire(&self, cost: Cost) -> Result<Granted, Refusal> {
        let permits = cost.min(Cost::ONE);
        answer(self.core.try_acquire(permits), LimiterKind::Concurrency, taken_of(&self.core, permits))
    }

    fn acquire(&self, cost: Cost) -> AcquireAny<'_> {
        let permits = cost.min(Cost::ONE);
        let acquire = Acquire::new(Held::Borrowed(&self.core), permits);
        AcquireAny(Which::One(acquire, taken_of(&self.core, permits)))
    }

    fn statistics(&self) -> Statistics {
        Concurrency::statistics(self)
    }

    fn is_closed(&self) -> bool {
        Concurrency::is_closed(self)
    }
}

impl AnyLimiter for All {
    fn kind(&self) -> LimiterKind {
        LimiterKind::All
    }

    fn try_acquire(&self, cost: Cost) -> Result<Granted, Refusal> {
        All::try_acquire(self, cost)
    }

    fn acquire(&self, cost: Cost) -> AcquireAny<'_> {
        AcquireAny(Which::All(All::acquire(self, cost)))
    }

    fn statistics(&self) -> Statistics {
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

    fn try_acquire(&self, cost: Cost) -> Result<Granted, Refusal> {
        (**self).try_acquire(cost)
    }

    fn acquire(&self, cost: Cost) -> AcquireAny<'_> {
        (**self).acquire(cost)
    }

    fn statistics(&self) -> Statistics {
        (**self).statistics()
    }

    fn is_closed(&self) -> bool {
        (**self).is_closed()
    }
}
