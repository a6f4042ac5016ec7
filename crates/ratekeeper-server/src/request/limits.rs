//! What a request without limits is held to, and what a quota that comes with a request may be.
//!
//! The one door for quotas of requests: every transport gets its quota from [`Limits::throttle`] or [`Limits::parse`],
//! so that no wire is laxer than another. Such a quota costs the server memory for as long as it takes to refill, and
//! whoever sends requests chooses it: without bounds, a million keys of a long one lock every new key out for years.

use std::fmt;

use ratekeeper::{Algorithm, Nanos, Quota, QuotaError};

/// `[limits]`: what a request leaves out, and what it may not ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// For `max_burst`.
    pub burst: Option<i64>,
    /// For `count_per_period`.
    pub rate: Option<i64>,
    /// For `period`, in seconds.
    pub period: Option<i64>,
    /// What a quota that comes with a request may be.
    pub bounds: QuotaBounds,
}

/// Bounds on the quotas that come with requests. Plans are not bound by them: the operator wrote those.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaBounds {
    /// The longest period, and the longest time in which an emptied quota may become full again.
    pub max_period: Nanos,
    /// Whether a quota may be a `log`, which remembers every request.
    pub allow_log: bool,
    /// The most requests that such a log may remember.
    pub max_log_entries: u32,
    /// No quotas from requests at all: a request must name a plan.
    pub plans_only: bool,
}

impl QuotaBounds {
    /// The longest month.
    pub const DEFAULT_MAX_PERIOD: Nanos = Nanos::from_secs(31 * 86_400);
    /// 16 KB for one key.
    pub const DEFAULT_MAX_LOG_ENTRIES: u32 = 1_000;
    /// No bounds: for requests that leave nothing behind.
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

impl Limits {
    /// Admits every quota, and fills in nothing.
    pub const NONE: Self = Limits { burst: None, rate: None, period: None, bounds: QuotaBounds::NONE };

    /// Returns the quota that three integers of a request mean, if the server admits it.
    #[inline]
    pub fn throttle(&self, max_burst: i64, count: i64, period_secs: i64) -> Result<Quota, QuotaRefusal> {
        self.admits_quotas()?;
        let quota = Quota::throttle(max_burst, count, period_secs).map_err(QuotaRefusal::invalid)?;
        match self.bounds.is_brief(&quota) {
            true => Ok(quota),
            false => Err(self.bounds.too_long(&quota, "period", "max_burst")),
        }
    }

    /// Returns the quota that the text of a request means, if the server admits it.
    pub fn parse(&self, text: &str) -> Result<Quota, QuotaRefusal> {
        self.admits_quotas()?;
        let quota: Quota = text.parse().map_err(|error: QuotaError| QuotaRefusal {
            code: RefusalCode::Invalid,
            field: "quota",
            message: error.to_string(),
        })?;
        if quota.algorithm() == Algorithm::SlidingLog {
            self.bounds.check_log(&quota)?;
        }
        match self.bounds.is_brief(&quota) {
            true => Ok(quota),
            false => Err(self.bounds.too_long(&quota, "quota", "quota")),
        }
    }

    /// Refuses every quota of a request if the server goes by plans only. Asked first, so that nobody is told to fill in
    /// numbers that would be refused as well.
    #[inline]
    pub fn admits_quotas(&self) -> Result<(), QuotaRefusal> {
        if self.bounds.plans_only { Err(QuotaRefusal::plans_only()) } else { Ok(()) }
    }
}

impl QuotaBounds {
    /// Whether period and refill are within the bound.
    #[inline]
    fn is_brief(&self, quota: &Quota) -> bool {
        let [period, most] = [quota.period(), self.max_period].map(|span| u128::from(span.as_nanos()));
        // As it was asked for, and not by the emission interval: that is rounded up, which is not the client's fault.
        let refills = u128::from(quota.burst()) * period <= most * u128::from(quota.count());
        period <= most && refills
    }

    fn check_log(&self, quota: &Quota) -> Result<(), QuotaRefusal> {
        let (code, found, remedy) = if !self.allow_log {
            let found = "a request may not bring a `log`, which remembers every request".to_owned();
            (RefusalCode::LogNotAllowed, found, "--allow-log")
        } else if quota.burst() > self.max_log_entries.into() {
            let found = format!(
                "a log of {} entries; a request may bring one of at most {}",
                quota.burst(),
                self.max_log_entries
            );
            (RefusalCode::OutOfBounds, found, "a larger --max-log-entries")
        } else {
            return Ok(());
        };
        let message = format!("{found}: use `sliding`, a plan, or start the server with {remedy}");
        Err(QuotaRefusal { code, field: "quota", message })
    }

    /// Why a quota is too long: by its period, or by its burst. The names are those of the fields that say so.
    #[cold]
    fn too_long(&self, quota: &Quota, period: &'static str, burst: &'static str) -> QuotaRefusal {
        let most = Spelled(self.max_period);
        let (field, found) = if quota.period() > self.max_period {
            (period, format!("a period of {}", Spelled(quota.period())))
        } else {
            let found = format!("{} take {} to refill", quota.burst(), Spelled(quota.refill_time()));
            (burst, found)
        };
        let message = format!(
            "{found}; a quota of a request may take at most {most}: use a plan, or start the server with a larger \
             --max-period"
        );
        QuotaRefusal { code: RefusalCode::OutOfBounds, field, message }
    }
}

/// Why a quota that came with a request is not admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaRefusal {
    code: RefusalCode,
    field: &'static str,
    /// What was given, and what would be right.
    message: String,
}

