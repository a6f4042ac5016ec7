//! The builder of quotas: every quota is checked here, whether it comes from code, text or a wire.

use std::time::Duration;

use super::algorithm::{Algorithm, Anchor};
use super::error::QuotaError;
use super::quota::Quota;
use crate::Nanos;

impl Quota {
    /// Returns a builder of a quota of `count` per second.
    pub fn per_second(count: impl Into<i128>) -> QuotaBuilder {
        QuotaBuilder::new(count.into(), Nanos::from_secs(1))
    }

    /// Returns a builder of a quota of `count` per minute.
    pub fn per_minute(count: impl Into<i128>) -> QuotaBuilder {
        QuotaBuilder::new(count.into(), Nanos::from_secs(60))
    }

    /// Returns a builder of a quota of `count` per hour.
    pub fn per_hour(count: impl Into<i128>) -> QuotaBuilder {
        QuotaBuilder::new(count.into(), Nanos::from_secs(3_600))
    }

    /// Returns a builder of a quota of `count` per 24 hours.
    pub fn per_day(count: impl Into<i128>) -> QuotaBuilder {
        QuotaBuilder::new(count.into(), Nanos::from_secs(86_400))
    }

    /// Returns a builder of a quota of `count` per `period`.
    pub fn per(count: impl Into<i128>, period: Duration) -> QuotaBuilder {
        QuotaBuilder::new(count.into(), Nanos::from(period))
    }

    /// Returns a builder of a quota of `count` at the same time, however long each takes.
    pub fn concurrent(count: impl Into<i128>) -> QuotaBuilder {
        QuotaBuilder::new(count.into(), Nanos::ZERO).algorithm(Algorithm::Concurrency)
    }

    /// Returns the quota that three integers on a wire mean: GCRA with a capacity of `max_burst`, refilled by
    /// `count_per_period` every `period_secs`.
    ///
    /// ```
    /// use ratekeeper::Quota;
    /// assert_eq!(Quota::throttle(5, 10, 60)?, "10/m burst 5".parse()?);
    /// assert_eq!(
    ///     Quota::throttle(-1, 10, 60).unwrap_err().to_string(),
    ///     "max_burst: -1; must be at least 1",
    /// );
    /// # Ok::<(), ratekeeper::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If a number is below 1, or the quota cannot be honoured; the error has the wire's names for the fields.
    #[inline]
    pub fn throttle(max_burst: i64, count_per_period: i64, period_secs: i64) -> Result<Quota, QuotaError> {
        throttle(max_burst, count_per_period, period_secs)
    }
}

/// A builder of a [`Quota`]; [`build`](QuotaBuilder::build) checks it.
///
/// Numbers are `i128`, so that whatever integer a caller has fits, and what is negative or too large is refused by name
/// rather than wrapped by a cast.
///
/// ```
/// use ratekeeper::{Algorithm, Quota};
///
/// let quota = Quota::per_minute(100).burst(20).algorithm(Algorithm::TokenBucket).build()?;
/// assert_eq!((quota.count(), quota.burst(), quota.refill_time().ceil_secs()), (100, 20, 12));
/// assert_eq!(Quota::per_minute(-1).build().unwrap_err().to_string(), "count: -1; must be at least 1");
/// # Ok::<(), ratekeeper::QuotaError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder is not a quota yet: call `build`"]
pub struct QuotaBuilder {
    count: i128,
    period: Nanos,
    burst: Option<i128>,
    log_bound: u32,
    algorithm: Algorithm,
}

impl QuotaBuilder {
    /// Returns a builder of `count` per `period`, not checked yet.
    pub(super) fn new(count: i128, period: Nanos) -> Self {
        QuotaBuilder {
            count,
            period,
            burst: None,
            log_bound: Quota::DEFAULT_LOG_BOUND,
            algorithm: Algorithm::Gcra,
        }
    }

    /// Sets the capacity. Defaults to the count.
    pub fn burst(mut self, burst: impl Into<i128>) -> Self {
        self.burst = Some(burst.into());
        self
    }

