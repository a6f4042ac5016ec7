//! The fixed window: a count that starts again with every window.
//!
//! The state is a count, and the start of the window that it was counted in. A request is allowed if the count and its cost
//! are at most the limit; otherwise it waits for the end of the window. A debit is counted in any case, beyond the limit,
//! and forgiven with the window's end.
//!
//! Windows begin where the quota's [`Anchor`] says: with the key's first request, on a grid since the epoch, or with the
//! calendar. Windows in which nobody asked are skipped in one step, however many they are.
//!
//! It is the simplest to explain, and the easiest to outwit: up to twice the limit passes within a moment around an edge. The
//! [sliding window](super::sliding_window) does not allow that.
//!
//! ```
//! use ratekeeper::{Cost, Nanos, Quota, Timestamp, algorithm};
//!
//! let quota: Quota = "2/m fixed grid".parse()?;
//! let at = |seconds| Timestamp::from_secs(seconds);
//! let (_, state) = algorithm::try_acquire(&quota, None, Cost::new(2), at(59))?;
//! let denied = algorithm::peek(&quota, state.as_ref(), Cost::ONE, at(59))?;
//! assert_eq!(denied.retry_after, Some(Nanos::from_secs(1)));
//! assert!(algorithm::peek(&quota, state.as_ref(), Cost::new(2), at(60))?.allowed, "the edge");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::tenancy::Tenancy;
use super::view::{View, counted_of};
use super::wait::Wait;
use crate::{Algorithm, Anchor, Calendar, Cost, Nanos, Quota, Timestamp};

/// The state of a fixed window: how much passed in the window that began at `start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedWindowState {
    /// What the window has let pass.
    pub count: u64,
    /// The first instant of the window.
    pub start: Timestamp,
}

/// The window around now, or the later one that a clock which has since stepped back was in.
#[derive(Clone, Copy, Debug)]
pub struct FixedWindowView {
    limit: u64,
    now: Timestamp,
    count: u64,
    start: Timestamp,
    end: Timestamp,
    /// False for the window that holds the last instant: its end lies beyond it, and `end` is cut off.
    ends: bool,
    repaired: bool,
}

impl FixedWindowView {
    /// Returns the state as it stands at `now`. Windows that were missed are skipped in one step.
    #[inline]
    pub fn at(quota: &Quota, state: Option<FixedWindowState>, now: Timestamp, tenancy: Tenancy) -> Self {
        let windows = WindowLayout::of(quota);
        let limit = quota.burst();
        let (start, end) = windows.around(now);
        let ends = windows.ends(start, end);
        let fresh = FixedWindowView { limit, now, count: 0, start, end, ends, repaired: false };
        // A window that has let nothing pass is a fresh key's, wherever it was.
        let Some(state) = state.filter(|state| state.count > 0) else { return fresh };
        let (start, end) = windows.around(state.start);
        if windows.has_passed(start, now) {
            return fresh;
        }
        // It may have counted further than the limit: by a debit, or under another quota.
        let count = state.count;
        // A window that has yet to begin: a caller came late, and it stays; or the clock stepped far back. Then it
        // begins now. Where windows have their places, nobody knows what the one of now had let pass: all of it.
        if tenancy.cuts_off(start, now) {
            let count = if windows.begin_anywhere() { count } else { limit };
            return FixedWindowView { count, repaired: true, ..fresh };
        }
        let ends = windows.ends(start, end);
        FixedWindowView { count, start, end, ends, ..fresh }
    }

    /// Returns the state to store; none when nothing has passed.
    pub fn state(&self) -> Option<FixedWindowState> {
        (self.count > 0).then_some(FixedWindowState { count: self.count, start: self.start })
    }

    fn wait_for_end(&self) -> Wait {
        if self.ends { Wait::After(self.end.since(self.now)) } else { Wait::Never }
    }
}

impl View for FixedWindowView {
    fn wait_for(&self, cost: Cost) -> Wait {
        if cost.get() > self.limit {
            Wait::Never
        } else if cost.get() <= self.remaining() {
            Wait::Ready
        } else {
            self.wait_for_end()
        }
    }

    fn charge(&mut self, cost: Cost) {
        self.count = self.count.saturating_add(cost.get());
    }

    fn debit(&mut self, cost: Cost) -> u64 {
        let (counted, forgiven) = counted_of(cost, self.count);
        self.count += counted;
        forgiven
    }

    fn refund(&mut self, cost: Cost, charged_at: Timestamp) {
        if charged_at >= self.start {
            self.count = self.count.saturating_sub(cost.get());
        }
    }

    fn limit(&self) -> u64 {
        self.limit
    }

    fn remaining(&self) -> u64 {
        self.limit.saturating_sub(self.count)
    }

    fn wait_until_paid(&self) -> Wait {
        if self.count > self.limit { self.wait_for_end() } else { Wait::Ready }
    }

