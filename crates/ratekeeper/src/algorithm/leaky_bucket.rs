//! The leaky bucket as a meter: a level drains continuously, and a request raises it by its cost unless it would overflow.
//!
//! The state is the level as a double, and the instant at which it was computed. With `r` the units that drain per second and
//! `B` the capacity:
//!
//! ```text
//! level       = max(0, stored − (now − last) · r)
//! allowed     if level + c ≤ B + ε            then level + c and now are stored
//! retry_after = the first nanosecond at which that holds
//! ```
//!
//! A debit is charged in any case, up to a level of `2 · B`: a debt of one capacity.
//!
//! It is the mirror of the [token bucket](super::token_bucket): what drains here refills there. Unlike the leaky bucket as a
//! queue, it delays nobody; a queue is a [`LeakyQueue`](crate::limiter::LeakyQueue).
//!
//! ```
//! use ratekeeper::{Cost, Nanos, Quota, Timestamp, algorithm};
//!
//! let quota: Quota = "1/s burst 5 leaky".parse()?;
//! let now = Timestamp::from_secs(1_000);
//! let (full, state) = algorithm::try_acquire(&quota, None, Cost::new(5), now)?;
//! assert_eq!((full.remaining, full.reset_after), (0, Nanos::from_secs(5)));
//! assert!(algorithm::peek(&quota, state.as_ref(), Cost::ONE, now + Nanos::from_secs(1))?.allowed);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::flow::{EPSILON, Flow, beyond, exact, floor};
use super::tenancy::Tenancy;
use super::view::View;
use super::wait::Wait;
use crate::{Cost, Nanos, Quota, Timestamp};

/// The state of a leaky bucket: how full it was, and when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeakyBucketState {
    /// How full the bucket was at `last`, in units of cost.
    pub level: f64,
    /// The instant at which the level was computed.
    pub last: Timestamp,
}

/// The bucket as seen from now.
#[derive(Clone, Copy, Debug)]
pub struct LeakyBucketView {
    flow: Flow,
    /// The level at `flow.last`, as it is or would be stored.
    stored: f64,
    /// The level now.
    level: f64,
    capacity: u64,
}

impl LeakyBucketView {
    /// Returns the state as it stands at `now`.
    #[inline]
    pub fn at(quota: &Quota, state: Option<LeakyBucketState>, now: Timestamp, tenancy: Tenancy) -> Self {
        let capacity = quota.burst();
        let full = exact(capacity);
        let (stored, last) = match state {
            Some(LeakyBucketState { level, last }) if level.is_finite() => (level.max(0.0), last),
            // A level that is no number holds no room.
            Some(LeakyBucketState { last, .. }) => (full, last),
            None => (0.0, now),
        };
        // An empty bucket is a fresh key's, whenever it was read: no instant ahead of now holds it back.
        let last = if stored > 0.0 { last } else { now };
        let flow = Flow::at(quota, last, now, stored, tenancy);
        let mut view = LeakyBucketView { stored, level: stored, flow, capacity };
        view.level = view.level_after(flow.elapsed());
        // A debt is at most one capacity as of now, but for what all quotas of a key share: another one's may be larger.
        if view.level > full + full && tenancy == Tenancy::Own {
            view.set(full + full);
            view.flow.repaired = true;
        }
        view
    }

    /// Returns the state to store; none when the bucket is empty.
    pub fn state(&self) -> Option<LeakyBucketState> {
        (self.level > 0.0).then(|| LeakyBucketState { level: self.level, last: self.flow.effective_now() })
    }

    fn level_after(&self, elapsed: u64) -> f64 {
        (self.stored - self.flow.moved(elapsed)).max(0.0)
    }

    /// `level + cost ≤ C + ε`, with the whole numbers on one side: their difference is exact, and so is the level's to
    /// it where that is close to ε. The sums would be rounded, each in its own way.
    fn fits(&self, level: f64, cost: u64) -> bool {
        level - exact(self.capacity - cost) <= EPSILON
    }

    fn set(&mut self, level: f64) {
        // Nothing has flowed since the effective now.
        (self.stored, self.level) = (level, level);
        self.flow.restart(level);
    }
}

impl View for LeakyBucketView {
    fn wait_for(&self, cost: Cost) -> Wait {
        if cost.get() > self.capacity {
            return Wait::Never;
        }
        let cost = cost.get();
        if cost == 0 || self.fits(self.level, cost) {
            return Wait::Ready;
        }
        let surplus = self.stored - exact(self.capacity - cost) - EPSILON;
        self.flow.wait(self.flow.time_until(surplus, |elapsed| self.fits(self.level_after(elapsed), cost)))
    }

    fn charge(&mut self, cost: Cost) {
        // Within epsilon of the brim is the brim.
        self.set((self.level + exact(cost.get())).min(exact(self.capacity)));
    }

    fn debit(&mut self, cost: Cost) -> u64 {
        let (had, wanted) = (self.level, self.level + exact(cost.get()));
        // What several quotas share may be fuller already than this one's debt goes.
        let brim = had.max(2.0 * exact(self.capacity));
        self.set(wanted.min(brim));
        if wanted > brim { beyond(cost, brim - had) } else { 0 }
    }

    fn refund(&mut self, cost: Cost, charged_at: Timestamp) {
        let left = self.flow.left_of(cost, charged_at);
        self.set((self.level - left).max(0.0));
    }

    fn limit(&self) -> u64 {
        self.capacity
    }

    fn remaining(&self) -> u64 {
        let room = self.capacity - floor(self.level).min(self.capacity);
        // The same question as of a cost, not a rounding of its own: what is left and what passes may not disagree.
        if self.fits(self.level, room) { room } else { room.saturating_sub(1) }
    }

    fn wait_until_paid(&self) -> Wait {
        if self.fits(self.level, 0) {
            return Wait::Ready;
        }
        let surplus = self.stored - exact(self.capacity) - EPSILON;
        self.flow.wait(self.flow.time_until(surplus, |elapsed| self.fits(self.level_after(elapsed), 0)))
    }

    fn reset_after(&self) -> Nanos {
        if self.level <= 0.0 {
            return Nanos::ZERO;
        }
        self.flow.time_until(self.stored, |elapsed| self.level_after(elapsed) <= 0.0).unwrap_or(Nanos::MAX)
    }

    fn was_repaired(&self) -> bool {
        self.flow.repaired
    }
}
