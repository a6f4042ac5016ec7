//! Token bucket and fixed window in the form that other languages' libraries have: whole tokens at whole intervals,
//! on a grid that starts when the limiter is built.

use std::time::Duration;

use crate::algorithm::{SLACK, View, Wait};
use crate::quota::{Quota, QuotaError};
use crate::{Cost, Nanos, Timestamp};

/// A description of whole tokens that arrive at whole intervals, counted from when the limiter is built; the grid never
/// drifts.
///
/// ```
/// use std::time::Duration;
/// use ratekeeper::limiter::{Limiter, Ticks};
/// // Ten at most, three more every minute, and the first two are there at once.
/// let limiter = Limiter::ticking(Ticks::bucket(10, 3, Duration::from_secs(60)).initial(2))?;
/// assert!(limiter.try_acquire(2).allowed);
/// let refused = limiter.try_acquire(4);
/// let minutes = refused.retry_after.unwrap().ceil_secs().div_ceil(60);
/// assert_eq!((refused.allowed, minutes), (false, 2), "two ticks bring six");
/// # Ok::<(), ratekeeper::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a description is not a limiter yet: give it to `Limiter::ticking`"]
pub struct Ticks {
    capacity: u64,
    refill: u64,
    every: Nanos,
    initial: u64,
    window: bool,
}

impl Ticks {
    /// Returns a bucket of `capacity` that gets `refill` whole tokens every interval. It starts full.
    pub fn bucket(capacity: u64, refill: u64, every: Duration) -> Self {
        Ticks { capacity, refill, every: every.into(), initial: capacity, window: false }
    }

    /// Returns a fixed window: `limit` in every interval of a grid that starts when the limiter is built.
    pub fn window(limit: u64, every: Duration) -> Self {
        Ticks { capacity: limit, refill: limit, every: every.into(), initial: limit, window: true }
    }

    /// Sets how many tokens are there at first. More than the capacity is an error when the limiter is built.
    pub fn initial(mut self, tokens: u64) -> Self {
        self.initial = tokens;
        self
    }

    /// Returns the bucket, with its grid laid at `anchor`.
    pub(crate) fn build(self, anchor: Timestamp) -> Result<TickBucket, QuotaError> {
        let Ticks { capacity, refill, every, initial, window } = self;
        for (field, value) in [("capacity", capacity), ("refill", refill)] {
            if value == 0 || value > Quota::MAX_COUNT {
                return Err(QuotaError::range(field, value, format!("must be 1 to {}", Quota::MAX_COUNT)));
            }
        }
        if every.is_zero() || every > Quota::MAX_SPAN {
            return Err(QuotaError::range("every", every, "must be 1 ns to 200 years"));
        }
        if initial > capacity {
            return Err(QuotaError::conflict("initial", initial, format!("the capacity is {capacity}")));
        }
        Ok(TickBucket { capacity, refill, every, window, anchor, tokens: initial, tick: 0 })
    }
}

/// A bucket and its state: how many tokens there were after which tick.
#[derive(Clone, Debug)]
pub(crate) struct TickBucket {
    capacity: u64,
    refill: u64,
    every: Nanos,
    window: bool,
    anchor: Timestamp,
    tokens: u64,
    tick: u64,
}

