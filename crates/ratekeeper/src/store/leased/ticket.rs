//! Somebody who waits for a call.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::sync::Mutex;
use crate::{Decision, StoreError};

/// The place of a request in the line of those who wait for calls for one key.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) cost: u64,
    state: Mutex<TicketState>,
}

#[derive(Debug)]
enum TicketState {
    Waits(Option<Waker>),
    Told(Result<Told, StoreError>),
    /// Nobody waits any more.
    Gone,
}

/// What somebody who has waited is told.
#[derive(Clone, Copy, Debug)]
pub(super) enum Told {
    Decided(Decision),
    /// To ask for themselves.
    Ask,
}

impl Ticket {
    pub(super) fn new(cost: u64) -> Self {
        Ticket { cost, state: Mutex::new(TicketState::Waits(None)) }
    }

    /// Returns true if somebody still waits.
    pub(super) fn waits(&self) -> bool {
        matches!(*self.state.lock(), TicketState::Waits(_))
    }

    /// Tells whoever waits, outside of all other locks: a waker may run anything.
    pub(super) fn tell(&self, told: Result<Told, StoreError>) {
        let waker = {
            let mut state = self.state.lock();
            match &mut *state {
                TicketState::Waits(waker) => {
                    let waker = waker.take();
                    *state = TicketState::Told(told);
                    waker
                }
                TicketState::Told(_) | TicketState::Gone => None,
            }
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Waits until the ticket is called.
#[derive(Debug)]
pub(super) struct Called(Arc<Ticket>);

impl Called {
    pub(super) fn new(ticket: Arc<Ticket>) -> Self {
        Called(ticket)
    }
}

impl Future for Called {
    type Output = Result<Told, StoreError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let before = {
            let mut state = self.0.state.lock();
            match std::mem::replace(&mut *state, TicketState::Gone) {
                TicketState::Told(told) => return Poll::Ready(told),
                TicketState::Waits(before) => {
                    *state = TicketState::Waits(Some(context.waker().clone()));
                    before
                }
                TicketState::Gone => None,
            }
        };
        // Outside of the lock: a waker may run anything.
        drop(before);
        Poll::Pending
    }
}

impl Drop for Called {
    fn drop(&mut self) {
        let before = std::mem::replace(&mut *self.0.state.lock(), TicketState::Gone);
        drop(before);
    }
}
