//! The generic cell rate algorithm (GCRA): a token bucket without tokens, whose state is one instant.
//!
//! The instant is the theoretical arrival time (TAT), at which the quota is full again. With `e` the emission interval, in
//! which one unit refills, `B` the burst and `c` the cost of a request:
//!
//! ```text
//! new TAT     = max(TAT, now) + c · e
//! allowed     if new TAT − now ≤ B · e        then the new TAT is stored
//! retry_after = new TAT − now − B · e
//! remaining   = (B · e − (TAT − now)) / e     rounded down
//! reset_after = TAT − now
//! ```
//!
//! A debit is charged in any case, up to a TAT of `2 · B · e` from now: a debt of one burst.
//!
//! `B · e` is called the tolerance. All numbers are integers of nanoseconds, so that every language gets the same answers.
//! `e` is rounded up to a nanosecond: what passes in the long run is never more than the quota says, and less by the fraction
//! that was rounded. 7 per minute lose a part in ten billion, and 600 million per second become 500 million.
//!
//! A state takes 8 bytes, and a decision no division but that by `e`, which is a multiplication.
//!
//! ```
//! use ratekeeper::{Cost, Nanos, Quota, Timestamp, algorithm};
//!
//! let quota: Quota = "10/s burst 3".parse()?;
//! let now = Timestamp::from_secs(1_000);
//! let (first, state) = algorithm::try_acquire(&quota, None, Cost::new(3), now)?;
//! assert_eq!((first.remaining, first.reset_after), (0, Nanos::from_millis(300)));
//! let (second, _) = algorithm::try_acquire(&quota, state.as_ref(), Cost::ONE, now)?;
//! assert_eq!(second.retry_after, Some(Nanos::from_millis(100)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::tenancy::{SLACK, Tenancy};
use super::view::View;
use super::wait::Wait;
use crate::{Cost, Decision, Nanos, Quota, Timestamp};

/// The state of GCRA: the instant at which the quota is full again. Equals a fresh key's once it has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GcraState {
    /// The theoretical arrival time: when the quota is full again.
    pub tat: Timestamp,
}

/// The TAT as seen from now: `ahead` is how far it lies in the future.
#[derive(Clone, Copy, Debug)]
pub struct GcraView<'q> {
    quota: &'q Quota,
    now: Timestamp,
    ahead: u64,
    repaired: bool,
}

/// Decides one cost on a theoretical arrival time, `None` for that of a fresh key. Returns the time as it stands
/// afterwards, and what the cost must wait for: it is charged if it is ready, and only then.
///
/// The one place of GCRA's arithmetic, for whoever keeps a bare instant: a slot of the store in memory, the atomic word of
/// a limiter. Inlined, so that it costs them nothing, and without the numbers of a [`Decision`](crate::Decision): those
/// are [described](super::view::describe) when the lock is gone.
#[inline(always)]
pub(crate) fn decide<'q>(
    quota: &'q Quota,
    tat: Option<Timestamp>,
    cost: Cost,
    now: Timestamp,
    tenancy: Tenancy,
) -> (GcraView<'q>, Wait) {
    let mut view = GcraView::at(quota, tat.map(|tat| GcraState { tat }), now, tenancy);
    let wait = view.wait_for(cost);
    if wait == Wait::Ready {
        view.charge(cost);
    }
    (view, wait)
}

/// What comes of a cost at an arrival time, as far as the short cut of [`decide`] can tell; see [`pass`].
pub(crate) enum Passage {
    /// It passes, and the arrival time lies so far ahead of now then. [`passed`] describes it.
    Ready { ahead: u64 },
    /// It does not pass now: the arrival time lies so far ahead, and would so far. [`short`] describes it.
    Short { ahead: u64, needed: u64 },
    /// [`decide`] has to be asked, which also knows what is out of the ordinary: costs that never pass, instants that lie
    /// too far ahead, the year 2262.
    Unusual,
}

/// The short cut of [`decide`] for an atomic word that is charged in nanoseconds: what is to be written there. The numbers
/// of a decision are made of it once that is done.
#[inline(always)]
pub(crate) fn pass(quota: &Quota, tat: Timestamp, cost: Cost, now: Timestamp) -> Passage {
    let tolerance = quota.refill_time().as_nanos();
    let ahead = tat.since(now).as_nanos();
    if ahead > tolerance || cost.get() > quota.burst() {
        return Passage::Unusual;
    }
    // Both terms are at most a refill, which is less than 2^63: the sum fits.
    let needed = ahead + cost.get() * quota.emission_interval().as_nanos();
    // No arrival time of this quota may lie beyond the end of time: less would remain than the tolerance says, and what is
    // needed later than that will never pass.
    if now.as_nanos().checked_add_unsigned(needed.max(tolerance)).is_none() {
        return Passage::Unusual;
    }
    if needed <= tolerance { Passage::Ready { ahead: needed } } else { Passage::Short { ahead, needed } }
}

/// Returns the decision on a cost that has passed.
#[inline(always)]
pub(crate) fn passed(quota: &Quota, ahead: u64, now: Timestamp) -> Decision {
    let remaining = quota.intervals_in(quota.refill_time().as_nanos() - ahead);
    Decision::allow(quota.burst(), remaining, Nanos::from_nanos(ahead)).charged(now)
}

/// Returns the decision on a cost that does not pass now.
#[inline(always)]
pub(crate) fn short(quota: &Quota, ahead: u64, needed: u64) -> Decision {
    let tolerance = quota.refill_time().as_nanos();
    let wait = Nanos::from_nanos(needed - tolerance);
    Decision::deny(quota.burst(), quota.intervals_in(tolerance - ahead), Some(wait), Nanos::from_nanos(ahead))
}

