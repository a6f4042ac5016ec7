//! The quota itself: its numbers, and what is derived from them once.

use super::algorithm::Algorithm;
use crate::Nanos;

/// `count` per `period`, with a `burst` (capacity) of its own, decided by one algorithm.
///
/// Every quota that exists can be honoured: what cannot was refused when it was built, with an error that names the field,
/// its value and the bound. A quota is a small value to be copied; what decisions need is computed once, when it is built.
///
/// ```
/// use std::time::Duration;
/// use ratekeeper::{Algorithm, Quota};
///
/// let built = Quota::per_minute(100).burst(20).algorithm(Algorithm::TokenBucket).build()?;
/// let parsed: Quota = "100/m burst 20 bucket".parse()?;
/// assert_eq!(built, parsed);
/// assert_eq!(parsed.to_string(), "100/m burst 20 bucket");
///
/// let slow = Quota::per(5, Duration::from_secs(30)).build()?;
/// assert_eq!(slow, "5 per 30s".parse()?);
///
/// let error = "0/s".parse::<Quota>().unwrap_err();
/// assert_eq!(error.to_string(), "count: 0; must be at least 1");
/// # Ok::<(), ratekeeper::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    pub(super) count: u64,
    pub(super) period: Nanos,
    pub(super) burst: u64,
    pub(super) emission: Nanos,
    /// `2^64 / emission`, rounded down: dividing by it is a multiplication, and every decision divides.
    pub(super) reciprocal: u64,
    pub(super) refill: Nanos,
    pub(super) log_bound: u32,
    pub(super) algorithm: Algorithm,
}

// Bounds that every quota is checked against when it is built, so that no decision has to: sums and products of what is
// within them fit 64 bits.
impl Quota {
    /// The longest period and the longest refill: 200 years of 365 days. Instants end in the year 2262, and a quota that
    /// reaches beyond would deny a fresh key for ever.
    pub const MAX_SPAN: Nanos = Nanos::from_secs(200 * 365 * 86_400);
    /// The largest count and burst.
    pub const MAX_COUNT: u64 = i64::MAX.cast_unsigned();
    /// The largest burst of an algorithm that counts in floating point: beyond 2^53 whole tokens get lost.
    pub const MAX_FLOAT_BURST: u64 = 1 << 53;
    /// How many entries a sliding window log may need for one key (16 bytes each) unless a bound is given.
    pub const DEFAULT_LOG_BOUND: u32 = 65_536;

    /// Returns how many requests of cost 1 pass per period.
    #[inline]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the period; zero for [`Algorithm::Concurrency`], nominal (30 and 365 days) for calendar months and years.
    #[inline]
    pub const fn period(&self) -> Nanos {
        self.period
    }

    /// Returns the capacity: how many may pass at once after a long idle time.
    #[inline]
    pub const fn burst(&self) -> u64 {
        self.burst
    }

    /// Returns the algorithm that decides.
    #[inline]
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns the time between two requests at the sustained rate, rounded up to a nanosecond.
    #[inline]
    pub const fn emission_interval(&self) -> Nanos {
        self.emission
    }

    /// Returns how many whole emission intervals fit into `span`: the quotient, by a multiplication.
    #[inline]
    pub(crate) const fn intervals_in(&self, span: u64) -> u64 {
        let guess = ((span as u128 * self.reciprocal as u128) >> 64) as u64;
        // The reciprocal is short by less than one part in 2^64, so the guess is short by one at most.
        if span - guess * self.emission.as_nanos() >= self.emission.as_nanos() { guess + 1 } else { guess }
    }

    /// Returns how long an empty quota takes to be full again.
    #[inline]
    pub const fn refill_time(&self) -> Nanos {
        self.refill
    }

    /// Returns how many entries a sliding window log may need for one key.
    #[inline]
    pub const fn log_bound(&self) -> u32 {
        self.log_bound
    }

    /// Returns the tokens per second, for the algorithms that count in floating point.
    #[expect(clippy::cast_precision_loss, reason = "the nearest double is what every language computes with")]
    pub fn rate(&self) -> f64 {
        self.count as f64 * 1e9 / self.period.as_nanos() as f64
    }
}
