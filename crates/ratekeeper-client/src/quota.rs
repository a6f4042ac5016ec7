//! The quota that a request brings, checked before anything is sent.

use std::time::Duration;

use crate::error::ClientError;

/// The most bytes that a key may have.
const MAX_KEY: usize = 1024;

/// The quota that a server holds a key to: a rate in the long run, and at most a burst at once.
///
/// ```
/// use std::time::Duration;
/// use ratekeeper_client::RemoteQuota;
///
/// let steady = RemoteQuota::per_second(10); // at most 10 at once
/// let bursty = RemoteQuota::per_minute(30).burst(15);
/// let rare = RemoteQuota::per(1, Duration::from_secs(90));
/// # let _ = (steady, bursty, rare);
/// ```
///
/// The numbers are checked when a request is made of them: [`Client::acquire`](crate::Client::acquire) says what is wrong
/// before it sends anything. A server may have narrower bounds of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "a quota does nothing by itself: pass it to `Client::acquire`"]
pub struct RemoteQuota {
    rate: u64,
    period: Duration,
    burst: u64,
}

impl RemoteQuota {
    /// Returns a quota of `rate` in every second.
    pub const fn per_second(rate: u64) -> Self {
        Self::per(rate, Duration::from_secs(1))
    }

    /// Returns a quota of `rate` in every minute.
    pub const fn per_minute(rate: u64) -> Self {
        Self::per(rate, Duration::from_secs(60))
    }

    /// Returns a quota of `rate` in every hour.
    pub const fn per_hour(rate: u64) -> Self {
        Self::per(rate, Duration::from_secs(3_600))
    }

    /// Returns a quota of `rate` in every 24 hours.
    pub const fn per_day(rate: u64) -> Self {
        Self::per(rate, Duration::from_secs(86_400))
    }

    /// Returns a quota of `rate` in every `period`, which must be whole seconds. All of them may be taken at once, unless
    /// [`burst`](RemoteQuota::burst) says otherwise.
    pub const fn per(rate: u64, period: Duration) -> Self {
        RemoteQuota { rate, period, burst: rate }
    }

    /// Sets how much may be taken at once.
    pub const fn burst(mut self, burst: u64) -> Self {
        self.burst = burst;
        self
    }
}

/// The parts of one request in the order in which the wire has them, all within its bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThrottleParts<'a> {
    pub(crate) key: &'a [u8],
    /// Burst, rate, period in seconds, cost.
    pub(crate) numbers: [i64; 4],
}

impl<'a> ThrottleParts<'a> {
    /// Checks a request. A cost of 0 only looks.
    pub(crate) fn new(key: &'a [u8], quota: RemoteQuota, cost: u64) -> Result<Self, ClientError> {
        let key = checked_key(key)?;
        let RemoteQuota { rate, period, burst } = quota;
        if period.subsec_nanos() != 0 {
            let (value, remedy) =
                (format!("{period:?}"), "pass whole seconds: the wire carries no fractions");
            return Err(ClientError::Invalid { field: "period", value, remedy });
        }
        let at_least_one = |field, number| match number {
            0 => Err(ClientError::Invalid { field, value: "0".to_owned(), remedy: "pass at least 1" }),
            _ => within_the_wire(field, number),
        };
        let numbers = [
            at_least_one("burst", burst)?,
            at_least_one("rate", rate)?,
            at_least_one("period", period.as_secs())?,
            within_the_wire("cost", cost)?,
        ];
        Ok(ThrottleParts { key, numbers })
    }
}

/// Returns the key, if it can be one.
pub(crate) fn checked_key(key: &[u8]) -> Result<&[u8], ClientError> {
    if key.is_empty() || key.len() > MAX_KEY {
        let value = format!("{} bytes", key.len());
        return Err(ClientError::Invalid { field: "key", value, remedy: "pass 1 to 1024 bytes" });
    }
    Ok(key)
}

/// Returns a name that is short enough for the wire: one request of too many bytes would end the connection for all others.
pub(crate) fn checked_name<'a>(
    field: &'static str,
    name: &'a str,
    most: usize,
    remedy: &'static str,
) -> Result<&'a str, ClientError> {
    if name.is_empty() || name.len() > most {
        return Err(ClientError::Invalid { field, value: format!("{} bytes", name.len()), remedy });
    }
    Ok(name)
}

/// Returns the number as the wire carries it.
pub(crate) fn within_the_wire(field: &'static str, number: u64) -> Result<i64, ClientError> {
    let remedy = "pass at most 9223372036854775807: the wire carries signed numbers of 64 bits";
    i64::try_from(number).map_err(|_| ClientError::Invalid { field, value: number.to_string(), remedy })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_by_field_value_and_remedy() {
        let second = RemoteQuota::per_second(1);
        let long = "k".repeat(1025);
        for (key, quota, cost, says) in [
            ("", second, 1, "key: 0 bytes; pass 1 to 1024 bytes"),
            (&*long, second, 1, "key: 1025 bytes; pass 1 to 1024 bytes"),
            ("k", RemoteQuota::per_second(0).burst(1), 1, "rate: 0; pass at least 1"),
            ("k", second.burst(0), 1, "burst: 0; pass at least 1"),
            ("k", RemoteQuota::per(1, Duration::ZERO), 1, "period: 0; pass at least 1"),
            ("k", RemoteQuota::per(1, Duration::from_millis(1500)), 1, "period: 1.5s; pass whole seconds"),
            ("k", second.burst(u64::MAX), 1, "burst: 18446744073709551615; pass at most"),
            ("k", second, u64::MAX, "cost: 18446744073709551615; pass at most"),
        ] {
            let said = ThrottleParts::new(key.as_bytes(), quota, cost).expect_err(says).to_string();
            assert!(said.starts_with(says), "{said}");
        }
    }

    #[test]
    fn all_of_a_rate_may_be_taken_at_once_unless_a_burst_is_set() {
        let numbers = |quota, cost| ThrottleParts::new(b"k", quota, cost).unwrap().numbers;
        assert_eq!(numbers(RemoteQuota::per_hour(30), 0), [30, 30, 3_600, 0]);
        assert_eq!(numbers(RemoteQuota::per_day(30).burst(5), 2), [5, 30, 86_400, 2]);
    }
}
