//! What is remembered of one hold: 80 bytes, whether it is live or has ended.

use super::slab::Hashed;
use super::tag::mix;
use crate::port::{HoldId, HoldRequest, HoldState};
use crate::{Decision, Nanos, Reason, Timestamp};

/// A hold that is live, or the answer that it was ended with.
#[derive(Debug)]
pub(super) struct HoldRecord {
    /// Two words: one of twice the length would have to lie on an even place, and sixteen bytes were lost.
    id: [u64; 2],
    pub(super) lease_end: Timestamp,
    /// Where its [`Holder`](super::holder::Holder) is.
    pub(super) holder: u32,
    /// Where its [`PlanSet`](super::plan_set::PlanSet) is.
    pub(super) plans: u32,
    /// Of a live one, its place among the leases; of one that has ended, the one that ended next.
    pub(super) link: u32,
    pub(super) body: HoldBody,
}

const _: () = assert!(size_of::<HoldRecord>() == 80, "a million of them are 80 MB");

/// What differs between a hold that is live and one that has ended.
#[derive(Debug)]
pub(super) enum HoldBody {
    /// Few rules, and small estimates: most holds.
    Few { charged_at: Timestamp, estimates: [u32; FEW] },
    /// An estimate for each rule.
    Many { charged_at: Timestamp, estimates: Box<[u64]> },
    /// The words of the decision that it was ended with.
    Ended {
        state: HoldState,
        reason: Reason,
        rule: u16,
        limit: u64,
        remaining: u64,
        retry: u64,
        reset: Nanos,
    },
}

/// Rules whose estimates need no memory of their own.
const FEW: usize = 6;

/// The estimate of a rule that was not charged: one in shadow that would have denied.
pub(super) const UNCHARGED: u64 = u64::MAX;

/// No time to wait for.
const NEVER: u64 = u64::MAX;

impl HoldRecord {
    /// Returns a record of a live hold that was charged so much of each rule.
    pub(super) fn live(
        id: HoldId,
        charged_at: Timestamp,
        lease_end: Timestamp,
        estimates: impl Iterator<Item = u64> + Clone,
    ) -> Self {
        let body = match few(estimates.clone()) {
            Some(estimates) => HoldBody::Few { charged_at, estimates },
            None => HoldBody::Many { charged_at, estimates: estimates.collect() },
        };
        Self::new(id, lease_end, body)
    }

    /// Returns a record that is not among those of its key yet.
    pub(super) fn new(id: HoldId, lease_end: Timestamp, body: HoldBody) -> Self {
        HoldRecord { id: halves(id), lease_end, holder: 0, plans: 0, link: 0, body }
    }

    /// Returns the bytes on the heap that a record of these estimates takes.
    pub(super) fn heap_of(estimates: impl Iterator<Item = u64> + Clone) -> usize {
        few(estimates.clone()).map_or_else(|| estimates.count() * size_of::<u64>(), |_| 0)
    }

    /// Returns the bytes on the heap.
    pub(super) fn heap_size(&self) -> usize {
        match &self.body {
            HoldBody::Many { estimates, .. } => size_of_val(&**estimates),
            _ => 0,
        }
    }

    /// Returns the identifier.
    pub(super) fn id(&self) -> HoldId {
        HoldId::from_bits(u128::from(self.id[0]) << 64 | u128::from(self.id[1]))
    }

    /// Returns true if it has this identifier.
    #[inline]
    pub(super) fn is(&self, id: HoldId) -> bool {
        self.id == halves(id)
    }

    /// Returns true if it has not ended.
    pub(super) fn is_live(&self) -> bool {
        !matches!(self.body, HoldBody::Ended { .. })
    }

    /// Returns when it was charged; of one that has ended, never.
    pub(super) fn charged_at(&self) -> Timestamp {
        match self.body {
            HoldBody::Few { charged_at, .. } | HoldBody::Many { charged_at, .. } => charged_at,
            HoldBody::Ended { .. } => Timestamp::MIN,
        }
    }

