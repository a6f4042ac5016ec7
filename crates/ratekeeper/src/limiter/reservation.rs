//! Taking what is thought to be needed, and paying for what was.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::blocking::{BlockingFuture, block_on};
use super::core::LimiterCore;
use super::error::{AcquireError, LimiterKind};
use super::queue::{Admission, PendingCharge, WaitOutcome, WaitRequest, WaiterId, WaiterKind, ticket};
use super::timer;
use crate::sync::Arc;
use crate::{Cost, Nanos, Timestamp};

/// An estimate that is taken, or waits in the queue; made by [`Limiter::reserve`](super::Limiter::reserve). Dropping it
/// cancels it in full.
///
/// Until its turn it waits like everybody else, and like everybody else it is not overtaken. What was taken comes in
/// again by itself: cancelled or settled late, a reservation gives back only what has not. Nothing is admitted twice.
#[derive(Debug)]
#[must_use = "a reservation that is dropped is cancelled"]
pub struct Reservation {
    core: Arc<LimiterCore>,
    estimate: Cost,
    hold: Hold,
}

#[derive(Clone, Copy, Debug)]
enum Hold {
    Charged(PendingCharge),
    Queued(WaiterId),
    /// It was sent away: nothing is taken.
    Failed(AcquireError),
    Settled,
}

impl Reservation {
    pub(super) fn new(core: &Arc<LimiterCore>, estimate: Cost) -> Result<Self, AcquireError> {
        let kind = WaiterKind::Single;
        let request = WaitRequest { cost: estimate, deadline: None, ticket: ticket(), kind };
        let hold = core.with(|queue, at| {
            queue.enter(request, at).map(|admission| match admission {
                Admission::Granted(_) => Hold::Charged(queue.charge_at(at.now)),
                Admission::Waiting(id) => Hold::Queued(id),
            })
        })?;
        Ok(Reservation { core: Arc::clone(core), estimate, hold })
    }

    /// Returns how long until its turn, given those ahead of it: zero once it has come, `None` if it never will (the
    /// limiter was closed, or its capacity lowered below the estimate). Looks at everybody ahead: do not ask in a loop
    /// while many wait.
    pub fn ready_in(&self) -> Option<Nanos> {
        match self.hold {
            Hold::Queued(id) => self.core.with(|queue, at| queue.turn_in(id, at)),
            Hold::Failed(_) => None,
            Hold::Charged(_) | Hold::Settled => Some(Nanos::ZERO),
        }
    }

    /// Waits for its turn. What has failed once fails again.
    pub fn ready(&mut self) -> Ready<'_> {
        Ready { reservation: self, within: None, blocking: false }
    }

    /// Charges what it really was: the difference is given back, or charged.
    ///
    /// What is charged may be more than there is: then it is paid off before anybody else gets anything. So it is for a
    /// reservation that has [failed](Reservation::ready): it has taken nothing, so whatever was used all the same is
    /// owed. A closed limiter charges nobody.
    pub fn settle(mut self, actual: impl Into<Cost>) {
        let actual = actual.into();
        let (hold, estimate) = (std::mem::replace(&mut self.hold, Hold::Settled), self.estimate);
        self.core.with(|queue, at| {
            let charge = match hold {
                Hold::Settled => return,
                Hold::Charged(charge) => Some(charge),
                Hold::Failed(_) => None,
                // Used before its turn, or although it was sent away: all of it is owed.
                Hold::Queued(id) => queue.conclude(id, at),
            };
            queue.settle(estimate, charge, actual, at);
        });
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let (hold, estimate) = (self.hold, self.estimate);
        self.core.with(|queue, at| match hold {
            Hold::Charged(charge) => queue.give_up(estimate, charge, at),
            Hold::Queued(id) => queue.leave(id, at),
            Hold::Failed(_) | Hold::Settled => {}
        });
    }
}

/// A future that waits for the turn of a [`Reservation`]; made by [`Reservation::ready`].
///
/// # Cancel safety
///
/// Dropping it gives up neither the turn nor the grant: those are the reservation's.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Ready<'a> {
    reservation: &'a mut Reservation,
    within: Option<Nanos>,
    /// A thread polls, and keeps the time itself.
    blocking: bool,
}

impl Ready<'_> {
    /// Waits no longer than this, counted from the first poll: after that the reservation has failed, and left the queue.
    /// If that cannot be enough, it fails at once: to tell, the first poll looks at everybody ahead.
    pub fn within(mut self, time: Duration) -> Self {
        self.within = Some(time.into());
        self
    }

    /// Waits on this thread instead of in a task: in the same queue, and without any runtime.
    ///
    /// ```
    /// use ratekeeper::Limiter;
    /// let limiter = Limiter::new("1000/s burst 1".parse()?)?;
    /// assert!(limiter.try_acquire(1).allowed);
    /// let mut call = limiter.reserve(1)?;
    /// call.ready().wait()?;
    /// call.settle(1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Acquire::wait`](super::Acquire::wait).
    pub fn wait(self) -> Result<(), AcquireError> {
        block_on(self)
    }
}

impl BlockingFuture for Ready<'_> {
    type Waited = ();

    fn block(&mut self, keeps_time: bool) {
        self.blocking = keeps_time;
    }

    fn turn(&mut self) -> Option<Nanos> {
        let Hold::Queued(id) = self.reservation.hold else { return Some(Nanos::ZERO) };
        self.reservation.core.turn_of_thread(id)
    }

    fn runtime_now(&self) -> Option<Timestamp> {
        self.reservation.core.clock.runtime_now()
    }

    fn limiter(&self) -> LimiterKind {
        self.reservation.core.kind
    }
}

impl Future for Ready<'_> {
    type Output = Result<(), AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (within, may_start) = (self.within.take(), !self.blocking);
        let Reservation { core, hold, .. } = &mut *self.reservation;
        if let Hold::Queued(id) = *hold {
            let (held, starts_timer) = core.with(|queue, at| {
                let hastened = within.map(|within| queue.hasten(id, at.now + within, at));
                if let Some(Err(error)) = hastened {
                    return (Hold::Failed(error), false);
                }
                match queue.collect(id, cx.waker(), at) {
                    Some(WaitOutcome::Failed(error)) => (Hold::Failed(error), false),
                    Some(WaitOutcome::Granted(_, charge)) => (Hold::Charged(charge), false),
                    None => (Hold::Queued(id), may_start && queue.promise_timer()),
                }
            });
            *hold = held;
            if starts_timer {
                timer::start(core);
            }
        }
        match hold {
            Hold::Queued(_) => Poll::Pending,
            Hold::Failed(error) => Poll::Ready(Err(*error)),
            Hold::Charged(_) | Hold::Settled => Poll::Ready(Ok(())),
        }
    }
}
