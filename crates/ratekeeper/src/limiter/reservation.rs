//! Taking what is thought to be needed, and paying for what was.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::Limiter;
use super::acquire::ticket;
use super::core::Core;
use super::desk::{Collected, Desk, Entry, Request};
use super::error::{AcquireError, LimiterKind};
use super::park::{Blockable, block_on};
use super::queue::{Charge, Kind, Phase, Place};
use super::timer;
use super::wakes::Wakes;
use crate::sync::Arc;
use crate::{Cost, Nanos, Timestamp};

impl Limiter {
    /// Takes an estimate, now or in turn, to be settled when the true cost is known.
    ///
    /// ```
    /// use ratekeeper::{Limiter, Nanos};
    /// let tokens = Limiter::new("60000/m burst 1000".parse()?)?;
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
    /// What was taken comes in again by itself. Cancelled or settled late, a reservation gives back only what has not:
    /// nothing is admitted twice.
    pub fn reserve(&self, estimate: impl Into<Cost>) -> Result<Reservation, AcquireError> {
        let estimate = estimate.into();
        let request = Request { cost: estimate, deadline: None, ticket: ticket(), kind: Kind::Solo };
        let hold = self.core.with(|desk, now, wakes| {
            desk.enter(request, now, wakes).map(|entry| match entry {
                Entry::Granted(_) => Hold::Charged(desk.charge_at(now)),
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
    Charged(Charge),
    Queued(Place),
    /// It was sent away: nothing is taken.
    Failed(AcquireError),
    Settled,
}

impl Reservation {
    /// How long until its turn, given those ahead of it; zero once it has come. None if it never will: the limiter
    /// was closed, or its capacity lowered below the estimate. Looks at everybody ahead: do not ask in a loop while many
    /// wait.
    pub fn ready_in(&self) -> Option<Nanos> {
        let place = match self.hold {
            Hold::Queued(place) => place,
            Hold::Failed(_) => return None,
            Hold::Charged(_) | Hold::Settled => return Some(Nanos::ZERO),
        };
        self.core.with(|desk, now, wakes| {
            desk.pump(now, wakes);
            match desk.queue.get(place)?.phase {
                Phase::Granted { .. } => Some(Nanos::ZERO),
                Phase::Failed(_) => None,
                Phase::Waiting | Phase::Called => Some(desk.project_place(place, now)?.since(now)),
            }
        })
    }

    /// Waits for its turn. What has failed once fails again.
    pub fn ready(&mut self) -> Ready<'_> {
        Ready { reservation: self, within: None, blocking: false }
    }

    /// Charges what it really was: the difference is given back, or charged. What is charged may be more than
    /// there is: then it is paid off before anybody else gets anything. That is so for one that has
    /// [failed](Reservation::ready), too: it has taken nothing, so whatever was used all the same is owed. A closed
    /// limiter charges nobody.
    pub fn settle(mut self, actual: impl Into<Cost>) {
        let actual = actual.into();
        let (hold, estimate) = (std::mem::replace(&mut self.hold, Hold::Settled), self.estimate);
        self.core.with(|desk, now, wakes| {
            let charged = match hold {
                Hold::Settled => return,
                Hold::Charged(charge) => Some(charge),
                Hold::Failed(_) => None,
                Hold::Queued(place) => {
                    desk.pump(now, wakes);
                    // Used before its turn, or although it was sent away: all of it is owed.
                    desk.conclude(place, wakes).and_then(Phase::charge)
                }
            };
            let taken = charged.map_or(0, |_| estimate.get());
            match charged {
                Some(charge) if actual < estimate => {
                    desk.give_back(Cost::new(taken - actual.get()), charge, now, wakes);
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
            Hold::Charged(charge) => desk.give_up(estimate, charge, now, wakes),
            Hold::Queued(place) => desk.leave(place, now, wakes),
            Hold::Failed(_) | Hold::Settled => {}
        });
    }
}

/// Waits for the turn of a reservation; dropping it gives up neither the place nor the grant.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Ready<'a> {
    reservation: &'a mut Reservation,
    within: Option<Nanos>,
    /// A thread polls, and keeps the time itself.
    blocking: bool,
}

impl Ready<'_> {
    /// Waits no longer than this, from when it is first polled: after that the reservation has failed, and its place
    /// is lost. If it cannot be enough, that is so at once: to tell, the first poll looks at everybody ahead.
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
    pub fn wait(self) -> Result<(), AcquireError> {
        block_on(self)
    }
}

impl Blockable for Ready<'_> {
    type Grant = ();

    fn block(&mut self, keeps_time: bool) {
        self.blocking = keeps_time;
    }

    fn turn(&mut self) -> Option<Nanos> {
        let Hold::Queued(place) = self.reservation.hold else { return Some(Nanos::ZERO) };
        self.reservation.core.turn_of(place)
    }

    fn paused_clock(&self) -> Option<Timestamp> {
        self.reservation.core.paused_now()
    }

    fn limiter(&self) -> LimiterKind {
        self.reservation.core.kind
    }
}

impl Desk {
    /// Gives one that waits a deadline. If that cannot be met, it has left with this error.
    fn hasten(
        &mut self,
        place: Place,
        deadline: Timestamp,
        now: Timestamp,
        wakes: &mut Wakes,
    ) -> Result<(), AcquireError> {
        self.pump(now, wakes);
        if !self.waits(place) {
            return Ok(());
        }
        let ready = self.project_place(place, now);
        let in_vain = deadline <= now || ready.is_some_and(|ready| ready > deadline);
        if in_vain {
            self.step_aside(place, wakes);
            self.count_rejection();
            self.pump(now, wakes);
            return Err(self.too_late(ready, now));
        }
        self.queue.set_deadline(place, deadline);
        self.poke(now, wakes);
        Ok(())
    }
}

impl Future for Ready<'_> {
    type Output = Result<(), AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (within, may_hire) = (self.within.take(), !self.blocking);
        let reservation = &mut *self.reservation;
        let place = match reservation.hold {
            Hold::Queued(place) => place,
            Hold::Failed(error) => return Poll::Ready(Err(error)),
            Hold::Charged(_) | Hold::Settled => return Poll::Ready(Ok(())),
        };
        let (hold, hire) = reservation.core.with(|desk, now, wakes| {
            let hastened = within.map(|within| desk.hasten(place, now + within, now, wakes));
            if let Some(Err(error)) = hastened {
                return (Hold::Failed(error), false);
            }
            match desk.collect(place, cx.waker(), now, wakes) {
                Some(Collected::Failed(error)) => (Hold::Failed(error), false),
                Some(Collected::Granted(_, charge)) => (Hold::Charged(charge), false),
                None => (Hold::Queued(place), may_hire && desk.promise_keeper()),
            }
        });
        reservation.hold = hold;
        if hire {
            timer::hire(&reservation.core);
        }
        match hold {
            Hold::Queued(_) => Poll::Pending,
            Hold::Failed(error) => Poll::Ready(Err(error)),
            Hold::Charged(_) | Hold::Settled => Poll::Ready(Ok(())),
        }
    }
}