    /// Sets the algorithm that decides. Defaults to [`Algorithm::Gcra`].
    pub fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self
    }

    /// Sets how many entries a sliding window log may need for one key. Defaults to
    /// [65,536](Quota::DEFAULT_LOG_BOUND); other algorithms ignore it.
    pub fn log_bound(mut self, entries: u32) -> Self {
        self.log_bound = entries;
        self
    }

    /// Builds the quota.
    ///
    /// # Errors
    ///
    /// If a number is out of its range, or the parts contradict each other: a burst of a window, the period of a
    /// concurrency limit.
    pub fn build(self) -> Result<Quota, QuotaError> {
        let count = whole("count", self.count)?;
        if self.algorithm == Algorithm::Concurrency {
            return self.build_concurrent(count);
        }
        let period = self.build_period()?;
        // What counts in windows never divides time by the count: a window may hold any number.
        if count > period.as_nanos() && !self.algorithm.counts_in_windows() {
            let remedy = "at most 1000000000 per second can be told apart, but by `fixed` and `sliding`";
            return Err(QuotaError::range("count", format!("{count} per {period}"), remedy));
        }
        let burst = match self.burst {
            Some(burst) => whole("burst", burst)?,
            None => count,
        };
        self.check_algorithm(count, burst)?;
        let emission = Nanos::from_nanos(period.as_nanos().div_ceil(count));
        let refill = self.build_refill("burst", burst, emission)?;
        // A bound on what the quota does not keep would tell equal quotas apart.
        let log_bound = match self.algorithm {
            Algorithm::SlidingLog => self.log_bound,
            _ => Quota::DEFAULT_LOG_BOUND,
        };
        Ok(Quota {
            count,
            period,
            burst,
            emission,
            reciprocal: reciprocal(emission),
            refill,
            log_bound,
            algorithm: self.algorithm,
        })
    }

    fn build_concurrent(self, count: u64) -> Result<Quota, QuotaError> {
        if let Some(burst) = self.burst {
            let remedy = "a concurrency limit has no burst: it is its own capacity";
            return Err(QuotaError::conflict("burst", burst, remedy));
        }
        if !self.period.is_zero() {
            let remedy = "a concurrency limit has no period: write `32 concurrent`";
            return Err(QuotaError::conflict("period", self.period, remedy));
        }
        Ok(Quota {
            count,
            period: Nanos::ZERO,
            burst: count,
            emission: Nanos::ZERO,
            reciprocal: 0,
            refill: Nanos::ZERO,
            log_bound: Quota::DEFAULT_LOG_BOUND,
            algorithm: self.algorithm,
        })
    }

    fn build_period(&self) -> Result<Nanos, QuotaError> {
        if let Algorithm::FixedWindow(Anchor::Calendar(calendar)) = self.algorithm {
            let unit = calendar.unit().nominal();
            if self.period != unit {
                let remedy = format!("a calendar window is one calendar unit long, here {unit}");
                return Err(QuotaError::conflict("period", self.period, remedy));
            }
        }
        if self.period.is_zero() {
            return Err(QuotaError::range("period", "0", "must be at least 1 ns"));
        }
        if self.period > Quota::MAX_SPAN {
            return Err(QuotaError::range("period", self.period, "must be at most 200 years"));
        }
        Ok(self.period)
    }

    fn check_algorithm(&self, count: u64, burst: u64) -> Result<(), QuotaError> {
        match self.algorithm {
            Algorithm::Gcra | Algorithm::Concurrency => Ok(()),
            Algorithm::TokenBucket | Algorithm::LeakyBucket if burst > Quota::MAX_FLOAT_BURST => {
                let remedy = format!("a {} holds at most 2^53", self.algorithm.word());
                Err(QuotaError::range("burst", burst, remedy))
            }
            Algorithm::TokenBucket | Algorithm::LeakyBucket => Ok(()),
            Algorithm::FixedWindow(_) | Algorithm::SlidingWindow | Algorithm::SlidingLog
                if burst != count =>
            {
                let remedy = format!("a window's capacity is its count, {count}: leave `burst` out");
                Err(QuotaError::conflict("burst", burst, remedy))
            }
            Algorithm::SlidingLog if count > self.log_bound.into() => {
                let remedy = format!(
                    "a log remembers every request, at most {}: raise the bound (`log bound {count}`) or use `sliding`",
                    self.log_bound
                );
                Err(QuotaError::range("count", count, remedy))
            }
            Algorithm::FixedWindow(_) | Algorithm::SlidingWindow | Algorithm::SlidingLog => Ok(()),
        }
    }

    fn build_refill(&self, field: &'static str, burst: u64, emission: Nanos) -> Result<Nanos, QuotaError> {
        match self.algorithm {
            Algorithm::FixedWindow(_) | Algorithm::SlidingWindow | Algorithm::SlidingLog => Ok(self.period),
            _ => refill(field, burst, emission),
        }
    }
}

