//! The token bucket. State: tokens as a double, and the instant they were counted at.
//!
//! The order of the floating-point operations is part of the contract: a script in another language that does the
//! same operations gets the same bits.

use super::solve::first_instant;
use super::{SLACK, Tenancy, View, Wait};
use crate::{Cost, Nanos, Quota, Timestamp};

/// A token is there if this little of it is missing: 29 tokens at 100 a second are there after 290 ms, although
/// the doubles say 28.999999999999996.
pub const EPSILON: f64 = 1e-9;

/// How many tokens there were, and when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// Tokens at `last`.
    pub tokens: f64,
    /// When they were counted.
    pub last: Timestamp,
}

/// The bucket as seen from now.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucketView {
    flow: Flow,
    /// Tokens at `flow.last`, as they are or would be stored.
    stored: f64,
    capacity: u64,
    /// Other quotas read this state, too: what is full for this one may not be for them.
    shared: bool,
}

impl TokenBucketView {
    /// The state as it stands at `now`.
    pub fn at(quota: &Quota, state: Option<State>, now: Timestamp, tenancy: Tenancy) -> Self {
        let capacity = quota.burst();
        let full = exact(capacity);
        let (stored, last) = match state {
            // Fewer than none are none: a bucket is refilled from empty within the refill time, whatever was stored.
            Some(State { tokens, last }) if tokens.is_finite() => (tokens.clamp(0.0, full), last),
            // Tokens that are no number are no tokens.
            Some(State { last, .. }) => (0.0, last),
            None => (full, now),
        };
        // A full bucket is a fresh key's, whenever it was counted: no instant ahead of now holds it back.
        let last = if stored < full { last } else { now };
        let flow = Flow::at(quota, last, now, full - stored, tenancy);
        let shared = tenancy == Tenancy::Shared && state.is_some();
        TokenBucketView { stored, flow, capacity, shared }
    }

    /// The state to store; none when the bucket is full, and nobody else's.
    pub fn state(&self) -> Option<State> {
        let tokens = self.tokens();
        (tokens < exact(self.capacity) || self.shared)
            .then(|| State { tokens, last: self.flow.effective_now() })
    }

    fn tokens(&self) -> f64 {
        self.tokens_after(self.flow.elapsed())
    }

    fn tokens_after(&self, elapsed: u64) -> f64 {
        exact(self.capacity).min(self.stored + self.flow.moved(elapsed))
    }

    fn set(&mut self, tokens: f64) {
        self.stored = tokens;
        self.flow.restart(exact(self.capacity) - tokens);
    }
}

impl View for TokenBucketView {
    fn wait_for(&self, cost: Cost) -> Wait {
        if cost.get() > self.capacity {
            return Wait::Never;
        }
        let cost = exact(cost.get());
        if is_enough(self.tokens(), cost) {
            return Wait::Ready;
        }
        let missing = cost - EPSILON - self.stored;
        self.flow.wait(self.flow.time_until(missing, |elapsed| is_enough(self.tokens_after(elapsed), cost)))
    }

    fn charge(&mut self, cost: Cost) {
        // Within epsilon of enough is enough, and leaves nothing rather than less than nothing.
        self.set((self.tokens() - exact(cost.get())).max(0.0));
    }

    fn refund(&mut self, cost: Cost, charged_at: Timestamp) {
        let left = self.flow.left_of(cost, charged_at);
        self.set(exact(self.capacity).min(self.tokens() + left));
    }

    fn limit(&self) -> u64 {
        self.capacity
    }

    fn remaining(&self) -> u64 {
        let tokens = self.tokens();
        let whole = floor(tokens);
        // The same question as of a cost, not a rounding of its own: what is left and what passes may not disagree.
        let next = whole.saturating_add(1);
        if next <= self.capacity && is_enough(tokens, exact(next)) { next } else { whole }
    }