/// What sort of refusal it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCode {
    /// It is no quota.
    Invalid,
    /// It is beyond what the server admits.
    OutOfBounds,
    /// It is a `log`, and those are not admitted.
    LogNotAllowed,
    /// No quota is admitted.
    PlansOnly,
}

impl QuotaRefusal {
    #[cold]
    fn invalid(error: QuotaError) -> Self {
        let message = format!("{}; {}", error.value(), error.remedy());
        QuotaRefusal { code: RefusalCode::Invalid, field: error.field(), message }
    }

    #[cold]
    fn plans_only() -> Self {
        let message = "this server takes no quotas from requests (plans_only): name a plan instead, by ACQUIRE key plan \
                       (RESP), POST /v1/acquire (HTTP) or ratekeeper.v1.RateLimiter/Acquire (gRPC)";
        QuotaRefusal { code: RefusalCode::PlansOnly, field: "quota", message: message.to_owned() }
    }

    /// The sort of refusal.
    pub fn code(&self) -> RefusalCode {
        self.code
    }

    /// Which field is wrong.
    pub fn field(&self) -> &'static str {
        self.field
    }
}

impl fmt::Display for QuotaRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            RefusalCode::PlansOnly => f.write_str(&self.message),
            _ => write!(f, "{}: {}", self.field, self.message),
        }
    }
}

impl std::error::Error for QuotaRefusal {}

/// A span in the unit that a reader thinks in, and in seconds where a wire counts in those.
struct Spelled(Nanos);

impl fmt::Display for Spelled {
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

    fn refusal(limits: &Limits, quota: &str) -> (RefusalCode, &'static str, String) {
        let refusal = limits.parse(quota).unwrap_err();
        (refusal.code(), refusal.field(), refusal.to_string())
    }

    #[test]
    fn a_period_and_a_refill_are_bound_alike() {
        let limits = Limits::default();
        let month = 31 * 86_400;
        assert!(limits.throttle(1, 1, month).is_ok());
        assert!(limits.throttle(5, 10, 2 * month / 4).is_ok());
        let long = limits.throttle(1, 1, month + 1).unwrap_err();
        assert_eq!((long.code(), long.field()), (RefusalCode::OutOfBounds, "period"));
        assert_eq!(
            long.to_string(),
            "period: a period of 2678401 s; a quota of a request may take at most 2678400 s (31 days): use a plan, or \
             start the server with a larger --max-period"
        );
        let deep = limits.throttle(32, 1, 86_400).unwrap_err();
        assert_eq!((deep.code(), deep.field()), (RefusalCode::OutOfBounds, "max_burst"));
        assert!(deep.to_string().starts_with("max_burst: 32 take 2764800 s (32 days) to refill; "), "{deep}");
        assert!(limits.throttle(31, 1, 86_400).is_ok());
        // An emission interval is rounded up: that is not the client's fault.
        assert!(limits.throttle(999_999_937, 999_999_937, month).is_ok());
        // Where an interval is as short as what it is rounded to, a burst is no less bound.
        for rate in [1_000_000_000, 500_000_000] {
            assert!(limits.throttle(rate * month, rate, 1).is_ok());
            for burst in [rate * month + 1, 1_000_000_000_000_000_000] {
                let deep = limits.throttle(burst, rate, 1).unwrap_err();
                assert_eq!((deep.code(), deep.field()), (RefusalCode::OutOfBounds, "max_burst"), "{rate}");
            }
        }
        assert_eq!(limits.throttle(0, 1, 1).unwrap_err().code(), RefusalCode::Invalid);
        for text in ["1 per 365d", "1/day burst 32", "1 per 32d fixed", "1/year fixed calendar"] {
            let (code, field, said) = refusal(&limits, text);
            assert_eq!((code, field), (RefusalCode::OutOfBounds, "quota"), "{said}");
        }
        assert!(limits.parse("1000/month fixed calendar").is_ok());
        assert!(limits.parse("10/fortnight").is_err());
    }

    #[test]
    fn a_log_must_be_allowed_and_is_bound_even_then() {
        let mut limits = Limits::default();
        let (code, field, said) = refusal(&limits, "1/s log");
        assert_eq!((code, field), (RefusalCode::LogNotAllowed, "quota"));
        assert!(said.contains("--allow-log"), "{said}");
        limits.bounds.allow_log = true;
        assert!(limits.parse("1000/day log").is_ok());
        let (code, _, said) = refusal(&limits, "1001/day log");
        assert_eq!(code, RefusalCode::OutOfBounds);
        assert!(said.contains("1001") && said.contains("at most 1000"), "{said}");
        assert_eq!(refusal(&limits, "1 per 40d log").0, RefusalCode::OutOfBounds);
    }

    #[test]
    fn plans_only_admits_nothing_and_every_message_fits_the_narrowest_wire() {
        let bounds = QuotaBounds { plans_only: true, ..QuotaBounds::default() };
        let limits = Limits { bounds, ..Limits::default() };
        let (code, _, said) = refusal(&limits, "1/s");
        assert_eq!(code, RefusalCode::PlansOnly);
        assert!(said.contains("ACQUIRE"), "{said}");
        assert_eq!(limits.throttle(1, 1, 1).unwrap_err().code(), RefusalCode::PlansOnly);
        let open = Limits::default();
        let longest = open.throttle(i64::MAX, 1_000_000_000, 1).unwrap_err().to_string();
        for said in [said, refusal(&open, "1/s log").2, longest] {
            // MessagePack tells no more.
            assert!(said.len() <= 255, "{} bytes: {said}", said.len());
        }
    }
}