/// Returns the time in which an empty quota becomes full: a product that must fit.
fn refill(field: &'static str, burst: u64, emission: Nanos) -> Result<Nanos, QuotaError> {
    match burst.checked_mul(emission.as_nanos()) {
        Some(nanos) if nanos <= Quota::MAX_SPAN.as_nanos() => Ok(Nanos::from_nanos(nanos)),
        _ => {
            let value = format!("{burst} at one every {emission}");
            Err(QuotaError::range(field, value, "must refill within 200 years"))
        }
    }
}

/// See [`Quota`]'s field of that name. An emission interval is at least 1 ns.
const fn reciprocal(emission: Nanos) -> u64 {
    u64::MAX / emission.as_nanos()
}

fn whole(field: &'static str, value: i128) -> Result<u64, QuotaError> {
    if value < 1 {
        return Err(QuotaError::range(field, value, "must be at least 1"));
    }
    match u64::try_from(value) {
        Ok(whole) if whole <= Quota::MAX_COUNT => Ok(whole),
        _ => Err(QuotaError::range(field, value, format!("must be at most {}", Quota::MAX_COUNT))),
    }
}

/// [`Quota::throttle`]: the same checks as `build`, under the names that the wire uses and without its detours,
/// because a server does this once per request.
#[inline]
fn throttle(max_burst: i64, count_per_period: i64, period_secs: i64) -> Result<Quota, QuotaError> {
    let burst = wire("max_burst", max_burst)?;
    let count = wire("count_per_period", count_per_period)?;
    let secs = wire("period", period_secs)?;
    let period = Nanos::from_secs(secs);
    if period > Quota::MAX_SPAN {
        return Err(QuotaError::range("period", secs, "must be at most 6307200000 seconds, 200 years"));
    }
    if count > period.as_nanos() {
        let remedy = "at most 1000000000 per second can be told apart";
        return Err(QuotaError::range("count_per_period", format!("{count} per {secs} s"), remedy));
    }
    let emission = Nanos::from_nanos(period.as_nanos().div_ceil(count));
    let refill = refill("max_burst", burst, emission)?;
    Ok(Quota {
        count,
        period,
        burst,
        emission,
        reciprocal: reciprocal(emission),
        refill,
        log_bound: Quota::DEFAULT_LOG_BOUND,
        algorithm: Algorithm::Gcra,
    })
}