impl TickBucket {
    /// The bucket as it stands at `now`.
    pub(crate) fn at(&self, now: Timestamp) -> TickView {
        let tick = self.tick_of(now);
        // After a step back the ticks that were counted stay counted; beyond a whole refill and a second they are cut
        // off to a refill.
        let refill = tick.saturating_add(self.capacity.div_ceil(self.refill.max(1)));
        let slack = SLACK.as_nanos().div_ceil(self.every.as_nanos().max(1));
        let counted = if self.tick > refill.saturating_add(slack) { refill } else { self.tick };
        let missed = tick.saturating_sub(counted);
        let mut bucket = self.clone();
        bucket.tokens = self.tokens.saturating_add(missed.saturating_mul(self.refill)).min(self.capacity);
        bucket.tick = counted.max(tick);
        TickView { bucket, now }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// How long the whole capacity takes to come in, rounded down to whole ticks.
    pub(crate) fn refill_time(&self) -> Nanos {
        let ticks = self.capacity / self.refill.max(1);
        Nanos::from_nanos(self.every.as_nanos().saturating_mul(ticks))
    }

    /// Changes the bucket as it stands at `now`.
    pub(crate) fn edit(&mut self, now: Timestamp, change: impl FnOnce(&mut TickView)) {
        let mut view = self.at(now);
        change(&mut view);
        *self = view.bucket;
    }

    /// Forgets what was taken.
    pub(crate) fn fill(&mut self, now: Timestamp) {
        (self.tokens, self.tick) = (self.capacity, self.tick_of(now));
    }

    /// Takes more than there is; returns when that will have been paid. The bucket is that of then.
    pub(crate) fn owe(&mut self, cost: u64, at: Timestamp) -> Timestamp {
        *self = self.at(at).bucket;
        let missing = cost.saturating_sub(self.tokens);
        // No tick brings more than fits.
        let each = self.refill.min(self.capacity).max(1);
        let ticks = missing.div_ceil(each);
        self.tick = self.tick.saturating_add(ticks);
        self.tokens = self.tokens.saturating_sub(cost).max(ticks.saturating_mul(each) - missing);
        self.instant_of(self.tick)
    }

    fn instant_of(&self, tick: u64) -> Timestamp {
        self.anchor + Nanos::from_nanos(tick.saturating_mul(self.every.as_nanos()))
    }

    fn tick_of(&self, instant: Timestamp) -> u64 {
        instant.since(self.anchor).as_nanos() / self.every.as_nanos().max(1)
    }
}

/// A bucket as it stands at one instant.
#[derive(Clone, Debug)]
pub(crate) struct TickView {
    bucket: TickBucket,
    now: Timestamp,
}

impl TickView {
    /// The time until `missing` tokens more are there.
    fn time_to(&self, missing: u64) -> Nanos {
        let ticks = missing.div_ceil(self.bucket.refill.max(1));
        self.bucket.instant_of(self.bucket.tick.saturating_add(ticks)).since(self.now)
    }
}

impl View for TickView {
    fn wait_for(&self, cost: Cost) -> Wait {
        if cost.get() > self.bucket.capacity {
            return Wait::Never;
        }
        match cost.get().checked_sub(self.bucket.tokens) {
            None | Some(0) => Wait::Ready,
            Some(missing) => Wait::After(self.time_to(missing)),
        }
    }

    fn charge(&mut self, cost: Cost) {
        self.bucket.tokens = self.bucket.tokens.saturating_sub(cost.get());
    }

    /// There is no debt here: what is missing is forgiven.
    fn debit(&mut self, cost: Cost) -> u64 {
        let taken = cost.get().min(self.bucket.tokens);
        self.bucket.tokens -= taken;
        cost.get() - taken
    }

    fn refund(&mut self, cost: Cost, charged_at: Timestamp) {
        let bucket = &mut self.bucket;
        let ticks = bucket.tick.saturating_sub(bucket.tick_of(charged_at));
        // A window forgets everything with every tick; a bucket has got so much again.
        let refilled =
            if bucket.window && ticks > 0 { u64::MAX } else { ticks.saturating_mul(bucket.refill) };
        let left = cost.get().saturating_sub(refilled);
        bucket.tokens = bucket.tokens.saturating_add(left).min(bucket.capacity);
    }

    fn limit(&self) -> u64 {
        self.bucket.capacity
    }

    fn remaining(&self) -> u64 {
        self.bucket.tokens
    }

    fn wait_until_paid(&self) -> Wait {
        Wait::Ready
    }

