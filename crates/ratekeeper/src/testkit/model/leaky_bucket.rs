//! The leaky bucket as a meter: `level' = max(0, level − elapsed × rate)`, allowed iff `level' + cost ≤ C + ε`.

use num_rational::BigRational;

use super::law::{Law, SLACK, epsilon, flow, refill, whole};
use crate::Quota;
use crate::algorithm::Tenancy;
use crate::algorithm::leaky_bucket::LeakyBucketState;

/// A level, and when it was read.
#[derive(Clone, Debug)]
pub(super) struct LeakyBucket {
    level: BigRational,
    last: i128,
}

impl LeakyBucket {
    /// A level that is no number leaves no room: it is more than any capacity.
    pub(super) fn of(state: LeakyBucketState) -> Self {
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

    fn read(&self, quota: &Quota, now: i128, tenancy: Tenancy) -> (Self, bool) {
        let full = whole(quota.burst());
        let level = whole(0).max(self.level.clone());
        let level = if tenancy == Tenancy::Own { level.min(full.clone()) } else { level };
        let read = LeakyBucket { level, last: self.last };
        if read.is_fresh(quota, now) {
            return (Self::fresh(quota, now), false);
        }
        // Empty later than a refill and the slack from now: what is in there counts as read now.
        let furthest = now + refill(quota) + SLACK;
        let repaired = tenancy == Tenancy::Own && self.last > now && !read.is_fresh(quota, furthest);
        if repaired { (LeakyBucket { last: now, ..read }, true) } else { (read, false) }
    }

    fn passes(&self, quota: &Quota, cost: u64, at: i128) -> bool {
        self.level_at(quota, at) + whole(cost) <= whole(quota.burst()) + epsilon() || cost == 0
    }

    fn is_fresh(&self, quota: &Quota, at: i128) -> bool {
        self.level_at(quota, at) <= whole(0)
    }

    fn charge(&mut self, quota: &Quota, cost: u64, now: i128) {
        self.level = whole(quota.burst()).min(self.level_at(quota, now) + whole(cost));
        self.last = self.last.max(now);
    }

    fn refund(&mut self, quota: &Quota, cost: u64, charged_at: i128, now: i128) {
        let left = whole(0).max(whole(cost) - flow(quota, now - charged_at));
        self.level = whole(0).max(self.level_at(quota, now) - left);
        self.last = self.last.max(now);
    }
}