#[inline]
fn wire(field: &'static str, value: i64) -> Result<u64, QuotaError> {
    match u64::try_from(value) {
        Ok(whole) if whole >= 1 => Ok(whole),
        _ => Err(QuotaError::range(field, value, "must be at least 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(builder: QuotaBuilder) -> String {
        builder.build().unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_be_honoured_is_refused_by_name() {
        assert_eq!(error(Quota::per_second(0)), "count: 0; must be at least 1");
        assert_eq!(error(Quota::per_second(-4)), "count: -4; must be at least 1");
        assert_eq!(error(Quota::per_second(1).burst(0)), "burst: 0; must be at least 1");
        assert_eq!(error(Quota::per(1, Duration::ZERO)), "period: 0; must be at least 1 ns");
        assert!(error(Quota::per(1, Duration::MAX)).contains("at most 200 years"));
        for algorithm in [Algorithm::Gcra, Algorithm::TokenBucket, Algorithm::LeakyBucket] {
            let quota = Quota::per_second(1_000_000_001).algorithm(algorithm);
            assert!(error(quota).contains("1000000000 per second"));
        }
        assert!(error(Quota::per_second(i128::MAX)).starts_with("count: 1701411834604692317316873"));
        assert!(
            error(Quota::per(1, Duration::from_secs(99_999_999)).burst(2_000_000_000)).contains("200 years")
        );
        assert!(error(Quota::concurrent(0)).starts_with("count: 0"));
        assert!(error(Quota::concurrent(4).burst(2)).contains("has no burst"));
        assert!(error(Quota::per_second(4).algorithm(Algorithm::Concurrency)).contains("has no period"));
    }

    #[test]
    fn windows_have_no_burst_of_their_own() {
        for algorithm in [Algorithm::FIXED, Algorithm::SlidingWindow, Algorithm::SlidingLog] {
            assert!(Quota::per_second(4).burst(4).algorithm(algorithm).build().is_ok());
            assert!(error(Quota::per_second(4).burst(5).algorithm(algorithm)).contains("leave `burst` out"));
        }
    }

    #[test]
    fn the_bounds_themselves_are_accepted() {
        assert!(Quota::per_second(1_000_000_000).build().is_ok());
        let longest = Quota::MAX_SPAN.as_duration();
        assert_eq!(Quota::per(1, longest).build().unwrap().refill_time(), Quota::MAX_SPAN);
        let most = Quota::MAX_SPAN.as_nanos();
        let largest = Quota::per_second(1_000_000_000).burst(most).build().unwrap();
        assert_eq!(largest.refill_time(), Quota::MAX_SPAN);
        assert!(error(Quota::per_second(1_000_000_000).burst(most + 1)).contains("within 200 years"));
        let bucket =
            |burst: u64| Quota::per_second(10_000_000).burst(burst).algorithm(Algorithm::TokenBucket);
        assert!(bucket(Quota::MAX_FLOAT_BURST).build().is_ok());
        assert!(error(bucket(Quota::MAX_FLOAT_BURST + 1)).contains("at most 2^53"));
        let log = |count: u64| Quota::per_hour(count).algorithm(Algorithm::SlidingLog);
        assert!(log(65_536).build().is_ok());
        assert!(error(log(65_537)).contains("log bound 65537"));
        assert!(log(65_537).log_bound(65_537).build().is_ok());
    }

    /// More than one in a nanosecond: a window counts them all the same.
    #[test]
    fn a_window_may_hold_any_number() {
        for algorithm in [Algorithm::FIXED, Algorithm::FixedWindow(Anchor::Grid), Algorithm::SlidingWindow] {
            for count in [u64::from(u32::MAX), Quota::MAX_COUNT] {
                let quota = Quota::per_second(count).algorithm(algorithm).build().unwrap();
                assert_eq!((quota.burst(), quota.refill_time()), (count, Nanos::from_secs(1)));
                assert_eq!(quota.to_string().parse::<Quota>().unwrap(), quota);
            }
        }
        let log = Quota::per(9, Duration::from_nanos(2)).algorithm(Algorithm::SlidingLog);
        assert_eq!(log.build().unwrap().burst(), 9);
    }

    #[test]
    fn emission_intervals_round_up() {
        assert_eq!(
            Quota::per_minute(7).build().unwrap().emission_interval(),
            Nanos::from_nanos(8_571_428_572)
        );
        assert_eq!(Quota::per_second(600_000_000).build().unwrap().emission_interval(), Nanos::from_nanos(2));
    }

    #[test]
    fn dividing_by_the_interval_is_exact() {
        for count in [1, 2, 3, 7, 1_000, 999_999_937, 1_000_000_000] {
            let quota = Quota::per_second(count).build().unwrap();
            let interval = quota.emission_interval().as_nanos();
            let spans = (0..64).flat_map(|bit| [1 << bit, (1u64 << bit) - 1]).chain([u64::MAX]);
            for span in spans.flat_map(|span| {
                [
                    span,
                    span / interval * interval,
                    (span / interval).saturating_mul(interval).saturating_sub(1),
                ]
            }) {
                assert_eq!(quota.intervals_in(span), span / interval, "{span} / {interval}");
            }
        }
    }

    #[test]
    fn the_wire_form_and_the_builder_agree() {
        let built =
            |burst, count: i64, secs| Quota::per(count, Duration::from_secs(secs)).burst(burst).build();
        assert_eq!(Quota::throttle(5, 10, 60), built(5, 10, 60));
        assert_eq!(Quota::throttle(4_294_967_297, 1_000_000, 1), built(4_294_967_297_i64, 1_000_000, 1));
    }

    #[test]
    fn the_wire_form_names_its_own_fields() {
        let error = |b, c, p| Quota::throttle(b, c, p).unwrap_err().to_string();
        assert_eq!(error(0, 1, 1), "max_burst: 0; must be at least 1");
        assert_eq!(error(1, 0, 1), "count_per_period: 0; must be at least 1");
        assert_eq!(error(1, 1, i64::MIN), "period: -9223372036854775808; must be at least 1");
        assert!(error(1, 1, i64::MAX).contains("200 years"));
        assert!(error(2_000_000_000, 1, 99_999_999_999).starts_with("period: 99999999999"));
        assert!(error(2_000_000_000, 1, 9_999_999).starts_with("max_burst: 2000000000 at one every"));
        assert!(error(1, 1_000_000_001, 1).starts_with("count_per_period: 1000000001 per 1 s"));
    }
}
