//! What an [`All`](super::All) is of its own, beside its parts: what was asked of it, and whether it is closed.

use std::collections::BTreeMap;
use std::task::Waker;

use super::statistics::Statistics;
use super::wakes::Wakes;
use crate::sync::Mutex;

/// Counts, and those who wait for all of it, by ticket.
#[derive(Debug)]
pub(crate) struct Group {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    acquired: u64,
    rejected: u64,
    cancelled: u64,
    waiting: BTreeMap<u64, Waker>,
}

impl Default for Group {
    fn default() -> Self {
        Group { state: Mutex::new(State::default()) }
    }
}

impl Group {
    /// Notes who is to be told when it is closed; false if it is already.
    pub(crate) fn enter(&self, ticket: u64, waker: &Waker) -> bool {
        let mut state = self.state.lock();
        let known = state.waiting.get(&ticket).is_some_and(|known| known.will_wake(waker));
        let old = if known || state.closed { None } else { state.waiting.insert(ticket, waker.clone()) };
        let is_open = !state.closed;
        // A waker may run anything when it is dropped, even this.
        drop(state);
        drop(old);
        is_open
    }

    /// One that waited, or did not have to, has its outcome.
    pub(crate) fn conclude(&self, ticket: u64, granted: bool) {
        self.remove(ticket, |state| match granted {
            true => state.acquired += 1,
            false => state.rejected += 1,
        });
    }

    /// One has given up.
    pub(crate) fn cancel(&self, ticket: u64) {
        self.remove(ticket, |state| state.cancelled += 1);
    }

    /// One has only asked.
    pub(crate) fn forget(&self, ticket: u64) {
        self.remove(ticket, |_| {});
    }

    fn remove(&self, ticket: u64, count: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        count(&mut state);
        let old = state.waiting.remove(&ticket);
        drop(state);
        drop(old);
    }

    pub(crate) fn count_grant(&self) {
        self.state.lock().acquired += 1;
    }

    pub(crate) fn count_rejection(&self) {
        self.state.lock().rejected += 1;
    }

    /// Everybody who waits is told, and finds it closed.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        let mut wakes = Wakes::default();
        waiting.into_values().for_each(|waker| wakes.push(waker));
        wakes.wake();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// What there is and what it can hold at most is the parts' to say.
    pub(crate) fn statistics(&self) -> Statistics {
        let State { acquired, rejected, cancelled, waiting, .. } = &*self.state.lock();
        Statistics {
            acquired: *acquired,
            rejected: *rejected,
            cancelled: *cancelled,
            queue_depth: waiting.len(),
            ..Statistics::default()
        }
    }
}
