//! The token bucket: `tokens' = min(C, tokens + elapsed × rate)`, allowed iff `tokens' ≥ cost − ε`.

use num_rational::BigRational;

use super::law::{Law, SLACK, epsilon, flow, refill, whole, whole_part};
use crate::Quota;
use crate::algorithm::Tenancy;
use crate::algorithm::token_bucket::TokenBucketState;

/// Tokens, and when they were counted.
#[derive(Clone, Debug)]
pub(super) struct TokenBucket {
    tokens: BigRational,
    last: i128,
}

impl TokenBucket {
    /// Tokens that are no number are no tokens.
    pub(super) fn of(state: TokenBucketState) -> Self {
        let tokens = BigRational::from_float(state.tokens).unwrap_or_else(|| whole(0));
        TokenBucket { tokens, last: state.last.as_nanos().into() }
    }

    pub(super) fn tokens_at(&self, quota: &Quota, at: i128) -> BigRational {
        let came = flow(quota, 0.max(at - self.last));
        whole(quota.burst()).min(&self.tokens + came)
    }
}

impl Law for TokenBucket {
    fn fresh(quota: &Quota, now: i128) -> Self {
        TokenBucket { tokens: whole(quota.burst()), last: now }
    }

    fn read(&self, quota: &Quota, now: i128, tenancy: Tenancy) -> (Self, bool) {
        let full = whole(quota.burst());
        let mut read = TokenBucket { tokens: self.tokens.clone().min(full.clone()), last: self.last };
        // An absent key and a full one are the same thing, whenever it was counted.
        if read.is_fresh(quota, now) {
            return (Self::fresh(quota, now), false);
        }
        // Whole again later than two refills and the slack from now: what is there counts as counted now.
        let furthest = now + 2 * refill(quota) + SLACK;
        let is_too_late =
            |read: &Self| tenancy == Tenancy::Own && read.last > now && !read.is_fresh(quota, furthest);
        let repaired = is_too_late(&read);
        if repaired {
            read.last = now;
        }
        // Deeper in debt, as of now, than a debt may be: it is just that deep.
        if tenancy == Tenancy::Shared || read.tokens_at(quota, now) >= -full.clone() {
            return (read, repaired);
        }
        let deepest = TokenBucket { tokens: -full, last: read.last.max(now) };
        let last = if is_too_late(&deepest) { now } else { deepest.last };
        (TokenBucket { last, ..deepest }, true)
    }

    fn passes(&self, quota: &Quota, cost: u64, at: i128) -> bool {
        self.tokens_at(quota, at) >= whole(cost) - epsilon() || cost == 0
    }

    fn is_fresh(&self, quota: &Quota, at: i128) -> bool {
        self.tokens_at(quota, at) >= whole(quota.burst())
    }

    fn owes(&self, quota: &Quota, at: i128) -> bool {
        self.tokens_at(quota, at) < -epsilon()
    }

    fn charge(&mut self, quota: &Quota, cost: u64, now: i128) {
        self.tokens = whole(0).max(self.tokens_at(quota, now) - whole(cost));
        self.last = self.last.max(now);
    }

    /// A burst below empty is as far as a debt goes: what was further below stays there.
    fn debit(&mut self, quota: &Quota, cost: u64, now: i128) -> u64 {
        let tokens = self.tokens_at(quota, now);
        let (bottom, wanted) = (tokens.clone().min(-whole(quota.burst())), tokens - whole(cost));
        self.tokens = wanted.clone().max(bottom);
        self.last = self.last.max(now);
        whole_part(&(&self.tokens - wanted))
    }

    fn refund(&mut self, quota: &Quota, cost: u64, charged_at: i128, now: i128) {
        let left = whole(0).max(whole(cost) - flow(quota, now - charged_at));
        self.tokens = whole(quota.burst()).min(self.tokens_at(quota, now) + left);
        self.last = self.last.max(now);
    }
}