    fn reset_after(&self) -> Nanos {
        if self.tokens() >= exact(self.capacity) {
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

/// Something that moves at a constant rate since an instant: tokens that come, a level that goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    rate: f64,
    now: Timestamp,
    /// The stored instant; now, if the state was cut off.
    last: Timestamp,
    /// How many nanoseconds from now the state may be whole again, at the latest.
    furthest: f64,
    pub(super) repaired: bool,
}

impl Flow {
    /// `missing` is what must flow from `last` on until the state equals a fresh key's. If that is later than a refill
    /// and the slack from now, a state of one's own is cut off: what is missing flows from now on.
    ///
    /// The comparison is part of the contract as well, operation by operation.
    pub(super) fn at(quota: &Quota, last: Timestamp, now: Timestamp, missing: f64, tenancy: Tenancy) -> Self {
        let furthest = match tenancy {
            Tenancy::Own => exact(quota.refill_time().as_nanos()) + exact(SLACK.as_nanos()),
            Tenancy::Shared => f64::INFINITY,
        };
        let mut flow = Flow { rate: quota.rate(), now, last, furthest, repaired: false };
        flow.repaired = flow.cut_off(missing);
        flow
    }

    /// Lets what is missing flow from now on if it would be whole too late. Tells whether it would.
    fn cut_off(&mut self, missing: f64) -> bool {
        let ahead = self.last.since(self.now).as_nanos();
        let is_too_late = ahead > 0 && exact(ahead) + missing * 1e9 / self.rate > self.furthest;
        if is_too_late {
            self.last = self.now;
        }
        is_too_late
    }

    /// What is left of a cost that began to flow back when it was charged; nothing if all has.
    pub(super) fn left_of(&self, cost: Cost, charged_at: Timestamp) -> f64 {
        (exact(cost.get()) - self.moved(self.now.since(charged_at).as_nanos())).max(0.0)
    }

    /// Nanoseconds from `last` to the effective now; zero while the clock is behind `last`.
    pub(super) fn elapsed(&self) -> u64 {
        self.now.since(self.last).as_nanos()
    }

    /// `max(now, last)`.
    pub(super) fn effective_now(&self) -> Timestamp {
        self.now.max(self.last)
    }

    /// How much has moved after `elapsed` nanoseconds.
    #[expect(clippy::cast_precision_loss, reason = "exact below 2^53 ns, 104 days, and monotone beyond")]
    pub(super) fn moved(&self, elapsed: u64) -> f64 {
        elapsed as f64 * self.rate / 1e9
    }

    /// What has moved is accounted for, and so much is missing: the flow starts again at the effective now. If a
    /// clock that stepped back is that far behind that the state would be cut off the next time, it is now.
    pub(super) fn restart(&mut self, missing: f64) {
        self.last = self.effective_now();
        self.cut_off(missing);
    }

    /// What a cost waits for that must wait so long.
    pub(super) fn wait(&self, time: Option<Nanos>) -> Wait {
        Wait::after(self.now, time)
    }

    /// The time from now until `reached` is true of the elapsed time, given that it is when about `amount` has
    /// moved. Counts the time until the clock gets to `last`, if it is behind.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a guess, clamped by the cast"
    )]
    pub(super) fn time_until(&self, amount: f64, reached: impl Fn(u64) -> bool) -> Option<Nanos> {
        let guess = (amount * 1e9 / self.rate).ceil() as u64;
        let instant = first_instant(guess, u64::MAX, reached)?;
        let behind = self.last.since(self.now).as_nanos();
        behind.checked_add(instant.saturating_sub(self.elapsed())).map(Nanos::from_nanos)
    }
}

/// A whole number as a double; exact up to 2^53, which capacities do not exceed, and the nearest one beyond.
#[expect(clippy::cast_precision_loss, reason = "see above; a larger cost is refused before it counts")]
pub(crate) fn exact(whole: u64) -> f64 {
    whole as f64
}

/// The whole part of a number, of tokens or of nanoseconds; nothing for less than nothing.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates at both ends"
)]
pub(crate) fn floor(number: f64) -> u64 {
    number.floor() as u64
}

#[cfg(test)]
mod tests {
    use super::super::take;
    use super::*;

    #[test]
    fn twenty_nine_tokens_are_there_after_290_milliseconds() {
        let quota: Quota = "100/s bucket".parse().unwrap();
        let start = Timestamp::from_secs(1_761_884_055);
        let empty = State { tokens: 0.0, last: start };
        let at = |now| TokenBucketView::at(&quota, Some(empty), now, Tenancy::Own);
        let mut view = at(start + Nanos::from_millis(290));
        assert!(take(&mut view, Cost::new(29)).allowed);
        let mut early = at(start + Nanos::from_nanos(289_999_999));
        assert_eq!(take(&mut early, Cost::new(29)).retry_after, Some(Nanos::from_nanos(1)));
    }
}
