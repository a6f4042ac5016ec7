//! How far doubles may stray from the exact amount.
//!
//! The tolerance, in words. With `u` = 2^-53, the rate is off by at most 4u of itself (the conversion of count and
//! period, a product, a quotient), what has flowed by 3u more (a conversion, a product, a quotient), and adding it to
//! an amount no greater than the capacity `C` by another u of C. Taking a cost from tokens is exact; adding one to
//! a level, or giving one back, costs a last u. So after `n` writes the engine's amount is within `9 · n · u · C` of
//! the exact one. It may answer differently only where the exact amount lies that close to a threshold (a whole
//! number less ε), and its times may be off by the time in which that much flows, and the nanosecond of rounding up.

use num_bigint::BigInt;
use num_rational::BigRational;
use ratekeeper::Quota;
use ratekeeper::testkit::model::Model;

use super::draw::Walk;

fn whole(number: u64) -> BigRational {
    BigRational::from_integer(number.into())
}

/// By how much the engine's amount may be off after so many writes.
pub(crate) fn tolerance(quota: &Quota, writes: u64) -> BigRational {
    let unit = BigRational::new(BigInt::from(1), BigInt::from(1_u64 << 53));
    whole(9 * (writes + 1) * quota.burst()) * unit
}

/// Whether an amount is within the tolerance of a threshold: a whole number less ε. What is this close may be
/// taken for either side.
pub(crate) fn undecided(amount: &BigRational, within: &BigRational) -> bool {
    let epsilon = BigRational::new(1.into(), 1_000_000_000.into());
    let sum = amount + epsilon;
    let off = &sum - sum.round();
    off <= *within && -off <= *within
}

/// True where a bucket's amount is so close to a threshold that adding or giving back a whole number, which rounds
/// the last bit of a double, may carry it to the other side.
pub(crate) fn on_the_edge(walk: &Walk) -> bool {
    let quota = walk.key.quota;
    let amount = Model::resume(quota, walk.key.state.as_ref()).amount(walk.now);
    amount.is_some_and(|amount| undecided(&amount, &tolerance(&quota, 16)))
}
