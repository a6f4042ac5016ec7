//! How many connections of one transport there are and may be, over all event loops.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Counts the connections of one transport, and bounds them.
#[derive(Debug)]
pub(crate) struct ConnectionSlots {
    in_use: AtomicUsize,
    most: usize,
    served: AtomicU64,
    refused: AtomicU64,
}

impl ConnectionSlots {
    /// Returns slots for at most `most` connections at once.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(ConnectionSlots {
            in_use: AtomicUsize::new(0),
            most,
            served: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        })
    }

    /// Returns how many connections are open.
    pub(crate) fn in_use(&self) -> usize {
        self.in_use.load(Ordering::Relaxed)
    }

    /// Returns how many connections there may be.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Returns how many connections were accepted and how many were refused since the start.
    pub(crate) fn history(&self) -> (u64, u64) {
        (self.served.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed))
    }

    /// Takes a slot; `None` if all are in use.
    pub(super) fn take(self: &Arc<Self>) -> Option<ConnectionSlot> {
        if self.in_use.fetch_add(1, Ordering::Relaxed) >= self.most {
            self.in_use.fetch_sub(1, Ordering::Relaxed);
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.served.fetch_add(1, Ordering::Relaxed);
        Some(ConnectionSlot(Arc::clone(self)))
    }
}

/// One connection's slot, returned when it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot(Arc<ConnectionSlots>);

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.in_use.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_returned_exactly_once() {
        let slots = ConnectionSlots::new(1);
        let slot = slots.take();
        assert!(slot.is_some() && slots.take().is_none());
        drop(slot);
        assert_eq!((slots.in_use(), slots.history()), (0, (1, 1)));
        assert!(slots.take().is_some());
    }
}
