//! The token bucket: tokens refill continuously up to the burst, and a request takes as many as it costs.
//!
//! The state is the number of tokens as a double, and the instant at which they were counted. With `r` the tokens per second
//! and `B` the burst:
//!
//! ```text
//! tokens      = min(B, stored + (now − last) · r)
//! allowed     if tokens − c ≥ −ε              then tokens − c and now are stored
//! retry_after = the first nanosecond at which that holds
//! remaining   = the largest whole c that is allowed
//! ```
//!
//! A debit is charged in any case, down to `−B` tokens: a debt of one burst.
//!
//! ε is a billionth of a token: 29 tokens at 100 a second are there after 290 ms, although the doubles say
//! 28.999999999999996. The order of the floating-point operations is part of the law (docs/semantics.md §3): a script in
//! another language that does the same operations gets the same bits. Waits are not computed by dividing, which would be off
//! by some units in the last place, but searched for by the predicate itself, so that a request that waits
//! just so long passes.
//!
//! It decides what [GCRA](super::gcra) does, but for rounding. Choose it for states that other programs share.
//!
//! ```
//! use ratekeeper::{Cost, Nanos, Quota, Timestamp, algorithm};
//!
//! let quota: Quota = "100/s burst 50 bucket".parse()?;
//! let now = Timestamp::from_secs(1_000);
//! let (_, state) = algorithm::try_acquire(&quota, None, Cost::new(50), now)?;
//! let later = now + Nanos::from_millis(290);
//! assert_eq!(algorithm::peek(&quota, state.as_ref(), Cost::ONE, later)?.remaining, 29);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::flow::{EPSILON, Flow, beyond, exact, floor};
use super::tenancy::Tenancy;
use super::view::View;
use super::wait::Wait;
use crate::{Cost, Nanos, Quota, Timestamp};

/// The state of a token bucket: how many tokens there were, and when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenBucketState {
    /// How many tokens there were at `last`.
    pub tokens: f64,
    /// The instant at which the tokens were computed.
    pub last: Timestamp,
}

/// The bucket as seen from now.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucketView {
    flow: Flow,
    /// Tokens at `flow.last`, as they are or would be stored.
    stored: f64,
    /// Tokens now.
    tokens: f64,
    capacity: u64,
    /// Other quotas read this state, too: what is full for this one may not be for them.
    shared: bool,
}

impl TokenBucketView {
    /// Returns the state as it stands at `now`.
    #[inline]
    pub fn at(quota: &Quota, state: Option<TokenBucketState>, now: Timestamp, tenancy: Tenancy) -> Self {
        let capacity = quota.burst();
        let full = exact(capacity);
        let (stored, last) = match state {
            Some(TokenBucketState { tokens, last }) if tokens.is_finite() => (tokens.min(full), last),
            // Tokens that are no number are no tokens.
            Some(TokenBucketState { last, .. }) => (0.0, last),
            None => (full, now),
        };
        // A full bucket is a fresh key's, whenever it was counted: no instant ahead of now holds it back.
        let last = if stored < full { last } else { now };
        let flow = Flow::at(quota, last, now, full - stored, tenancy);
        let shared = tenancy == Tenancy::Shared && state.is_some();
        let mut view = TokenBucketView { stored, tokens: stored, flow, capacity, shared };
        view.tokens = view.tokens_after(flow.elapsed());
        // A debt is at most one burst as of now, but for what all quotas of a key share: another one's may be larger.
        if view.tokens < -full && tenancy == Tenancy::Own {
            view.set(-full);
            view.flow.repaired = true;
        }
        view
    }

    /// Returns the state to store; none when the bucket is full and no other quota shares it.
    pub fn state(&self) -> Option<TokenBucketState> {
        (self.tokens < exact(self.capacity) || self.shared)
            .then(|| TokenBucketState { tokens: self.tokens, last: self.flow.effective_now() })
    }

