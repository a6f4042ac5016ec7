//! One call on its way, and who waits for it.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::sync::{Arc, Mutex};
use crate::{Decision, StoreError};

/// One call on its way to the store: for at least what its starter asks for, and at most what is worth holding.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) least: u64,
    pub(super) most: u64,
    /// What of the grant belongs to the request that started it; nothing if it was asked for early.
    pub(super) claimed: u64,
    landing: Mutex<Landing>,
}

#[derive(Debug)]
enum Landing {
    /// Who is to be woken; none where a waiter has gone.
    Awaited(Vec<Option<Waker>>),
    Over(Result<Decision, StoreError>),
}

impl Flight {
    /// Returns a call that somebody waits for, with a cost of their own.
    pub(super) fn for_one(cost: u64, most: u64) -> Self {
        Flight {
            least: cost,
            most: most.max(cost),
            claimed: cost,
            landing: Mutex::new(Landing::Awaited(Vec::new())),
        }
    }

    /// Returns a call that nobody waits for yet.
    pub(super) fn early(most: u64) -> Self {
        Flight { least: 1, most: most.max(1), claimed: 0, landing: Mutex::new(Landing::Awaited(Vec::new())) }
    }

    /// Tells everybody who waits that the call is over, and what the store decided for the one who started it.
    pub(super) fn land(&self, outcome: Result<Decision, StoreError>) {
        let before = std::mem::replace(&mut *self.landing.lock(), Landing::Over(outcome));
        if let Landing::Awaited(waiters) = before {
            waiters.into_iter().flatten().for_each(Waker::wake);
        }
    }

    /// Waits until the call is over. The decision is the starter's; an error is everybody's.
    pub(super) fn landed(self: Arc<Self>) -> FlightLanded {
        FlightLanded { flight: self, place: None }
    }
}

/// Waits for a [`Flight`].
pub(super) struct FlightLanded {
    flight: Arc<Flight>,
    place: Option<usize>,
}

impl Future for FlightLanded {
    type Output = Result<Decision, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut landing = this.flight.landing.lock();
        let waiters = match &mut *landing {
            Landing::Over(outcome) => {
                return Poll::Ready(outcome.as_ref().copied().map_err(StoreError::without_source));
            }
            Landing::Awaited(waiters) => waiters,
        };
        let waker = Some(context.waker().clone());
        let known = match this.place.and_then(|place| waiters.get_mut(place)) {
            Some(known) => std::mem::replace(known, waker),
            None => {
                this.place = Some(waiters.len());
                waiters.push(waker);
                None
            }
        };
        // Outside of the lock: a waker may run anything.
        drop(landing);
        drop(known);
        Poll::Pending
    }
}

impl Drop for FlightLanded {
    fn drop(&mut self) {
        let Some(place) = self.place else { return };
        let gone = match &mut *self.flight.landing.lock() {
            Landing::Awaited(waiters) => waiters.get_mut(place).and_then(Option::take),
            Landing::Over(_) => None,
        };
        drop(gone);
    }
}
