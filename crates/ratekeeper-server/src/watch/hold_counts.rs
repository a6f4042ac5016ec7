//! Holds that were taken, and what became of them.

use std::sync::atomic::{AtomicU64, Ordering};

use ratekeeper::port::HoldState;

/// Counts of holds, by what happened to them.
#[derive(Debug, Default)]
pub(super) struct HoldCounts {
    taken: AtomicU64,
    settled: AtomicU64,
    cancelled: AtomicU64,
    extended: AtomicU64,
    gone: AtomicU64,
}

impl HoldCounts {
    /// Counts a hold that was taken.
    pub(super) fn taken(&self) {
        self.taken.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts what has become of a hold.
    pub(super) fn changed(&self, state: HoldState) {
        let counter = match state {
            HoldState::Settled => &self.settled,
            HoldState::Cancelled => &self.cancelled,
            HoldState::Extended => &self.extended,
            HoldState::Gone => &self.gone,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counts by name.
    pub(super) fn read(&self) -> [(&'static str, u64); 5] {
        [
            ("taken", &self.taken),
            ("settled", &self.settled),
            ("cancelled", &self.cancelled),
            ("extended", &self.extended),
            ("gone", &self.gone),
        ]
        .map(|(result, counter)| (result, counter.load(Ordering::Relaxed)))
    }
}