impl<'q> GcraView<'q> {
    /// Returns the state as it stands at `now`. A TAT of one's own that lies further ahead than twice the tolerance, as far
    /// as a debt goes, and the slack counts as an emptied quota.
    #[inline]
    pub fn at(quota: &'q Quota, state: Option<GcraState>, now: Timestamp, tenancy: Tenancy) -> Self {
        let tolerance = quota.refill_time();
        let ahead = state.map_or(Nanos::ZERO, |state| state.tat.since(now));
        let reach = tolerance.saturating_add(tolerance).saturating_add(SLACK);
        let repaired = ahead > reach && tenancy == Tenancy::Own;
        let ahead = if repaired { tolerance } else { ahead }.as_nanos();
        GcraView { quota, now, ahead, repaired }
    }

    /// Returns the instant that this is a view of.
    #[inline]
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns `B · e`, the time in which a whole burst refills.
    fn tolerance(&self) -> u64 {
        self.quota.refill_time().as_nanos()
    }

    /// Returns the state to store; none when the quota is full.
    #[inline]
    pub fn state(&self) -> Option<GcraState> {
        (self.ahead > 0).then(|| GcraState { tat: self.tat() })
    }

    /// Returns the theoretical arrival time, which is now if the quota is full.
    #[inline]
    pub(crate) fn tat(&self) -> Timestamp {
        self.now + Nanos::from_nanos(self.ahead)
    }

    /// Returns the time left until the end of representable time, which no TAT may pass.
    fn horizon(&self) -> u64 {
        Timestamp::MAX.since(self.now).as_nanos()
    }
}

impl View for GcraView<'_> {
    #[inline]
    fn wait_for(&self, cost: Cost) -> Wait {
        if cost.get() > self.quota.burst() {
            return Wait::Never;
        }
        // The product is at most a refill. The sum may be more than there is time: then it is never.
        let needed = self.ahead.saturating_add(cost.get() * self.quota.emission_interval().as_nanos());
        if needed <= self.tolerance().min(self.horizon()) || cost == Cost::ZERO {
            Wait::Ready
        } else if needed > self.horizon() {
            // A TAT beyond the year 2262 could not be stored; saturating it would turn the limit off.
            Wait::Never
        } else {
            Wait::After(Nanos::from_nanos(needed - self.tolerance()))
        }
    }

    #[inline]
    fn charge(&mut self, cost: Cost) {
        self.ahead =
            self.ahead.saturating_add(cost.get().saturating_mul(self.quota.emission_interval().as_nanos()));
    }

    fn debit(&mut self, cost: Cost) -> u64 {
        let interval = self.quota.emission_interval().as_nanos();
        // What several quotas share may lie further ahead already than this one's debt goes.
        let most = self.tolerance().saturating_mul(2).min(self.horizon()).max(self.ahead);
        let wanted = u128::from(self.ahead) + u128::from(cost.get()) * u128::from(interval);
        self.ahead = u64::try_from(wanted).unwrap_or(u64::MAX).min(most);
        u64::try_from((wanted - u128::from(self.ahead)) / u128::from(interval)).unwrap_or(u64::MAX)
    }

    fn refund(&mut self, cost: Cost, charged_at: Timestamp) {
        let charged = cost.get().saturating_mul(self.quota.emission_interval().as_nanos());
        let left = charged.saturating_sub(self.now.since(charged_at).as_nanos());
        self.ahead = self.ahead.saturating_sub(left);
    }

    #[inline]
    fn limit(&self) -> u64 {
        self.quota.burst()
    }

    #[inline]
    fn remaining(&self) -> u64 {
        self.quota.intervals_in(self.tolerance().min(self.horizon()).saturating_sub(self.ahead))
    }

    fn wait_until_paid(&self) -> Wait {
        match self.ahead.saturating_sub(self.tolerance()) {
            0 => Wait::Ready,
            owed => Wait::After(Nanos::from_nanos(owed)),
        }
    }

    #[inline]
    fn reset_after(&self) -> Nanos {
        Nanos::from_nanos(self.ahead)
    }

    #[inline]
    fn was_repaired(&self) -> bool {
        self.repaired
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::view::describe;
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

        /// The short cut says what the view says, or nothing.
        #[test]
        fn what_is_decided_by_the_short_cut_is_decided_alike(
            count in 1_u64..1_000,
            burst in 1_u64..1_000,
            ahead in -2_000_000_000_000_i64..2_000_000_000_000,
            cost in 1_u64..1_100,
            to_the_end in prop_oneof![Just(i64::MAX), 0_i64..2_000_000_000_000],
        ) {
            let quota = Quota::per_second(count).burst(burst).build().unwrap();
            let now = Timestamp::from_nanos(i64::MAX - to_the_end);
            let tat = Timestamp::from_nanos(now.as_nanos().saturating_add(ahead));
            let cost = Cost::new(cost);
            let (view, wait) = decide(&quota, Some(tat), cost, now, Tenancy::Shared);
            let room = Timestamp::MAX.since(now) >= quota.refill_time();
            match pass(&quota, tat, cost, now) {
                Passage::Ready { ahead } => {
                    prop_assert_eq!(wait, Wait::Ready);
                    prop_assert_eq!(now + Nanos::from_nanos(ahead), view.tat());
                    prop_assert_eq!(passed(&quota, ahead, now), describe(&view, wait).charged(now));
                }
                Passage::Short { ahead, needed } => {
                    prop_assert!(wait != Wait::Ready);
                    prop_assert_eq!(short(&quota, ahead, needed), describe(&view, wait));
                }
                Passage::Unusual => prop_assert!(
                    cost.get() > burst || tat.since(now) > quota.refill_time() || wait == Wait::Never || !room
                ),
            }
        }
    }
}
