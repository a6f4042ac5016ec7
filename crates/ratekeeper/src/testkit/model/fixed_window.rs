//! The fixed window: a count in `[start, start + w)`, gone when the window is.

use super::calendar;
use super::law::{Law, SLACK, count_on};
use crate::algorithm::Tenancy;
use crate::algorithm::fixed_window::FixedWindowState;
use crate::{Algorithm, Anchor, Quota};

/// What passed in the window around `start`.
#[derive(Clone, Debug)]
pub(super) struct FixedWindow {
    count: u64,
    start: i128,
}

impl FixedWindow {
    pub(super) fn of(state: FixedWindowState) -> Self {
        FixedWindow { count: state.count, start: state.start.as_nanos().into() }
    }

    /// Returns the first instant after the window.
    fn after(&self, quota: &Quota) -> i128 {
        window(quota, self.start).1
    }
}

/// Returns the window that a fresh key would be in.
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

    fn read(&self, quota: &Quota, now: i128, tenancy: Tenancy) -> (Self, bool) {
        // A start that is off the grid (the anchor has changed) belongs to the window around it.
        let (start, end) = window(quota, self.start);
        if end <= now || self.count == 0 {
            return (Self::fresh(quota, now), false);
        }
        if tenancy == Tenancy::Shared || start <= now + SLACK {
            return (FixedWindow { count: self.count, start }, false);
        }
        // It begins later than the slack from now. A window with a place of its own is another one than that of now,
        // whose count is lost: all of it counts as used. Any other begins now.
        let begins_anywhere = quota.algorithm() == Algorithm::FixedWindow(Anchor::FirstRequest);
        let count = if begins_anywhere { self.count } else { quota.burst() };
        (FixedWindow { count, start: window(quota, now).0 }, true)
    }

    fn passes(&self, quota: &Quota, cost: u64, at: i128) -> bool {
        self.after(quota) <= at
            || u128::from(self.count) + u128::from(cost) <= quota.burst().into()
            || cost == 0
    }

    fn is_fresh(&self, quota: &Quota, at: i128) -> bool {
        self.count == 0 || self.after(quota) <= at
    }

    fn owes(&self, quota: &Quota, at: i128) -> bool {
        self.count > quota.burst() && at < self.after(quota)
    }

    fn end(&self, quota: &Quota) -> Option<i128> {
        Some(self.after(quota))
    }

    fn charge(&mut self, _: &Quota, cost: u64, _: i128) {
        self.count += cost;
    }

    fn debit(&mut self, _: &Quota, cost: u64, _: i128) -> u64 {
        let sum = self.count.into();
        count_on(&mut self.count, sum, cost)
    }

    fn refund(&mut self, _: &Quota, cost: u64, charged_at: i128, _: i128) {
        if charged_at >= self.start {
            self.count = self.count.saturating_sub(cost);
        }
    }
}
