//! Defaults for requests that leave numbers out, and bounds on the quotas that come with requests.
//!
//! Every quota of a request is made by [`RequestLimits::throttle`] or [`RequestLimits::parse`], so that no wire is laxer than another.
//! Such a quota costs the server memory for as long as it takes to refill, and clients choose it: without bounds, a
//! million keys with a long one would lock every new key out for years.

use std::fmt;

use ratekeeper::{Algorithm, Nanos, Quota, QuotaError};

use super::error::RequestError;
use super::field::RequestField;

/// `[limits]`: defaults for numbers that a request leaves out, and bounds on its quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestLimits {
    /// The `max_burst` of requests that have none; `None`: such a request is refused.
    pub burst: Option<i64>,
    /// The `count_per_period` of requests that have none.
    pub rate: Option<i64>,
    /// The default for `period`, in seconds.
    pub period: Option<i64>,
    /// Bounds on the quotas that come with requests.
    pub bounds: QuotaBounds,
}

/// Bounds on the quotas that come with requests. Plans are not bound by them: the operator wrote those.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaBounds {
    /// The longest period, and the longest time that an emptied quota may take to refill.
    pub max_period: Nanos,
    /// Whether a quota may be a `log`, which remembers every request.
    pub allow_log: bool,
    /// The most requests that such a log may remember.
    pub max_log_entries: u32,
    /// Whether quotas from requests are refused altogether: then a request must name a plan.
    pub plans_only: bool,
}

impl QuotaBounds {
    /// 31 days: the longest month.
    pub const DEFAULT_MAX_PERIOD: Nanos = Nanos::from_secs(31 * 86_400);
    /// 1,000 entries: 16 KB per key.
    pub const DEFAULT_MAX_LOG_ENTRIES: u32 = 1_000;
    /// No bounds: for requests that leave no state behind.
    pub const NONE: Self =
        QuotaBounds { max_period: Nanos::MAX, allow_log: true, max_log_entries: u32::MAX, plans_only: false };
}

impl Default for QuotaBounds {
    fn default() -> Self {
        QuotaBounds {
            max_period: Self::DEFAULT_MAX_PERIOD,
            allow_log: false,
            max_log_entries: Self::DEFAULT_MAX_LOG_ENTRIES,
            plans_only: false,
        }
    }
}

impl RequestLimits {
    /// No defaults and no bounds.
    pub const NONE: Self = RequestLimits { burst: None, rate: None, period: None, bounds: QuotaBounds::NONE };

    /// Checks the defaults now, and not when the first request leaves its numbers out. Where there is no default, any
    /// number may come, and 1 is assumed. With `plans_only` the defaults are not used, and must be right all the same.
    ///
    /// # Errors
    ///
    /// A default is no number of a quota, or makes one that the bounds do not admit.
    pub fn check_defaults(&self) -> Result<(), WrongDefault> {
        let used = RequestLimits { bounds: QuotaBounds { plans_only: false, ..self.bounds }, ..*self };
        let [burst, rate, period] = [self.burst, self.rate, self.period].map(|default| default.unwrap_or(1));
        match used.throttle(burst, rate, period) {
            Ok(_) => Ok(()),
            Err(error) => {
                let setting = match error.field() {
                    Some(RequestField::MaxBurst) => "default_burst",
                    Some(RequestField::CountPerPeriod) => "default_rate",
                    _ => "default_period",
                };
                let problem = match error {
                    RequestError::Invalid(_, problem) | RequestError::OutOfBounds(_, problem) => problem,
                    other => other.to_string(),
                };
                Err(WrongDefault { setting, problem })
            }
        }
    }

    /// Returns the quota that three integers of a request mean.
    ///
    /// # Errors
    ///
    /// The integers are no quota, or one that the server does not admit.
    #[inline]
    pub(crate) fn throttle(
        &self,
        max_burst: i64,
        count: i64,
        period_secs: i64,
    ) -> Result<Quota, RequestError> {
        self.admits_quotas()?;
        let quota = Quota::throttle(max_burst, count, period_secs).map_err(|error| invalid(&error))?;
        match self.bounds.is_brief(&quota) {
            true => Ok(quota),
            false => Err(self.bounds.too_long(&quota, RequestField::Period, RequestField::MaxBurst)),
        }
    }

