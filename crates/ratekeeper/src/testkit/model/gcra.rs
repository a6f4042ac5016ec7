//! GCRA: `t0 = max(TAT, now)`, `t1 = t0 + cost · e`, allowed iff `t1 − now ≤ B · e`.

use super::law::{END_OF_TIME, Law, SLACK, emission, refill};
use crate::Quota;
use crate::algorithm::Tenancy;
use crate::algorithm::gcra::GcraState;

/// The theoretical arrival time.
#[derive(Clone, Debug)]
pub(super) struct Gcra {
    tat: i128,
}

impl Gcra {
    pub(super) fn of(state: GcraState) -> Self {
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

    fn read(&self, quota: &Quota, now: i128, tenancy: Tenancy) -> (Self, bool) {
        let emptied = now + refill(quota);
        if tenancy == Tenancy::Own && self.tat > emptied + refill(quota) + SLACK {
            return (Gcra { tat: emptied }, true);
        }
        (Gcra { tat: self.tat.max(now) }, false)
    }

    fn passes(&self, quota: &Quota, cost: u64, at: i128) -> bool {
        self.t1(quota, cost, at) - at <= refill(quota) || cost == 0
    }

    fn is_fresh(&self, _: &Quota, at: i128) -> bool {
        self.tat <= at
    }

    fn owes(&self, quota: &Quota, at: i128) -> bool {
        self.tat - at > refill(quota)
    }

    fn charge(&mut self, quota: &Quota, cost: u64, now: i128) {
        self.tat = self.t1(quota, cost, now);
    }

    /// Two refills ahead is as far as a debt goes, and the end of time: what was further ahead stays there.
    fn debit(&mut self, quota: &Quota, cost: u64, now: i128) -> u64 {
        let furthest = self.tat.max(END_OF_TIME.min(now + 2 * refill(quota)));
        let wanted = self.t1(quota, cost, now);
        self.tat = wanted.min(furthest);
        u64::try_from((wanted - self.tat) / emission(quota)).unwrap_or(u64::MAX)
    }

    fn refund(&mut self, quota: &Quota, cost: u64, charged_at: i128, now: i128) {
        let left = i128::from(cost) * emission(quota) - (now - charged_at);
        self.tat = now.max(self.tat - left.max(0));
    }

    /// A TAT beyond the end of time cannot be stored, and a saturated one would turn the limit off.
    fn reach(&self, quota: &Quota, cost: u64, at: i128) -> i128 {
        if cost == 0 { at } else { self.t1(quota, cost, at) }
    }
}
