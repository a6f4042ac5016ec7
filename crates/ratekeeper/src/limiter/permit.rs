//! The right to be in flight, and the future of one.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::acquire::Acquire;
use super::core_ref::CoreRef;
use super::error::AcquireError;
use super::queue::PermitOutcome;
use crate::{Charged, Cost, Timestamp};

/// The right to be in flight. Dropping it gives it back; there is no other way, so it cannot be given back twice.
///
/// Dropping it takes one lock, and lets in the next caller who waits.
#[derive(Debug)]
#[must_use = "a permit that is not held is given back at once"]
pub struct Permit<'a> {
    core: CoreRef<'a>,
    /// How many it counts as; more than one only as a part of several.
    cost: Cost,
    since: Timestamp,
    outcome: PermitOutcome,
}

/// A [`Permit`] that borrows nothing: it can live in any task or thread.
pub type OwnedPermit = Permit<'static>;

impl<'a> Permit<'a> {
    pub(crate) fn new(core: CoreRef<'a>, cost: Cost) -> Self {
        let since = core.now();
        Permit { core, cost, since, outcome: PermitOutcome::Ignored }
    }

    /// Gives the permit back, and says how it went: an adaptive limit learns from it.
    pub fn finish(mut self, outcome: PermitOutcome) {
        self.outcome = outcome;
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let (cost, since, outcome) = (self.cost, self.since, self.outcome);
        self.core.with(|queue, at| {
            #[cfg(feature = "adaptive")]
            queue.learn(since, outcome, at.now);
            #[cfg(not(feature = "adaptive"))]
            let _ = (since, outcome);
            queue.refund(cost, Charged::NOW, at);
        });
    }
}

/// A future that waits in turn for a [`Permit`]; made by [`Concurrency::acquire`](super::Concurrency::acquire).
///
/// # Cancel safety
///
/// Dropping it leaves the queue and takes nothing; see [`Acquire`].
///
/// # Panics
///
/// If it is polled after it was ready.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct AcquirePermit<'a> {
    core: CoreRef<'a>,
    acquire: Acquire<'a>,
}

impl<'a> AcquirePermit<'a> {
    pub(crate) fn new(core: CoreRef<'a>) -> Self {
        AcquirePermit { acquire: Acquire::new(core.clone(), Cost::ONE), core }
    }

    /// Waits no longer than this, counted from the first poll. When permits come back cannot be foreseen, so only a time
    /// of zero fails at once.
    pub fn within(mut self, time: Duration) -> Self {
        self.acquire = self.acquire.within(time);
        self
    }

    /// Waits on this thread instead of in a task: in the same queue, and without any runtime.
    ///
    /// # Errors
    ///
    /// As [`Acquire::wait`].
    pub fn wait(self) -> Result<Permit<'a>, AcquireError> {
        self.acquire.wait().map(|_| Permit::new(self.core, Cost::ONE))
    }
}

impl<'a> Future for AcquirePermit<'a> {
    type Output = Result<Permit<'a>, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let granted = ready!(Pin::new(&mut self.acquire).poll(cx));
        Poll::Ready(granted.map(|_| Permit::new(self.core.clone(), Cost::ONE)))
    }
}
