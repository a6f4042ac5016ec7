//! The questions that every algorithm answers, and what is the same for all of them.

use super::wait::Wait;
use crate::{Cost, Decision, Nanos, Timestamp};

/// A state as it stands at one instant under one quota, and the questions that an algorithm must answer about it.
///
/// Making a view never fails and never gives away capacity: a clock that stepped back and a quota that changed are dealt
/// with there, by clamping. Changing a view changes nothing stored; whoever holds the state writes the view back.
pub trait View {
    /// Returns how long this cost must wait.
    fn wait_for(&self, cost: Cost) -> Wait;

    /// Takes a cost that [`wait_for`](View::wait_for) found ready.
    fn charge(&mut self, cost: Cost);

    /// Takes a cost whether or not it passes, and returns how much of it is forgiven: a debt is bounded. GCRA and both
    /// buckets go one capacity below empty; what a window or a log counts may pass its limit, up to 2^63 − 1, until the
    /// window ends.
    fn debit(&mut self, cost: Cost) -> u64;

    /// Gives back what is left of a cost that was charged at this instant, never above the capacity: what has refilled
    /// since is not given back a second time.
    fn refund(&mut self, cost: Cost, charged_at: Timestamp);

    /// Returns the capacity: the most that the quota ever lets pass at once.
    fn limit(&self) -> u64;

    /// Returns how many requests of cost 1 would pass now, one after another.
    fn remaining(&self) -> u64;

    /// Returns how long until a debt is paid: until no more counts than the capacity. Ready if there is none.
    fn wait_until_paid(&self) -> Wait;

    /// Returns the time until the state equals a fresh key's.
    fn reset_after(&self) -> Nanos;

    /// Returns the time until the window ends, of an algorithm whose windows have an end, whether or not anything was counted
    /// in this one; none of any other.
    fn window_left(&self) -> Option<Nanos> {
        None
    }

    /// Returns the [time until the window ends](View::window_left), if there is such a window; else the time until the state
    /// equals a fresh key's.
    fn ends_after(&self) -> Nanos {
        self.window_left().unwrap_or_else(|| self.reset_after())
    }

    /// Returns true if the stored state reaches further ahead than the quota allows (the clock stepped far back, or the
    /// quota was lowered) and the view has cut it off; see
    /// [`Tenancy::Own`](super::Tenancy::Own). Such a state must be written back even by a denial, or the key would stay
    /// locked out until the clock catches up.
    fn was_repaired(&self) -> bool;
}

/// The most that a window or a log counts: 2^63 − 1, what every form that a state is stored in can hold.
pub(crate) const MOST_COUNTED: u64 = i64::MAX.cast_unsigned();

/// Returns how much of a debit a count has room for, and how much is forgiven.
pub(super) fn counted_of(cost: Cost, count: u64) -> (u64, u64) {
    let counted = cost.get().min(MOST_COUNTED.saturating_sub(count));
    (counted, cost.get() - counted)
}

/// Takes the cost from the view if it passes. The view has changed if and only if the decision allows.
#[inline]
pub fn take<V: View>(view: &mut V, cost: Cost) -> Decision {
    match view.wait_for(cost) {
        Wait::Ready => take_ready(view, cost),
        wait => describe(view, wait),
    }
}

/// Takes a cost that was found ready.
#[inline]
pub(crate) fn take_ready<V: View>(view: &mut V, cost: Cost) -> Decision {
    // Even charging nothing may move the last bit of a double.
    if cost != Cost::ZERO {
        view.charge(cost);
    }
    describe(view, Wait::Ready)
}

/// Returns what [`take`] would decide, with what is left before it. Changes nothing.
#[inline]
pub fn look<V: View>(view: &V, cost: Cost) -> Decision {
    describe(view, view.wait_for(cost))
}

/// Returns the decision that a wait amounts to, with what the view has left. Divides, so it is done after a lock is
/// released.
#[inline(always)]
pub(crate) fn describe<V: View>(view: &V, wait: Wait) -> Decision {
    let (limit, remaining, reset_after) = (view.limit(), view.remaining(), view.reset_after());
    match wait {
        Wait::Ready => Decision::allow(limit, remaining, reset_after),
        Wait::After(wait) => Decision::deny(limit, remaining, Some(wait), reset_after),
        Wait::Never => Decision::deny(limit, remaining, None, reset_after),
    }
}

/// Returns the cost to ask for when `left` would pass, and between `least` and `most` is wanted: never less than the least,
/// so that a denial is one of that, with the time to wait for it. A `most` below the least counts as the least.
pub(crate) fn partial_grant(left: u64, least: Cost, most: Cost) -> Cost {
    Cost::new(left).clamp(least, most.max(least))
}
