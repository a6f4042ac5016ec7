//! The sliding window counter: `estimate = previous × (1 − elapsed / window) + current`, allowed iff
//! `estimate + (cost − 1) < limit`.

use num_rational::BigRational;

use super::{Law, whole};
use crate::Quota;
use crate::algorithm::sliding_window::State;

/// The counts of two neighbouring slots, and where the later one began.
#[derive(Clone, Debug)]
pub(super) struct SlidingWindow {
    previous: u64,
    current: u64,
    start: i128,
}

impl SlidingWindow {
    pub(super) fn of(state: State) -> Self {
        SlidingWindow {
            previous: state.previous,
            current: state.current,
            start: state.start.as_nanos().into(),
        }
    }

    fn estimate(&self, quota: &Quota, at: i128) -> BigRational {
        let elapsed = BigRational::new(0.max(at - self.start).into(), quota.period().as_nanos().into());
        whole(self.previous) * (whole(1) - elapsed) + whole(self.current)
    }
}

impl Law for SlidingWindow {
    fn fresh(_: &Quota, now: i128) -> Self {
        SlidingWindow { previous: 0, current: 0, start: now }
    }

    fn read(&self, quota: &Quota, now: i128) -> (Self, bool) {
        let window = i128::from(quota.period().as_nanos());
        let (furthest, limit) = (now + window, quota.burst());
        let repaired = self.start > furthest;
        let mut slots = SlidingWindow {
            previous: self.previous.min(limit),
            current: self.current.min(limit),
            start: self.start.min(furthest),
        };
        loop {
            if slots.previous == 0 && slots.current == 0 {
                return (Self::fresh(quota, now), false);
            }
            if slots.start + window > now {
                return (slots, repaired);
            }
            slots = SlidingWindow { previous: slots.current, current: 0, start: slots.start + window };
        }
    }

    fn passes(&self, quota: &Quota, cost: u64, at: i128) -> bool {
        let then = self.read(quota, at).0;
        then.estimate(quota, at) + whole(cost) - whole(1) < whole(quota.burst())
            // A cost of nothing is a question, and always fine to ask.
            || cost == 0
    }

    fn is_fresh(&self, quota: &Quota, at: i128) -> bool {
        let then = self.read(quota, at).0;
        then.previous == 0 && then.current == 0
    }

    fn charge(&mut self, _: &Quota, cost: u64, _: i128) {
        self.current += cost;
    }

    fn refund(&mut self, _: &Quota, cost: u64, _: i128) {
        // What this slot did not take, the one before did.
        let from_current = cost.min(self.current);
        self.current -= from_current;
        self.previous = self.previous.saturating_sub(cost - from_current);
    }
}