    fn tokens_after(&self, elapsed: u64) -> f64 {
        exact(self.capacity).min(self.stored + self.flow.moved(elapsed))
    }

    fn set(&mut self, tokens: f64) {
        // Nothing has flowed since the effective now.
        (self.stored, self.tokens) = (tokens, tokens);
        self.flow.restart(exact(self.capacity) - tokens);
    }
}

impl View for TokenBucketView {
    fn wait_for(&self, cost: Cost) -> Wait {
        if cost.get() > self.capacity {
            return Wait::Never;
        }
        let cost = exact(cost.get());
        // In debt, nothing is there, and nothing is enough.
        if cost == 0.0 || is_enough(self.tokens, cost) {
            return Wait::Ready;
        }
        let missing = cost - EPSILON - self.stored;
        self.flow.wait(self.flow.time_until(missing, |elapsed| is_enough(self.tokens_after(elapsed), cost)))
    }

    fn charge(&mut self, cost: Cost) {
        // Within epsilon of enough is enough, and leaves nothing rather than less than nothing.
        self.set((self.tokens - exact(cost.get())).max(0.0));
    }

    fn debit(&mut self, cost: Cost) -> u64 {
        let (had, wanted) = (self.tokens, self.tokens - exact(cost.get()));
        // What several quotas share may be further below already than this one's debt goes.
        let bottom = had.min(-exact(self.capacity));
        self.set(wanted.max(bottom));
        if wanted < bottom { beyond(cost, had - bottom) } else { 0 }
    }

    fn refund(&mut self, cost: Cost, charged_at: Timestamp) {
        let left = self.flow.left_of(cost, charged_at);
        self.set(exact(self.capacity).min(self.tokens + left));
    }

    fn limit(&self) -> u64 {
        self.capacity
    }

    fn remaining(&self) -> u64 {
        let whole = floor(self.tokens);
        // The same question as of a cost, not a rounding of its own: what is left and what passes may not disagree.
        let next = whole.saturating_add(1);
        if next <= self.capacity && is_enough(self.tokens, exact(next)) { next } else { whole }
    }

    fn wait_until_paid(&self) -> Wait {
        if is_enough(self.tokens, 0.0) {
            return Wait::Ready;
        }
        let missing = -EPSILON - self.stored;
        self.flow.wait(self.flow.time_until(missing, |elapsed| is_enough(self.tokens_after(elapsed), 0.0)))
    }

    fn reset_after(&self) -> Nanos {
        if self.tokens >= exact(self.capacity) {
            return Nanos::ZERO;
        }
        let full = exact(self.capacity);
        let time = self.flow.time_until(full - self.stored, |elapsed| self.tokens_after(elapsed) >= full);
        time.unwrap_or(Nanos::MAX)
    }

    fn was_repaired(&self) -> bool {
        self.flow.repaired
    }
}

/// `tokens ≥ cost − ε`, as a difference of the two: where that is close to ε it has no rounding error, so that taking
/// a cost at once and in parts comes to the same. `cost − ε` would be rounded to the last place of the cost.
fn is_enough(tokens: f64, cost: f64) -> bool {
    tokens - cost >= -EPSILON
}

#[cfg(test)]
mod tests {
    use super::super::view::take;
    use super::*;

    #[test]
    fn twenty_nine_tokens_are_there_after_290_milliseconds() {
        let quota: Quota = "100/s bucket".parse().unwrap();
        let start = Timestamp::from_secs(1_761_884_055);
        let empty = TokenBucketState { tokens: 0.0, last: start };
        let at = |now| TokenBucketView::at(&quota, Some(empty), now, Tenancy::Own);
        let mut view = at(start + Nanos::from_millis(290));
        assert!(take(&mut view, Cost::new(29)).allowed);
        let mut early = at(start + Nanos::from_nanos(289_999_999));
        assert_eq!(take(&mut early, Cost::new(29)).retry_after, Some(Nanos::from_nanos(1)));
    }
}
