//! The fixed window: a count in `[start, start + w)`, gone when the window is.

use super::{Law, calendar};
use crate::algorithm::fixed_window::State;
use crate::{Algorithm, Anchor, Quota};

/// What passed in the window around `start`.
#[derive(Clone, Debug)]
pub(super) struct FixedWindow {
    count: u64,
    start: i128,
}

impl FixedWindow {
    pub(super) fn of(state: State) -> Self {
        FixedWindow { count: state.count, start: state.start.as_nanos().into() }
    }

    /// The first instant after the window.
    fn end(&self, quota: &Quota) -> i128 {
        window(quota, self.start).1
    }
}

/// The window that a fresh key would be in.
fn window(quota: &Quota, at: i128) -> (i128, i128) {
    let length = i128::from(quota.period().as_nanos());
    match quota.algorithm() {
        Algorithm::FixedWindow(Anchor::Grid) => {
            let start = at.div_euclid(length) * length;
            (start, start + length)
        }
        Algorithm::FixedWindow(Anchor::Calendar(calendar)) => calendar::window(calendar, at),
        _ => (at, at + length),
    }
}

impl Law for FixedWindow {
    fn fresh(quota: &Quota, now: i128) -> Self {
        FixedWindow { count: 0, start: window(quota, now).0 }
    }

    fn read(&self, quota: &Quota, now: i128) -> (Self, bool) {
        // A start that is off the grid (the anchor has changed) belongs to the window around it.
        let (start, end) = window(quota, self.start);
        if end <= now || self.count == 0 {
            return (Self::fresh(quota, now), false);
        }
        // The clock stepped back: the window stays, but no further ahead than the one that follows this one.
        let furthest = window(quota, now).1;
        let count = self.count.min(quota.burst());
        (FixedWindow { count, start: start.min(furthest) }, start > furthest)
    }

    fn passes(&self, quota: &Quota, cost: u64, at: i128) -> bool {
        self.end(quota) <= at || u128::from(self.count) + u128::from(cost) <= quota.burst().into()
    }

    fn is_fresh(&self, quota: &Quota, at: i128) -> bool {
        self.count == 0 || self.end(quota) <= at
    }

    fn charge(&mut self, _: &Quota, cost: u64, _: i128) {
        self.count += cost;
    }

    fn refund(&mut self, _: &Quota, cost: u64, _: i128) {
        self.count = self.count.saturating_sub(cost);
    }
}
