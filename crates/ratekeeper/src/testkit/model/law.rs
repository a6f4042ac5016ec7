//! What the law says of an algorithm, and the exact numbers that it is made of.

use num_bigint::BigInt;
use num_rational::BigRational;

use crate::Quota;
use crate::algorithm::Tenancy;

/// What the law says of one algorithm, and nothing that merely follows from it.
///
/// Time is unbounded here. That instants after [`Timestamp::MAX`](crate::Timestamp::MAX) do not exist is said once, by [`Model`](super::Model).
pub(super) trait Law: Sized {
    /// Returns a key without a state.
    fn fresh(quota: &Quota, now: i128) -> Self;

    /// Returns what is remembered, read at `now` under this quota. Of the quota's own state, what exceeds the [debt](Law::debit)
    /// of a bucket is cut off, and so is what reaches further ahead than two refills and the [slack](SLACK): then also true.
    /// What is shared with other quotas stays as it is.
    fn read(&self, quota: &Quota, now: i128, tenancy: Tenancy) -> (Self, bool);

    /// Whether `cost`, which is no more than the capacity, would pass at an instant not before the one this was
    /// read at.
    fn passes(&self, quota: &Quota, cost: u64, at: i128) -> bool;

    /// Whether this equals a fresh key's at an instant not before the one it was read at.
    fn is_fresh(&self, quota: &Quota, at: i128) -> bool;

    /// Whether more counts than the capacity at an instant not before the one this was read at: whether there is a debt.
    fn owes(&self, quota: &Quota, at: i128) -> bool;

    /// Returns the first instant after the window, of an algorithm whose windows end.
    fn end(&self, _quota: &Quota) -> Option<i128> {
        None
    }

    /// Takes a cost that passes, at the instant this was read at.
    fn charge(&mut self, quota: &Quota, cost: u64, now: i128);

    /// Takes a cost whether or not it passes, at the instant this was read at, as far as the bound of a debt: returns how
    /// much of it is beyond that.
    fn debit(&mut self, quota: &Quota, cost: u64, now: i128) -> u64;

    /// Gives back what is left of a cost that was charged `charged_at`.
    fn refund(&mut self, quota: &Quota, cost: u64, charged_at: i128, now: i128);

    /// Returns the last instant that must be stored after a charge at `at`.
    fn reach(&self, _quota: &Quota, _cost: u64, at: i128) -> i128 {
        at
    }
}

/// How far a state of one's own may reach beyond two refills: a second.
pub(super) const SLACK: i128 = 1_000_000_000;

/// The last instant that there is, in nanoseconds.
pub(super) const END_OF_TIME: i128 = (1 << 63) - 1;

/// The most that a window or a log counts.
const MOST_COUNTED: u64 = (1 << 63) - 1;

/// Counts a debit on top of what is counted. Returns what does not fit.
pub(super) fn count_on(count: &mut u64, sum: u128, cost: u64) -> u64 {
    let room = u128::from(MOST_COUNTED).saturating_sub(sum);
    let counted = u64::try_from(room).unwrap_or(u64::MAX).min(cost);
    *count += counted;
    cost - counted
}

/// Returns a whole number as a fraction.
pub(super) fn whole(number: impl Into<BigInt>) -> BigRational {
    BigRational::from_integer(number.into())
}

/// Returns the whole part of what is not negative.
pub(super) fn whole_part(fraction: &BigRational) -> u64 {
    u64::try_from(fraction.to_integer()).unwrap_or(u64::MAX)
}

/// Returns a billionth: how little of a token may be missing.
pub(super) fn epsilon() -> BigRational {
    BigRational::new(1.into(), 1_000_000_000.into())
}

/// Returns how much a bucket gains or loses in so many nanoseconds.
pub(super) fn flow(quota: &Quota, nanos: i128) -> BigRational {
    let (count, period) = (BigInt::from(quota.count()), BigInt::from(quota.period().as_nanos()));
    BigRational::new(count * BigInt::from(nanos), period)
}

/// Returns the time in which an emptied bucket becomes whole: the burst at one emission interval each, rounded up.
pub(super) fn refill(quota: &Quota) -> i128 {
    i128::from(quota.burst()) * emission(quota)
}

/// Returns the emission interval: `e` = ceil(period / count).
pub(super) fn emission(quota: &Quota) -> i128 {
    let (period, count) = (i128::from(quota.period().as_nanos()), i128::from(quota.count()));
    (period + count - 1) / count
}
