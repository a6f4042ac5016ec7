//! The place of a request in a line: somebody else asks, and tells everybody.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::StoreError;
use crate::sync::{Arc, Mutex};

/// The place of a request in a line of those who wait to be told something.
#[derive(Debug)]
pub(super) struct LineTicket<T> {
    /// How much it asks for.
    pub(super) cost: u64,
    state: Mutex<LineTicketState<T>>,
}

#[derive(Debug)]
enum LineTicketState<T> {
    Waits(Option<Waker>),
    Told(Result<T, StoreError>),
    /// Nobody waits any more.
    Gone,
}

impl<T> LineTicket<T> {
    pub(super) fn new(cost: u64) -> Self {
        LineTicket { cost, state: Mutex::new(LineTicketState::Waits(None)) }
    }

    /// Returns true if somebody still waits.
    pub(super) fn waits(&self) -> bool {
        matches!(*self.state.lock(), LineTicketState::Waits(_))
    }

    /// Tells whoever waits. If nobody does, what was to be told comes back.
    ///
    /// Outside of all other locks: a waker may run anything.
    pub(super) fn tell(&self, told: Result<T, StoreError>) -> Result<(), Result<T, StoreError>> {
        let waker = {
            let mut state = self.state.lock();
            match &mut *state {
                LineTicketState::Waits(waker) => {
                    let waker = waker.take();
                    *state = LineTicketState::Told(told);
                    waker
                }
                LineTicketState::Told(_) | LineTicketState::Gone => return Err(told),
            }
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }
}

/// Waits until the ticket is called.
#[derive(Debug)]
pub(super) struct CalledTicket<T>(Arc<LineTicket<T>>);

impl<T> CalledTicket<T> {
    pub(super) fn new(ticket: Arc<LineTicket<T>>) -> Self {
        CalledTicket(ticket)
    }
}

impl<T> Future for CalledTicket<T> {
    type Output = Result<T, StoreError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let before = {
            let mut state = self.0.state.lock();
            match std::mem::replace(&mut *state, LineTicketState::Gone) {
                LineTicketState::Told(told) => return Poll::Ready(told),
                LineTicketState::Waits(before) => {
                    *state = LineTicketState::Waits(Some(context.waker().clone()));
                    before
                }
                LineTicketState::Gone => None,
            }
        };
        // Outside of the lock: a waker may run anything.
        drop(before);
        Poll::Pending
    }
}

impl<T> Drop for CalledTicket<T> {
    fn drop(&mut self) {
        let before = std::mem::replace(&mut *self.0.state.lock(), LineTicketState::Gone);
        drop(before);
    }
}
