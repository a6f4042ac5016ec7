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
pub(super) struct Full {
    /// How many more would have been needed.
    pub(super) missing: usize,
}

/// Where the places for new states come from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Room<'a> {
    /// From those that are left.
    Within(&'a Budget),
    /// From beyond the bound: for the few states that stand for all who found no place.
    Beyond(&'a Budget),
}

impl Budget {
    pub(super) fn new(most: usize) -> Self {
        Budget { taken: AtomicUsize::new(0), most }
    }

    pub(super) fn most(&self) -> usize {
        self.most
    }

    pub(super) fn is_full(&self) -> bool {
        self.taken() >= self.most
    }

    pub(super) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Takes one place.
    pub(super) fn take(&self) -> Result<(), Full> {
        let more = |taken| (taken < self.most).then_some(taken + 1);
        // The number guards nothing but itself: the states are behind the locks of their shards.
        self.taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .map(drop)
            .map_err(|_| Full { missing: 1 })
    }

    /// Takes places that there may not be; see [`Room::Beyond`].
    pub(super) fn take_anyway(&self, places: usize) -> usize {
        self.taken.fetch_add(places, Ordering::Relaxed);
        places
    }

    pub(super) fn give_back(&self, places: usize) {
        if places > 0 {
            self.taken.fetch_sub(places, Ordering::Relaxed);
        }
    }
}
