//! The leaky bucket as a meter: `level' = max(0, level − elapsed × rate)`, allowed iff `level' + cost ≤ C + ε`.

use num_rational::BigRational;

use super::{Law, epsilon, flow, refill, whole};
use crate::Quota;
use crate::algorithm::leaky_bucket::State;

/// A level, and when it was read.
#[derive(Clone, Debug)]
pub(super) struct LeakyBucket {
    level: BigRational,
    last: i128,
}

impl LeakyBucket {
    /// A level that is no number leaves no room: it is more than any capacity.
    pub(super) fn of(state: State) -> Self {
        let level = BigRational::from_float(state.level).unwrap_or_else(|| whole(u64::MAX));
        LeakyBucket { level, last: state.last.as_nanos().into() }
    }

    pub(super) fn level_at(&self, quota: &Quota, at: i128) -> BigRational {
        let gone = flow(quota, 0.max(at - self.last));
        whole(0).max(&self.level - gone)
    }
}

impl Law for LeakyBucket {
    fn fresh(_: &Quota, now: i128) -> Self {
        LeakyBucket { level: whole(0), last: now }
    }

    fn read(&self, quota: &Quota, now: i128) -> (Self, bool) {
        let (full, furthest) = (whole(quota.burst()), now + refill(quota));
        let level = self.level.clone().clamp(whole(0), full);
        let read = LeakyBucket { level, last: self.last.min(furthest) };
        if read.is_fresh(quota, now) {
            return (Self::fresh(quota, now), false);
        }
        (read, self.last > furthest)
    }

    fn passes(&self, quota: &Quota, cost: u64, at: i128) -> bool {
        self.level_at(quota, at) + whole(cost) <= whole(quota.burst()) + epsilon()
    }

    fn is_fresh(&self, quota: &Quota, at: i128) -> bool {
        self.level_at(quota, at) <= whole(0)
    }

    fn charge(&mut self, quota: &Quota, cost: u64, now: i128) {
        self.level = whole(quota.burst()).min(self.level_at(quota, now) + whole(cost));
        self.last = self.last.max(now);
    }

    fn refund(&mut self, quota: &Quota, cost: u64, now: i128) {
        self.level = whole(0).max(self.level_at(quota, now) - whole(cost));
        self.last = self.last.max(now);
    }
}