    fn reset_after(&self) -> Nanos {
        if self.count == 0 { Nanos::ZERO } else { self.end.since(self.now) }
    }

    fn window_left(&self) -> Option<Nanos> {
        Some(self.end.since(self.now))
    }

    fn was_repaired(&self) -> bool {
        self.repaired
    }
}

/// How a quota's windows lie.
enum WindowLayout {
    Length(Nanos),
    Grid(Nanos),
    Calendar(Calendar),
}

impl WindowLayout {
    fn of(quota: &Quota) -> Self {
        match quota.algorithm() {
            Algorithm::FixedWindow(Anchor::Calendar(calendar)) => WindowLayout::Calendar(calendar),
            Algorithm::FixedWindow(Anchor::Grid) => WindowLayout::Grid(quota.period()),
            _ => WindowLayout::Length(quota.period()),
        }
    }

    /// Returns the window that a fresh key would be in. Also the one that a state with this start is about: a start off
    /// the grid (the quota has changed) belongs to the window around it.
    fn around(&self, now: Timestamp) -> (Timestamp, Timestamp) {
        match self {
            WindowLayout::Length(length) => (now, now + *length),
            WindowLayout::Grid(length) => grid(*length, now),
            WindowLayout::Calendar(calendar) => calendar.window(now),
        }
    }

    /// Returns true if the window that began at `start` is over. Not asked of its end, which saturates.
    fn has_passed(&self, start: Timestamp, now: Timestamp) -> bool {
        match self {
            WindowLayout::Length(length) => now.since(start) >= *length,
            WindowLayout::Grid(_) | WindowLayout::Calendar(_) => self.around(now).0 > start,
        }
    }

    /// Returns true if a window begins when it is first needed, rather than at fixed instants.
    fn begin_anywhere(&self) -> bool {
        matches!(self, WindowLayout::Length(_))
    }

    /// Returns true if the window is over at its end, rather than cut off there.
    fn ends(&self, start: Timestamp, end: Timestamp) -> bool {
        end < Timestamp::MAX || self.has_passed(start, end)
    }
}

/// Returns the multiple of `length` since the epoch that `now` lies in.
fn grid(length: Nanos, now: Timestamp) -> (Timestamp, Timestamp) {
    let length_i128 = i128::from(length.as_nanos()).max(1);
    let into = i128::from(now.as_nanos()).rem_euclid(length_i128);
    let into = Nanos::from_nanos(u64::try_from(into).unwrap_or(0));
    let left = length.saturating_sub(into);
    (now.saturating_sub(into), now + left)
}

#[cfg(test)]
mod tests {
    use super::super::view::take;
    use super::*;

    #[test]
    fn many_missed_windows_leave_the_grid_where_it_was() {
        let quota: Quota = "2 per 7s fixed grid".parse().unwrap();
        let mut view = FixedWindowView::at(&quota, None, Timestamp::from_secs(15), Tenancy::Own);
        take(&mut view, Cost::ONE);
        assert_eq!(view.state(), Some(FixedWindowState { count: 1, start: Timestamp::from_secs(14) }));
        let later = Timestamp::from_secs(7_000_000_003);
        let mut view = FixedWindowView::at(&quota, view.state(), later, Tenancy::Own);
        let decision = take(&mut view, Cost::new(2));
        assert_eq!((decision.allowed, decision.reset_after), (true, Nanos::from_secs(4)));
        assert_eq!(view.state().map(|state| state.start), Some(Timestamp::from_secs(7_000_000_000)));
    }

    #[test]
    fn a_window_begins_with_the_first_request() {
        let quota: Quota = "2/m fixed".parse().unwrap();
        let mut view = FixedWindowView::at(&quota, None, Timestamp::from_secs(17), Tenancy::Own);
        take(&mut view, Cost::new(2));
        let mut edge = FixedWindowView::at(&quota, view.state(), Timestamp::from_secs(76), Tenancy::Own);
        assert_eq!(take(&mut edge, Cost::ONE).retry_after, Some(Nanos::from_secs(1)));
        let mut next = FixedWindowView::at(&quota, view.state(), Timestamp::from_secs(77), Tenancy::Own);
        assert!(take(&mut next, Cost::ONE).allowed);
        assert_eq!(next.state().map(|state| state.start), Some(Timestamp::from_secs(77)));
    }

    #[test]
    fn the_ends_of_time_are_windows_too() {
        for text in ["2/day fixed", "2/day fixed grid", "2/day fixed calendar"] {
            let quota: Quota = text.parse().unwrap();
            for now in [Timestamp::MIN, Timestamp::MAX] {
                let mut view = FixedWindowView::at(&quota, None, now, Tenancy::Own);
                assert!(take(&mut view, Cost::new(2)).allowed, "{text}");
                let mut view = FixedWindowView::at(&quota, view.state(), now, Tenancy::Own);
                assert!(!take(&mut view, Cost::ONE).allowed, "{text}: no limit is off at {now:?}");
            }
        }
    }
}
