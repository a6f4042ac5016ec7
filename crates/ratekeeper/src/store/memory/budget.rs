//! How many states there may be.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The places that all shards share: as many as there may be keys. Only an insertion or a removal touches it.
#[derive(Debug)]
pub(super) struct Budget {
    taken: AtomicUsize,
    most: usize,
}

/// There is no place left.
#[derive(Debug)]
pub(super) struct Full;

impl Budget {
    pub(super) fn new(most: usize) -> Self {
        Budget { taken: AtomicUsize::new(0), most }
    }

    pub(super) fn most(&self) -> usize {
        self.most
    }

    pub(super) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Takes one place.
    pub(super) fn take(&self) -> Result<(), Full> {
        let more = |taken| (taken < self.most).then_some(taken + 1);
        // The number guards nothing but itself: the states are behind the locks of their shards.
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).map(drop).map_err(|_| Full)
    }

    /// Takes a place that there may not be: for the few states that stand for all the others.
    pub(super) fn take_anyway(&self, places: usize) {
        self.taken.fetch_add(places, Ordering::Relaxed);
    }

    pub(super) fn give_back(&self, places: usize) {
        if places > 0 {
            self.taken.fetch_sub(places, Ordering::Relaxed);
        }
    }
}