    /// Returns the quota that the text of a request means.
    ///
    /// # Errors
    ///
    /// The text is no quota, or one that the server does not admit.
    pub(crate) fn parse(&self, text: &str) -> Result<Quota, RequestError> {
        self.admits_quotas()?;
        let not_a_quota = |error: QuotaError| RequestError::Invalid(RequestField::Quota, error.to_string());
        let quota: Quota = text.parse().map_err(not_a_quota)?;
        if quota.algorithm() == Algorithm::SlidingLog {
            self.bounds.check_log(&quota)?;
        }
        match self.bounds.is_brief(&quota) {
            true => Ok(quota),
            false => Err(self.bounds.too_long(&quota, RequestField::Quota, RequestField::Quota)),
        }
    }

    /// Returns the default of a field of a throttle, if there is one.
    #[inline]
    pub(crate) fn default_of(&self, field: RequestField) -> Option<i64> {
        match field {
            RequestField::MaxBurst => self.burst,
            RequestField::CountPerPeriod => self.rate,
            RequestField::Period => self.period,
            RequestField::Quantity => Some(1),
            _ => None,
        }
    }

    /// Refuses every quota of a request if the server goes by plans only. Checked first, so that no client is asked to
    /// fill in numbers that would be refused as well.
    #[inline]
    pub(crate) fn admits_quotas(&self) -> Result<(), RequestError> {
        if self.bounds.plans_only { Err(RequestError::PlansOnly) } else { Ok(()) }
    }
}

/// A default in `[limits]` that no request could use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongDefault {
    /// The setting, such as `default_burst`.
    pub setting: &'static str,
    /// Its value, and what would be right.
    pub problem: String,
}

impl fmt::Display for WrongDefault {
    /// Writes `setting: value; remedy`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.setting, self.problem)
    }
}

impl std::error::Error for WrongDefault {}

impl QuotaBounds {
    /// Returns true if period and refill are within the bound.
    #[inline]
    fn is_brief(&self, quota: &Quota) -> bool {
        let [period, most] = [quota.period(), self.max_period].map(|span| u128::from(span.as_nanos()));
        // By what was asked for, and not by the emission interval: that is rounded up, which is not the client's fault.
        let refills = u128::from(quota.burst()) * period <= most * u128::from(quota.count());
        period <= most && refills
    }

    fn check_log(&self, quota: &Quota) -> Result<(), RequestError> {
        let remedy = "use `sliding`, a plan, or start the server with";
        if !self.allow_log {
            let found = "a request may not bring a `log`, which remembers every request";
            return Err(RequestError::LogNotAllowed(format!("{found}: {remedy} --allow-log")));
        }
        let (entries, most) = (quota.burst(), self.max_log_entries);
        if entries > most.into() {
            let found = format!("a log of {entries} entries; a request may bring one of at most {most}");
            let problem = format!("{found}: {remedy} a larger --max-log-entries");
            return Err(RequestError::OutOfBounds(RequestField::Quota, problem));
        }
        Ok(())
    }

    /// Returns why a quota is too long: by its period, or by its burst, which these fields say.
    #[cold]
    fn too_long(&self, quota: &Quota, period: RequestField, burst: RequestField) -> RequestError {
        let most = SpelledSpan(self.max_period);
        let (field, found) = if quota.period() > self.max_period {
            (period, format!("a period of {}", SpelledSpan(quota.period())))
        } else {
            let found = format!("{} take {} to refill", quota.burst(), SpelledSpan(quota.refill_time()));
            (burst, found)
        };
        let problem = format!(
            "{found}; a quota of a request may take at most {most}: use a plan, or start the server with a larger \
             --max-period"
        );
        RequestError::OutOfBounds(field, problem)
    }
}

/// Returns what is wrong with a quota in numbers, by the field that the engine names.
#[cold]
fn invalid(error: &QuotaError) -> RequestError {
    let numbers = [RequestField::MaxBurst, RequestField::CountPerPeriod, RequestField::Period];
    let field = numbers.into_iter().find(|field| field.name() == error.field());
    RequestError::Invalid(
        field.unwrap_or(RequestField::Quota),
        format!("{}; {}", error.value(), error.remedy()),
    )
}

/// A span in seconds, and in days if it is whole days.
struct SpelledSpan(Nanos);