    /// Returns what was charged of the rule at this position; [`UNCHARGED`] if nothing was.
    #[inline]
    pub(super) fn estimate(&self, rule: usize) -> u64 {
        match &self.body {
            HoldBody::Few { estimates, .. } => match estimates.get(rule) {
                Some(&u32::MAX) | None => UNCHARGED,
                Some(estimate) => u64::from(*estimate),
            },
            HoldBody::Many { estimates, .. } => estimates.get(rule).copied().unwrap_or(UNCHARGED),
            HoldBody::Ended { .. } => UNCHARGED,
        }
    }

    /// Makes it one that has ended, and been answered so.
    pub(super) fn end(&mut self, state: HoldState, decision: &Decision) {
        let Decision { limit, remaining, retry_after, reset_after: reset, rule, reason, .. } = *decision;
        let retry = retry_after.map_or(NEVER, Nanos::as_nanos);
        self.body = HoldBody::Ended { state, reason, rule, limit, remaining, retry, reset };
    }

    /// Returns what it was ended by, and the decision then.
    pub(super) fn answer(&self) -> Option<(HoldState, Decision)> {
        let HoldBody::Ended { state, reason, rule, limit, remaining, retry, reset } = self.body else {
            return None;
        };
        let retry = (retry != NEVER).then(|| Nanos::from_nanos(retry));
        let decision = match reason {
            Reason::WithinQuota => Decision::allow(limit, remaining, reset),
            _ => Decision { reason, ..Decision::deny(limit, remaining, retry, reset) },
        };
        Some((state, decision.of_rule(rule)))
    }

    /// Returns when nobody needs to remember that it has ended.
    pub(super) fn forget_at(&self) -> Timestamp {
        self.lease_end + HoldRequest::REMEMBERED
    }
}

impl Hashed for HoldRecord {
    #[inline]
    fn hash(&self) -> u64 {
        hash(self.id)
    }
}

/// Returns the hash that a hold of this identifier is found by.
#[inline]
pub(super) fn hash_of(id: HoldId) -> u64 {
    hash(halves(id))
}

fn hash(id: [u64; 2]) -> u64 {
    mix(id[0].rotate_left(32) ^ id[1])
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half")]
fn halves(id: HoldId) -> [u64; 2] {
    [(id.bits() >> 64) as u64, id.bits() as u64]
}

/// Returns the estimates as small numbers, if they are.
fn few(estimates: impl Iterator<Item = u64>) -> Option<[u32; FEW]> {
    let mut small = [u32::MAX; FEW];
    for (at, estimate) in estimates.enumerate() {
        *small.get_mut(at)? = match estimate {
            UNCHARGED => u32::MAX,
            _ => u32::try_from(estimate).ok().filter(|small| *small != u32::MAX)?,
        };
    }
    Some(small)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_remembered_large_and_small() {
        let at = Timestamp::from_secs(5);
        for estimates in [
            vec![1, 0, UNCHARGED],
            vec![1; 7],
            vec![u64::from(u32::MAX)],
            vec![u64::from(u32::MAX) - 1, u64::MAX - 1],
        ] {
            let record = HoldRecord::live(HoldId::from_bits(7), at, at, estimates.iter().copied());
            assert_eq!(record.heap_size(), HoldRecord::heap_of(estimates.iter().copied()));
            for (rule, estimate) in estimates.iter().enumerate() {
                assert_eq!(record.estimate(rule), *estimate);
            }
            assert_eq!(record.estimate(estimates.len()), UNCHARGED);
        }
    }

    #[test]
    fn an_answer_is_remembered_whole() {
        let reset = Nanos::from_secs(9);
        for decision in [
            Decision::allow(7, 3, reset).of_rule(5),
            Decision::deny(7, 0, Some(Nanos::from_secs(3)), reset),
            Decision::deny(7, 0, None, reset).of_rule(1),
            Decision { reason: Reason::AtCapacity, ..Decision::deny(7, 0, None, reset) },
        ] {
            let id = HoldId::from_bits(u128::MAX / 3);
            let mut record = HoldRecord::live(id, Timestamp::EPOCH, Timestamp::EPOCH, [1].into_iter());
            assert!(record.is_live() && record.is(id) && record.id() == id);
            record.end(HoldState::Cancelled, &decision);
            assert_eq!(record.answer(), Some((HoldState::Cancelled, decision)));
        }
    }
}
