//! The sliding window counter: an estimate of what passed within the last window, from two counts.
//!
//! The state is the counts of the previous and the current slot, and the start of the current one; a slot is as long as the
//! window. The estimate is
//!
//! ```text
//! previous · (1 − elapsed / window) + current
//! ```
//!
//! all of this slot, and of the previous one the part that the window still overlaps. It is never evaluated as a fraction:
//! everything is multiplied by the window, in 128 bits, so that nothing is rounded. A debit is counted in any case, beyond the
//! limit, and fades as everything else does.
//!
//! The estimate assumes that the previous slot's requests were spread evenly. If they were not, it may be off by the count of
//! a slot at the worst, for part of a window; the [log](super::sliding_log) is exact, and takes memory for each request.
//!
//! ```
//! use ratekeeper::{Cost, Nanos, Quota, Timestamp, algorithm};
//!
//! let quota: Quota = "10 per 10s sliding".parse()?;
//! let now = Timestamp::from_secs(1_000);
//! let (_, state) = algorithm::try_acquire(&quota, None, Cost::new(10), now)?;
//! let later = now + Nanos::from_secs(15);
//! assert_eq!(algorithm::peek(&quota, state.as_ref(), Cost::ONE, later)?.remaining, 5, "half has faded");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::tenancy::Tenancy;
use super::view::{View, counted_of};
use super::wait::Wait;
use crate::{Cost, Nanos, Quota, Timestamp};

/// The state of a sliding window: the counts of two neighbouring slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingWindowState {
    /// What passed in the slot before.
    pub previous: u64,
    /// What passed in the slot that began at `start`.
    pub current: u64,
    /// The first instant of the current slot.
    pub start: Timestamp,
}

/// The two slots as seen from now.
#[derive(Clone, Copy, Debug)]
pub struct SlidingWindowView {
    limit: u64,
    window: u64,
    now: Timestamp,
    previous: u64,
    current: u64,
    start: Timestamp,
    /// How far now is into the current slot; zero while the clock is behind it.
    elapsed: u64,
    repaired: bool,
}

impl SlidingWindowView {
    /// Returns the state as it stands at `now`. Slots advance by whole windows; when nothing is left of either count, the
    /// key is a fresh one, whose first slot begins now.
    #[inline]
    pub fn at(quota: &Quota, state: Option<SlidingWindowState>, now: Timestamp, tenancy: Tenancy) -> Self {
        let (limit, window) = (quota.burst(), quota.period().as_nanos());
        let fresh = SlidingWindowView {
            limit,
            window,
            now,
            previous: 0,
            current: 0,
            start: now,
            elapsed: 0,
            repaired: false,
        };
        let Some(state) = state else { return fresh };
        // A slot that has yet to begin: a caller came late, and it stays; or the clock stepped far back, and it
        // begins now.
        let repaired = tenancy.cuts_off(state.start, now);
        let start = if repaired { now } else { state.start };
        let since = now.since(start).as_nanos();
        let slots = since / window;
        let (previous, current) = match slots {
            0 => (state.previous, state.current),
            1 => (state.current, 0),
            _ => (0, 0),
        };
        if previous == 0 && current == 0 {
            return fresh;
        }
        SlidingWindowView {
            previous,
            current,
            start: start + Nanos::from_nanos(slots * window),
            elapsed: since % window,
            repaired,
            ..fresh
        }
    }

    /// Returns the state to store; none when nothing counts.
    pub fn state(&self) -> Option<SlidingWindowState> {
        let state = SlidingWindowState { previous: self.previous, current: self.current, start: self.start };
        (state.previous > 0 || state.current > 0).then_some(state)
    }

    /// Returns the estimate, times the window. Counts are below 2^64 and the window below 2^63: nothing overflows.
    fn scaled_estimate(&self) -> u128 {
        let overlap = self.window - self.elapsed;
        u128::from(self.previous) * u128::from(overlap) + u128::from(self.current) * u128::from(self.window)
    }

    /// Returns how much of the limit is used, rounded up, where [`remaining`](View::remaining) rounds what is left up: a part
    /// of one that has yet to fade counts as used.
    pub(crate) fn used(&self) -> u64 {
        let used = self.scaled_estimate().div_ceil(u128::from(self.window));
        u64::try_from(used).map_or(self.limit, |used| used.min(self.limit))
    }

    /// Returns how long until `estimate + (cost − 1) < limit`, for a cost of at most the limit: it asks for room of
    /// `limit − cost + 1` above whatever counts.
    fn wait_for_room(&self, cost: u64) -> Wait {
        let room = (self.limit - cost).saturating_add(1);
        let in_this = faded(self.previous, room.saturating_sub(self.current), self.window);
        if in_this < self.window {
            return Wait::after(self.now, self.until(0, in_this));
        }
        let in_next = faded(self.current, room, self.window);
        if in_next < self.window {
            return Wait::after(self.now, self.until(1, in_next));
        }
        Wait::after(self.now, self.until(2, 0))
    }

