//! The sliding window counter: `estimate = previous × (1 − elapsed / window) + current`, allowed iff
//! `estimate + (cost − 1) < limit`.

use num_rational::BigRational;

use super::law::{Law, SLACK, count_on, whole};
use crate::Quota;
use crate::algorithm::Tenancy;
use crate::algorithm::sliding_window::SlidingWindowState;

/// The counts of two neighbouring slots, and where the later one began.
#[derive(Clone, Debug)]
pub(super) struct SlidingWindow {
    previous: u64,
    current: u64,
    start: i128,
}

impl SlidingWindow {
    pub(super) fn of(state: SlidingWindowState) -> Self {
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

    fn read(&self, quota: &Quota, now: i128, tenancy: Tenancy) -> (Self, bool) {
        let window = i128::from(quota.period().as_nanos());
        // A slot that begins later than the slack from now begins now.
        let repaired = tenancy == Tenancy::Own && self.start > now + SLACK;
        let mut slots = SlidingWindow {
            previous: self.previous,
            current: self.current,
            start: if repaired { now } else { self.start },
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
        let then = self.read(quota, at, Tenancy::Shared).0;
        then.estimate(quota, at) + whole(cost) - whole(1) < whole(quota.burst())
            // A cost of nothing is a question, and always fine to ask.
            || cost == 0
    }

    fn is_fresh(&self, quota: &Quota, at: i128) -> bool {
        let then = self.read(quota, at, Tenancy::Shared).0;
        then.previous == 0 && then.current == 0
    }

    fn owes(&self, quota: &Quota, at: i128) -> bool {
        // The last that passed may have made it up to one more than the limit.
        let then = self.read(quota, at, Tenancy::Shared).0;
        then.estimate(quota, at) >= whole(quota.burst()) + whole(1)
    }

    fn charge(&mut self, _: &Quota, cost: u64, _: i128) {
        self.current += cost;
    }

    fn debit(&mut self, _: &Quota, cost: u64, _: i128) -> u64 {
        let sum = self.current.into();
        count_on(&mut self.current, sum, cost)
    }

    fn refund(&mut self, quota: &Quota, cost: u64, charged_at: i128, _: i128) {
        if charged_at >= self.start {
            self.current = self.current.saturating_sub(cost);
        } else if charged_at >= self.start - i128::from(quota.period().as_nanos()) {
            self.previous = self.previous.saturating_sub(cost);
        }
    }
}
