//! GCRA: `t0 = max(TAT, now)`, `t1 = t0 + cost · e`, allowed iff `t1 − now ≤ B · e`.

use super::{Law, emission, refill};
use crate::Quota;
use crate::algorithm::gcra::State;

/// The theoretical arrival time.
#[derive(Clone, Debug)]
pub(super) struct Gcra {
    tat: i128,
}

impl Gcra {
    pub(super) fn of(state: State) -> Self {
        Gcra { tat: state.tat.as_nanos().into() }
    }

    fn t1(&self, quota: &Quota, cost: u64, at: i128) -> i128 {
        self.tat.max(at) + i128::from(cost) * emission(quota)
    }
}

impl Law for Gcra {
    fn fresh(_: &Quota, now: i128) -> Self {
        Gcra { tat: now }
    }

    fn read(&self, quota: &Quota, now: i128) -> (Self, bool) {
        let furthest = now + refill(quota);
        (Gcra { tat: self.tat.clamp(now, furthest) }, self.tat > furthest)
    }

    fn passes(&self, quota: &Quota, cost: u64, at: i128) -> bool {
        self.t1(quota, cost, at) - at <= refill(quota)
    }

    fn is_fresh(&self, _: &Quota, at: i128) -> bool {
        self.tat <= at
    }

    fn charge(&mut self, quota: &Quota, cost: u64, now: i128) {
        self.tat = self.t1(quota, cost, now);
    }

    fn refund(&mut self, quota: &Quota, cost: u64, now: i128) {
        self.tat = now.max(self.tat - i128::from(cost) * emission(quota));
    }

    /// A TAT beyond the end of time cannot be stored, and a saturated one would turn the limit off.
    fn reach(&self, quota: &Quota, cost: u64, at: i128) -> i128 {
        self.t1(quota, cost, at)
    }
}