    /// Returns the time from now until `elapsed` nanoseconds after the start of the slot `slots` ahead; none if that is more
    /// than a span can hold.
    fn until(&self, slots: u64, elapsed: u64) -> Option<Nanos> {
        let behind = self.start.since(self.now).as_nanos();
        let ahead = self.window.checked_mul(slots)?.checked_add(elapsed)? - self.elapsed;
        behind.checked_add(ahead).map(Nanos::from_nanos)
    }
}

/// Returns how far into a slot `previous` must have faded for `room` above the current count to suffice: the least
/// `elapsed` with `previous · (window − elapsed) < room · window`, or the window's length if the slot is too short.
fn faded(previous: u64, room: u64, window: u64) -> u64 {
    if room == 0 {
        return window;
    }
    if previous == 0 {
        return 0;
    }
    // overlap < room · window / previous, so at most the next whole number below.
    let overlap = (u128::from(room) * u128::from(window)).div_ceil(u128::from(previous)) - 1;
    window.saturating_sub(u64::try_from(overlap).unwrap_or(u64::MAX))
}

impl View for SlidingWindowView {
    fn wait_for(&self, cost: Cost) -> Wait {
        let cost = cost.get();
        if cost > self.limit {
            return Wait::Never;
        }
        if cost <= self.remaining() {
            return Wait::Ready;
        }
        self.wait_for_room(cost)
    }

    fn charge(&mut self, cost: Cost) {
        self.current = self.current.saturating_add(cost.get());
    }

    fn debit(&mut self, cost: Cost) -> u64 {
        let (counted, forgiven) = counted_of(cost, self.current);
        self.current += counted;
        forgiven
    }

    fn refund(&mut self, cost: Cost, charged_at: Timestamp) {
        // It leaves the slot in which it was charged, and no other: what another slot counts fades at another time.
        if charged_at >= self.start {
            self.current = self.current.saturating_sub(cost.get());
        } else if self.start.since(charged_at).as_nanos() <= self.window {
            self.previous = self.previous.saturating_sub(cost.get());
        }
    }

    fn limit(&self) -> u64 {
        self.limit
    }

    fn remaining(&self) -> u64 {
        let whole = u128::from(self.limit) * u128::from(self.window);
        let left = whole.saturating_sub(self.scaled_estimate()).div_ceil(u128::from(self.window));
        u64::try_from(left).unwrap_or(self.limit)
    }

    fn wait_until_paid(&self) -> Wait {
        // What passed last may have made it a fraction more than the limit: only from one more on it is a debt.
        let least = (u128::from(self.limit) + 1) * u128::from(self.window);
        if self.scaled_estimate() < least { Wait::Ready } else { self.wait_for_room(0) }
    }

    fn reset_after(&self) -> Nanos {
        let reset = match (self.previous, self.current) {
            (0, 0) => return Nanos::ZERO,
            (_, 0) => self.until(1, 0),
            _ => self.until(2, 0),
        };
        reset.unwrap_or(Nanos::MAX)
    }

    fn was_repaired(&self) -> bool {
        self.repaired
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::take;
    use super::*;

    #[test]
    fn the_previous_slot_fades() {
        let quota: Quota = "10 per 10s sliding".parse().unwrap();
        let start = Timestamp::from_secs(100);
        let mut view = SlidingWindowView::at(&quota, None, start, Tenancy::Own);
        assert!(take(&mut view, Cost::new(10)).allowed);
        let full = view.state();
        // At 15 s half of the ten has faded: an estimate of 5.
        let view = SlidingWindowView::at(&quota, full, start + Nanos::from_secs(15), Tenancy::Own);
        assert_eq!(view.remaining(), 5);
        assert_eq!(view.reset_after(), Nanos::from_secs(5));
        let view = SlidingWindowView::at(&quota, full, start + Nanos::from_secs(20), Tenancy::Own);
        assert_eq!((view.remaining(), view.reset_after(), view.state()), (10, Nanos::ZERO, None));
    }

    #[test]
    fn the_wait_may_end_in_the_next_slot() {
        let quota: Quota = "10 per 10s sliding".parse().unwrap();
        let start = Timestamp::from_secs(100);
        let mut view = SlidingWindowView::at(&quota, None, start, Tenancy::Own);
        take(&mut view, Cost::new(10));
        // The first ten fade only from 10 s on; room for one is there as soon as any of it has.
        assert_eq!(take(&mut view, Cost::ONE).retry_after, Some(Nanos::from_nanos(10_000_000_001)));
        assert_eq!(take(&mut view, Cost::new(10)).retry_after, Some(Nanos::from_nanos(19_000_000_001)));
    }
}