    fn reset_after(&self) -> Nanos {
        match self.bucket.capacity - self.bucket.tokens {
            0 => Nanos::ZERO,
            missing => self.time_to(missing),
        }
    }

    fn was_repaired(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{look, take};

    const START: Timestamp = Timestamp::from_secs(1_000);

    fn at(bucket: &TickBucket, millis: u64) -> TickView {
        bucket.at(START + Nanos::from_millis(millis))
    }

    #[test]
    fn tokens_come_whole_and_on_the_grid() {
        let mut bucket = Ticks::bucket(5, 2, Duration::from_secs(1)).initial(0).build(START).unwrap();
        assert_eq!(at(&bucket, 999).remaining(), 0);
        assert_eq!(at(&bucket, 999).wait_for(Cost::new(3)), Wait::After(Nanos::from_millis(1_001)));
        let mut view = at(&bucket, 1_700);
        assert!(take(&mut view, Cost::ONE).allowed);
        bucket = view.bucket;
        // The next ones come at 2.000 s, not one second after the request.
        assert_eq!(look(&at(&bucket, 1_999), Cost::new(2)).retry_after, Some(Nanos::from_millis(1)));
        assert_eq!(at(&bucket, 2_000).remaining(), 3);
        assert_eq!(at(&bucket, 3_600_000).remaining(), 5);
        assert_eq!(at(&bucket, 1_000).remaining(), 1, "a step back mints nothing");
    }

    #[test]
    fn a_window_is_forgotten_at_its_edge_and_the_grid_does_not_drift() {
        let bucket = Ticks::window(3, Duration::from_secs(7)).build(START).unwrap();
        let mut view = at(&bucket, 6_999);
        assert!(take(&mut view, Cost::new(3)).allowed);
        assert_eq!(view.wait_for(Cost::ONE), Wait::After(Nanos::from_millis(1)));
        let bucket = view.bucket;
        assert_eq!(at(&bucket, 7_000).remaining(), 3);
        let mut late = at(&Ticks::window(3, Duration::from_secs(7)).initial(0).build(START).unwrap(), 6_999);
        late.refund(Cost::ONE, START);
        assert_eq!(late.remaining(), 1, "within its window");
        let far = at(&bucket, 7_000_003_000);
        assert_eq!(
            far.time_to(1),
            Nanos::from_secs(4),
            "a million windows later the edges are where they were"
        );
    }

    #[test]
    fn a_debt_is_paid_tick_by_tick_and_found_in_one_step() {
        let mut bucket = Ticks::bucket(5, 2, Duration::from_secs(1)).build(START).unwrap();
        // Five were there, six are owed: three ticks bring them.
        assert_eq!(bucket.owe(11, START), START + Nanos::from_secs(3));
        assert_eq!((at(&bucket, 3_000).remaining(), at(&bucket, 4_000).remaining()), (0, 2));
        let mut bucket = Ticks::window(3, Duration::from_secs(1)).build(START).unwrap();
        assert_eq!(bucket.owe(7, START), START + Nanos::from_secs(2));
        assert_eq!((at(&bucket, 2_000).remaining(), at(&bucket, 3_000).remaining()), (2, 3));
        assert_eq!(bucket.owe(u64::MAX, START), Timestamp::MAX);
    }

    #[test]
    fn what_cannot_be_honoured_is_refused_by_name() {
        let error = |ticks: Ticks| ticks.build(START).unwrap_err().to_string();
        assert!(error(Ticks::bucket(0, 1, Duration::from_secs(1))).starts_with("capacity: 0"));
        assert!(error(Ticks::bucket(1, 0, Duration::from_secs(1))).starts_with("refill: 0"));
        assert!(error(Ticks::window(1, Duration::ZERO)).starts_with("every: 0ns"));
        assert!(error(Ticks::window(1, Duration::from_secs(1)).initial(2)).starts_with("initial: 2"));
    }
}
