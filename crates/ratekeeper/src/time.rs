//! Instants and spans: integer nanoseconds, so that every store and every language can agree on them.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// An instant: nanoseconds since the Unix epoch, from the year 1677 to 2262.
///
/// Every algorithm takes the instant as a parameter; none reads a clock.
///
/// ```
/// use ratekeeper::{Nanos, Timestamp};
/// let noon = Timestamp::from_nanos(1_761_884_055_342_794_596);
/// assert_eq!((noon + Nanos::from_secs(6)).since(noon), Nanos::from_secs(6));
/// assert_eq!(noon.since(noon + Nanos::from_secs(6)), Nanos::ZERO);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The Unix epoch: midnight UTC on 1 January 1970.
    pub const EPOCH: Timestamp = Timestamp(0);
    /// The earliest instant, in 1677.
    pub const MIN: Timestamp = Timestamp(i64::MIN);
    /// The last instant, in 2262. No state reaches beyond it.
    pub const MAX: Timestamp = Timestamp(i64::MAX);

    /// Returns the instant `nanos` nanoseconds after the epoch, or before it if negative.
    #[inline]
    pub const fn from_nanos(nanos: i64) -> Self {
        Timestamp(nanos)
    }

    /// Returns the instant `secs` seconds after the epoch, saturating at [`Timestamp::MAX`] and [`Timestamp::MIN`].
    #[inline]
    pub const fn from_secs(secs: i64) -> Self {
        Timestamp(secs.saturating_mul(NANOS_PER_SECOND.cast_signed()))
    }

    /// Returns the nanoseconds since the epoch.
    #[inline]
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Returns the time from `earlier` to this instant; zero if `earlier` is the later one.
    #[inline]
    pub const fn since(self, earlier: Timestamp) -> Nanos {
        if self.0 <= earlier.0 {
            return Nanos::ZERO;
        }
        // The true difference lies in 0..=u64::MAX, and two's complement subtraction yields just that.
        Nanos(self.0.wrapping_sub(earlier.0).cast_unsigned())
    }

    /// Returns this instant plus a span, saturating at [`Timestamp::MAX`].
    #[inline]
    pub const fn saturating_add(self, span: Nanos) -> Self {
        Timestamp(self.0.saturating_add_unsigned(span.0))
    }

    /// Returns this instant minus a span, saturating at [`Timestamp::MIN`].
    #[inline]
    pub const fn saturating_sub(self, span: Nanos) -> Self {
        Timestamp(self.0.saturating_sub_unsigned(span.0))
    }
}

impl std::ops::Add<Nanos> for Timestamp {
    type Output = Timestamp;

    #[inline]
    fn add(self, span: Nanos) -> Timestamp {
        self.saturating_add(span)
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Timestamp::EPOCH + Nanos::from(after),
            Err(before) => Timestamp::EPOCH.saturating_sub(Nanos::from(before.duration())),
        }
    }
}

/// A span of time in integer nanoseconds, up to 584 years.
///
/// Small enough for a register, and rounding is spelled out at the call: waits round **up**.
///
/// ```
/// use ratekeeper::Nanos;
/// let wait = Nanos::from_nanos(1_000_000_001);
/// assert_eq!((wait.ceil_secs(), wait.ceil_millis()), (2, 1001));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(u64);

impl Nanos {
    /// A span of zero nanoseconds.
    pub const ZERO: Nanos = Nanos(0);
    /// The longest span, 584 years.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// Returns a span of `nanos` nanoseconds.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Nanos(nanos)
    }

    /// Returns a span of `millis` milliseconds, saturating at [`Nanos::MAX`].
    #[inline]
    pub const fn from_millis(millis: u64) -> Self {
        Nanos(millis.saturating_mul(1_000_000))
    }

    /// Returns a span of `secs` seconds, saturating at [`Nanos::MAX`].
    #[inline]
    pub const fn from_secs(secs: u64) -> Self {
        Nanos(secs.saturating_mul(NANOS_PER_SECOND))
    }

    /// Returns the span in nanoseconds.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the span in seconds, rounded up.
    #[inline]
    pub const fn ceil_secs(self) -> u64 {
        self.0.div_ceil(NANOS_PER_SECOND)
    }

    /// Returns the span in milliseconds, rounded up.
    #[inline]
    pub const fn ceil_millis(self) -> u64 {
        self.0.div_ceil(1_000_000)
    }

    /// Returns the span in microseconds, rounded up.
    #[inline]
    pub const fn ceil_micros(self) -> u64 {
        self.0.div_ceil(1_000)
    }

    /// Returns true if the span is zero.
    #[inline]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Returns the sum, saturating at [`Nanos::MAX`].
    #[inline]
    pub const fn saturating_add(self, other: Nanos) -> Self {
        Nanos(self.0.saturating_add(other.0))
    }

    /// Returns the difference, or zero if `other` is longer.
    #[inline]
    pub const fn saturating_sub(self, other: Nanos) -> Self {
        Nanos(self.0.saturating_sub(other.0))
    }

    /// Returns the span as the standard library's type.
    #[inline]
    pub const fn as_duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

impl From<Duration> for Nanos {
    /// Converts the span, saturating at 584 years.
    fn from(duration: Duration) -> Self {
        Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(span: Nanos) -> Duration {
        span.as_duration()
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.as_duration(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_of_the_extreme_instants_does_not_wrap() {
        assert_eq!(Timestamp::MAX.since(Timestamp::MIN), Nanos::MAX);
        assert_eq!(Timestamp::MIN.since(Timestamp::MAX), Nanos::ZERO);
    }

    #[test]
    fn sums_saturate() {
        assert_eq!(Timestamp::MAX + Nanos::from_nanos(1), Timestamp::MAX);
        assert_eq!(Timestamp::MIN + Nanos::MAX, Timestamp::MAX);
        assert_eq!(Timestamp::MIN.saturating_sub(Nanos::from_nanos(1)), Timestamp::MIN);
        assert_eq!(Nanos::from_secs(u64::MAX), Nanos::MAX);
        assert_eq!(Nanos::from(Duration::MAX), Nanos::MAX);
    }

    #[test]
    fn whole_units_round_up() {
        assert_eq!(Nanos::ZERO.ceil_secs(), 0);
        assert_eq!(Nanos::from_nanos(1).ceil_secs(), 1);
        assert_eq!(Nanos::from_secs(6).ceil_secs(), 6);
        assert_eq!(Nanos::MAX.ceil_millis(), u64::MAX.div_ceil(1_000_000));
    }

    #[test]
    fn system_times_on_both_sides_of_the_epoch() {
        assert_eq!(Timestamp::from(UNIX_EPOCH + Duration::from_nanos(5)), Timestamp::from_nanos(5));
        assert_eq!(Timestamp::from(UNIX_EPOCH - Duration::from_nanos(5)), Timestamp::from_nanos(-5));
    }
}
