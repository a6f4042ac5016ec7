//! Taking what is thought to be needed, and paying for what was.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::Limiter;
use super::acquire::ticket;
use super::core::Core;
use super::desk::{Entry, Request};
use super::error::AcquireError;
use super::queue::{Kind, Phase, Place};
use super::sync::Arc;
use super::timer;
use crate::{Cost, Nanos, Timestamp};

impl Limiter {
    /// Takes an estimate, now or in turn, to be settled when the true cost is known.
    ///
    /// ```
    /// use ratekeeper::{Cost, Limiter, Nanos};
    /// let tokens = Limiter::new("60000/m burst 1000".parse()?)?;
    /// let call = tokens.reserve(Cost::new(800))?;
    /// assert_eq!(call.ready_in(), Some(Nanos::ZERO));
    /// assert!(!tokens.try_acquire(Cost::new(300)).allowed, "800 of 1000 are taken");
    /// call.settle(Cost::new(500)); // it was less: the rest is given back
    /// assert!(tokens.try_acquire(Cost::new(300)).allowed);
    ///
    /// drop(tokens.reserve(Cost::new(150))?); // cancelled in full
    /// assert!(tokens.try_acquire(Cost::new(150)).allowed);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve(&self, estimate: Cost) -> Result<Reservation, AcquireError> {
        let request = Request { cost: estimate, deadline: None, ticket: ticket(), kind: Kind::Solo };
        let hold = self.core.with(|desk, now, wakes| {
            desk.enter(request, now, wakes).map(|entry| match entry {
                Entry::Granted(_) => Hold::Charged(now),
                Entry::Waiting(place) => Hold::Queued(place),
            })
        })?;
        Ok(Reservation { core: Arc::clone(&self.core), estimate, hold })
    }
}

/// An estimate that is taken, or has its place in the queue. Dropping it cancels it in full.
///
/// While it has not come to its turn it waits like everybody else, and like everybody else it is not overtaken.
#[derive(Debug)]
#[must_use = "a reservation that is dropped is cancelled"]
pub struct Reservation {
    core: Arc<Core>,
    estimate: Cost,
    hold: Hold,
}

#[derive(Clone, Copy, Debug)]
enum Hold {
    Charged(Timestamp),
    Queued(Place),
    Settled,
}

impl Reservation {
    /// How long until its turn, given those ahead of it; zero once it has come. None if it never will: the limiter
    /// was closed, or its capacity lowered below the estimate.
    pub fn ready_in(&self) -> Option<Nanos> {
        let Hold::Queued(place) = self.hold else { return Some(Nanos::ZERO) };
        self.core.with(|desk, now, wakes| {
            desk.pump(now, wakes);
            match desk.queue.get(place)?.phase {
                Phase::Granted(_) => Some(Nanos::ZERO),
                Phase::Failed(_) => None,
                Phase::Waiting | Phase::Called => Some(desk.project_place(place, now)?.since(now)),
            }
        })
    }

    /// Waits for its turn.
    pub fn ready(&mut self) -> Ready<'_> {
        Ready(self)
    }

    /// Charges what it really was: the difference is given back, or charged. What is charged may be more than
    /// there is: then it is paid off before anybody else gets anything.
    pub fn settle(mut self, actual: Cost) {
        let (hold, estimate) = (std::mem::replace(&mut self.hold, Hold::Settled), self.estimate);
        self.core.with(|desk, now, wakes| {
            let charged = match hold {
                Hold::Settled => return,
                Hold::Charged(at) => Some(at),
                Hold::Queued(place) => {
                    desk.pump(now, wakes);
                    match desk.conclude(place) {
                        Some(Phase::Granted(at)) => Some(at),
                        Some(Phase::Failed(_)) | None => return,
                        // It was used before its turn: all of it is owed.
                        Some(Phase::Waiting | Phase::Called) => None,
                    }
                }
            };
            let taken = charged.map_or(0, |_| estimate.get());
            match charged {
                Some(at) if actual < estimate => {
                    desk.refund(Cost::new(taken - actual.get()), at, now, wakes);
                }
                _ => desk.owe(Cost::new(actual.get() - taken), now, wakes),
            }
        });
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let (hold, estimate) = (self.hold, self.estimate);
        self.core.with(|desk, now, wakes| match hold {
            Hold::Charged(at) => desk.give_up(estimate, at, now, wakes),
            Hold::Queued(place) => desk.leave(place, now, wakes),
            Hold::Settled => {}
        });
    }
}

/// Waits for the turn of a reservation; dropping it gives up neither the place nor the grant.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Ready<'a>(&'a mut Reservation);

impl Future for Ready<'_> {
    type Output = Result<(), AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let reservation = &mut *self.0;
        let Hold::Queued(place) = reservation.hold else { return Poll::Ready(Ok(())) };
        let charged = reservation.core.with(|desk, _, _| match desk.queue.get(place)?.phase {
            Phase::Granted(at) => Some(at),
            _ => None,
        });
        let (outcome, hire) = reservation.core.poll(place, cx.waker(), true);
        if hire {
            timer::hire(&reservation.core);
        }
        let Some(outcome) = outcome else { return Poll::Pending };
        reservation.hold = match outcome {
            Ok(_) => Hold::Charged(charged.unwrap_or_else(|| reservation.core.now())),
            Err(_) => Hold::Settled,
        };
        Poll::Ready(outcome.map(|_| ()))
    }
}
