//! The leaky bucket as a meter: `level' = max(0, level − elapsed × rate)`, allowed iff `level' + cost ≤ C + ε`.

use num_rational::BigRational;

use super::law::{Law, SLACK, epsilon, flow, refill, whole, whole_part};
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
    /// A level that is no number leaves no room.
    pub(super) fn of(state: LeakyBucketState, quota: &Quota) -> Self {
        let level = BigRational::from_float(state.level).unwrap_or_else(|| whole(quota.burst()));
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
        let brim = whole(quota.burst()) * whole(2);
        let mut read = LeakyBucket { level: whole(0).max(self.level.clone()), last: self.last };
        if read.is_fresh(quota, now) {
            return (Self::fresh(quota, now), false);
        }
        // Empty later than two refills and the slack from now: what is in there counts as read now.
        let furthest = now + 2 * refill(quota) + SLACK;
        let is_too_late =
            |read: &Self| tenancy == Tenancy::Own && read.last > now && !read.is_fresh(quota, furthest);
        let repaired = is_too_late(&read);
        if repaired {
            read.last = now;
        }
        // Deeper in debt, as of now, than a debt may be: it is just that deep.
        if tenancy == Tenancy::Shared || read.level_at(quota, now) <= brim {
            return (read, repaired);
        }
        let deepest = LeakyBucket { level: brim, last: read.last.max(now) };
        let last = if is_too_late(&deepest) { now } else { deepest.last };
        (LeakyBucket { last, ..deepest }, true)
    }

    fn passes(&self, quota: &Quota, cost: u64, at: i128) -> bool {
        self.level_at(quota, at) + whole(cost) <= whole(quota.burst()) + epsilon() || cost == 0
    }

    fn is_fresh(&self, quota: &Quota, at: i128) -> bool {
        self.level_at(quota, at) <= whole(0)
    }

    fn owes(&self, quota: &Quota, at: i128) -> bool {
        self.level_at(quota, at) > whole(quota.burst()) + epsilon()
    }

    fn charge(&mut self, quota: &Quota, cost: u64, now: i128) {
        self.level = whole(quota.burst()).min(self.level_at(quota, now) + whole(cost));
        self.last = self.last.max(now);
    }

    /// Twice the capacity is as far as a debt goes: what was above that stays there.
    fn debit(&mut self, quota: &Quota, cost: u64, now: i128) -> u64 {
        let level = self.level_at(quota, now);
        let (brim, wanted) = (level.clone().max(whole(quota.burst()) * whole(2)), level + whole(cost));
        self.level = wanted.clone().min(brim);
        self.last = self.last.max(now);
        whole_part(&(wanted - &self.level))
    }

    fn refund(&mut self, quota: &Quota, cost: u64, charged_at: i128, now: i128) {
        let left = whole(0).max(whole(cost) - flow(quota, now - charged_at));
        self.level = whole(0).max(self.level_at(quota, now) - left);
        self.last = self.last.max(now);
    }
}