impl fmt::Display for SpelledSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DAY: u64 = 86_400;
        match self.0.ceil_secs() {
            secs if secs >= DAY && secs.is_multiple_of(DAY) => write!(f, "{secs} s ({} days)", secs / DAY),
            secs => write!(f, "{secs} s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The field that is out of bounds, and the whole message.
    fn out_of_bounds(result: Result<Quota, RequestError>) -> (RequestField, String) {
        match result {
            Err(error @ RequestError::OutOfBounds(field, _)) => (field, error.to_string()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_period_and_a_refill_are_bound_alike() {
        let limits = RequestLimits::default();
        let month = 31 * 86_400;
        assert!(limits.throttle(1, 1, month).is_ok());
        assert!(limits.throttle(5, 10, 2 * month / 4).is_ok());
        let (field, long) = out_of_bounds(limits.throttle(1, 1, month + 1));
        assert_eq!(field, RequestField::Period);
        assert_eq!(
            long,
            "period: a period of 2678401 s; a quota of a request may take at most 2678400 s (31 days): use a plan, or \
             start the server with a larger --max-period"
        );
        let (field, deep) = out_of_bounds(limits.throttle(32, 1, 86_400));
        assert_eq!(field, RequestField::MaxBurst);
        assert!(deep.starts_with("max_burst: 32 take 2764800 s (32 days) to refill; "), "{deep}");
        assert!(limits.throttle(31, 1, 86_400).is_ok());
        // An emission interval is rounded up: that is not the client's fault.
        assert!(limits.throttle(999_999_937, 999_999_937, month).is_ok());
        // Where an interval is as short as what it is rounded to, a burst is no less bound.
        for rate in [1_000_000_000, 500_000_000] {
            assert!(limits.throttle(rate * month, rate, 1).is_ok());
            for burst in [rate * month + 1, 1_000_000_000_000_000_000] {
                let (field, _) = out_of_bounds(limits.throttle(burst, rate, 1));
                assert_eq!(field, RequestField::MaxBurst, "{rate}");
            }
        }
        let zero = limits.throttle(0, 1, 1).unwrap_err();
        assert!(matches!(zero, RequestError::Invalid(RequestField::MaxBurst, _)), "{zero}");
        for text in ["1 per 365d", "1/day burst 32", "1 per 32d fixed", "1/year fixed calendar"] {
            let (field, said) = out_of_bounds(limits.parse(text));
            assert_eq!(field, RequestField::Quota, "{said}");
        }
        assert!(limits.parse("1000/month fixed calendar").is_ok());
        assert!(limits.parse("10/fortnight").is_err());
    }

    #[test]
    fn a_log_must_be_allowed_and_is_bound_even_then() {
        let mut limits = RequestLimits::default();
        let refused = limits.parse("1/s log").unwrap_err();
        assert!(matches!(refused, RequestError::LogNotAllowed(_)), "{refused}");
        assert_eq!(refused.field(), Some(RequestField::Quota));
        assert!(refused.to_string().contains("--allow-log"), "{refused}");
        limits.bounds.allow_log = true;
        assert!(limits.parse("1000/day log").is_ok());
        let (_, said) = out_of_bounds(limits.parse("1001/day log"));
        assert!(said.contains("1001") && said.contains("at most 1000"), "{said}");
        out_of_bounds(limits.parse("1 per 40d log"));
    }

    #[test]
    fn plans_only_admits_nothing_and_every_message_fits_the_narrowest_wire() {
        let bounds = QuotaBounds { plans_only: true, ..QuotaBounds::default() };
        let limits = RequestLimits { bounds, ..RequestLimits::default() };
        let refused = limits.parse("1/s").unwrap_err();
        assert!(matches!(refused, RequestError::PlansOnly), "{refused}");
        assert!(refused.to_string().contains("ACQUIRE"), "{refused}");
        assert!(matches!(limits.throttle(1, 1, 1), Err(RequestError::PlansOnly)));
        let open = RequestLimits::default();
        let longest = open.throttle(i64::MAX, 1_000_000_000, 1).unwrap_err();
        for said in [refused, open.parse("1/s log").unwrap_err(), longest].map(|error| error.to_string()) {
            // A message on the MessagePack wire has no more bytes.
            assert!(said.len() <= 255, "{} bytes: {said}", said.len());
        }
    }
}
