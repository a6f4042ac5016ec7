//! What an [`All`](super::All) has of its own, beside its parts: what was asked of it, and whether it is closed.

use std::collections::BTreeMap;
use std::task::Waker;

use super::queue::WakeList;
use super::statistics::LimiterStatistics;
use crate::sync::Mutex;

/// Counts, and those who wait for all of it, by ticket.
#[derive(Debug)]
pub(crate) struct AllState {
    state: Mutex<CountsAndWaiting>,
}

#[derive(Debug, Default)]
struct CountsAndWaiting {
    closed: bool,
    counts: LimiterStatistics,
    waiting: BTreeMap<u64, Waker>,
}

impl Default for AllState {
    fn default() -> Self {
        AllState { state: Mutex::new(CountsAndWaiting::default()) }
    }
}

impl AllState {
    /// Notes who is to be woken when it is closed; false if it is already.
    pub(super) fn enter(&self, ticket: u64, waker: &Waker) -> bool {
        let mut state = self.state.lock();
        let known = state.waiting.get(&ticket).is_some_and(|known| known.will_wake(waker));
        let old = if known || state.closed { None } else { state.waiting.insert(ticket, waker.clone()) };
        let is_open = !state.closed;
        // A waker may run anything when it is dropped, even this.
        drop(state);
        drop(old);
        is_open
    }

    /// Counts one that has its outcome, or has given up, and wakes it no more.
    pub(super) fn leave(&self, ticket: u64, count: impl FnOnce(&mut LimiterStatistics)) {
        let mut state = self.state.lock();
        count(&mut state.counts);
        let old = state.waiting.remove(&ticket);
        drop(state);
        drop(old);
    }

    /// Counts one that did not wait.
    pub(super) fn count(&self, count: impl FnOnce(&mut LimiterStatistics)) {
        count(&mut self.state.lock().counts);
    }

    /// Wakes everybody who waits, and who then finds it closed.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        let mut wakes = WakeList::default();
        waiting.into_values().for_each(|waker| wakes.push(waker));
        wakes.wake();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Returns the counts. What there is, is the parts' to say.
    pub(super) fn statistics(&self) -> LimiterStatistics {
        let state = self.state.lock();
        LimiterStatistics { queue_depth: state.waiting.len(), ..state.counts }
    }
}
