//! How long an instance may keep what it has taken from a shared store ahead of its requests.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::quote::shorten;

/// How long tokens that one instance took from a shared store in one call may be handed out without asking it again.
///
/// Off unless it is asked for. Then it is a share of the time in which a rule refills, or a time. The longer, the fewer calls
/// to the store; what all instances admit in any span of time is at most the quota, and what refills during one lease beside
/// it. (A [hold](crate::Hold) has a lease too, of its own: this is not about holds.)
///
/// ```
/// use std::time::Duration;
/// use ratekeeper::{Lease, Plan};
///
/// let api = Plan::parse("api", "100000/s")?.lease("10%".parse()?)?;
/// assert_eq!(api.leasing().map(|leasing| leasing.life.as_duration()), Some(Duration::from_millis(100)));
/// assert_eq!(Lease::lasting(Duration::from_millis(50))?.to_string(), "50ms");
/// assert_eq!(Lease::share(0).unwrap_err().to_string(), "lease: `0%`; at least 1%");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lease(LeaseTerm);

/// What a [`Lease`] is made of; within its bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum LeaseTerm {
    /// Nothing is taken ahead.
    #[default]
    Off,
    /// A share of the refill time, in percent.
    Share(u32),
    /// A time, in milliseconds.
    Millis(u64),
}

impl Lease {
    /// Nothing is taken ahead: every request asks the store.
    pub const OFF: Lease = Lease(LeaseTerm::Off);
    /// The greatest share of the refill time, in percent.
    pub const MOST_PERCENT: u32 = 50;
    /// The shortest time. Shorter leases save no calls.
    pub const SHORTEST: Duration = Duration::from_millis(20);
    /// The longest time.
    pub const LONGEST: Duration = Duration::from_secs(10);
    /// The longest time that a share comes to, however long the refill time is.
    pub const LONGEST_SHARE: Duration = Duration::from_millis(500);

    /// Returns a lease of this share of each rule's refill time, in percent, and of 500 ms at most.
    ///
    /// # Errors
    ///
    /// If it is 0 %, or more than [50 %](Lease::MOST_PERCENT).
    pub fn share(percent: u32) -> Result<Self, LeaseSettingError> {
        let wrong = |remedy| Err(LeaseSettingError::new(format!("{percent}%"), remedy));
        match percent {
            0 => wrong("at least 1%".to_owned()),
            1..=Self::MOST_PERCENT => Ok(Lease(LeaseTerm::Share(percent))),
            _ => wrong(format!("at most {}%", Self::MOST_PERCENT)),
        }
    }

    /// Returns a lease of this time, whatever the refill time is.
    ///
    /// # Errors
    ///
    /// If it is shorter than [20 ms](Lease::SHORTEST), longer than [10 s](Lease::LONGEST), or not a whole number of
    /// milliseconds.
    pub fn lasting(time: Duration) -> Result<Self, LeaseSettingError> {
        let wrong = |remedy: &str| Err(LeaseSettingError::new(format!("{time:?}"), remedy.to_owned()));
        if time < Self::SHORTEST {
            return wrong("at least 20ms: shorter leases save no calls");
        }
        if time > Self::LONGEST {
            return wrong("at most 10s");
        }
        match u64::try_from(time.as_millis()) {
            Ok(millis) if Duration::from_millis(millis) == time => Ok(Lease(LeaseTerm::Millis(millis))),
            _ => wrong("a whole number of milliseconds"),
        }
    }

    /// Returns true if nothing is taken ahead.
    pub fn is_off(self) -> bool {
        self == Self::OFF
    }

    /// Returns true if it is a time, and not a share of one.
    pub(super) fn is_time(self) -> bool {
        matches!(self.0, LeaseTerm::Millis(_))
    }

    /// Returns what it is made of.
    pub(super) fn term(self) -> LeaseTerm {
        self.0
    }
}

impl FromStr for Lease {
    type Err = LeaseSettingError;

    /// Parses `off`, `10%`, or a time with its unit: `50ms`, `2s`.
    fn from_str(text: &str) -> Result<Self, LeaseSettingError> {
        let wrong = |remedy: &str| LeaseSettingError::new(shorten(text), remedy.to_owned());
        if text == "off" {
            return Ok(Self::OFF);
        }
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        if number.is_empty() {
            return Err(wrong(SYNTAX));
        }
        // A number that does not fit is as much too large as the largest that does.
        let number: u64 = number.parse().unwrap_or(u64::MAX);
        let secs = match unit {
            "%" => {
                return match u32::try_from(number) {
                    Ok(percent) => Self::share(percent),
                    Err(_) => Err(wrong("at most 50%")),
                };
            }
            "ms" => return Self::lasting(Duration::from_millis(number)),
            "s" => number,
            "m" => number.saturating_mul(60),
            "h" => number.saturating_mul(3_600),
            "d" => number.saturating_mul(86_400),
            "" if number == 0 => 0,
            _ => return Err(wrong(SYNTAX)),
        };
        Self::lasting(Duration::from_secs(secs))
    }
}

/// What a lease is written as.
const SYNTAX: &str = "write `off`, a share of the refill time such as `10%`, or a time such as `50ms`";

impl fmt::Display for Lease {
    /// Writes the text that parses to the same lease.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            LeaseTerm::Off => f.pad("off"),
            LeaseTerm::Share(percent) => write!(f, "{percent}%"),
            LeaseTerm::Millis(millis) if millis.is_multiple_of(1_000) => write!(f, "{}s", millis / 1_000),
            LeaseTerm::Millis(millis) => write!(f, "{millis}ms"),
        }
    }
}

/// The error of a text or a number that cannot be a [`Lease`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSettingError {
    value: String,
    remedy: String,
}

impl LeaseSettingError {
    fn new(value: String, remedy: String) -> Self {
        LeaseSettingError { value, remedy }
    }

    /// Returns the wrong value as it was given, shortened.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Returns what would be right.
    pub fn remedy(&self) -> &str {
        &self.remedy
    }
}

impl fmt::Display for LeaseSettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lease: `{}`; {}", self.value, self.remedy)
    }
}

impl std::error::Error for LeaseSettingError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_written_as_it_is_read() {
        for text in ["off", "1%", "10%", "50%", "20ms", "50ms", "1s", "1500ms", "10s"] {
            let lease: Lease = text.parse().unwrap();
            assert_eq!(lease.to_string(), text);
            assert_eq!(lease.is_off(), text == "off");
        }
        assert_eq!("1000ms".parse::<Lease>(), "1s".parse());
        assert_eq!(Lease::default(), Lease::OFF);
    }

    #[test]
    fn what_is_no_lease_is_refused_with_what_would_be() {
        let error = |text: &str| text.parse::<Lease>().unwrap_err().to_string();
        assert_eq!(error("0%"), "lease: `0%`; at least 1%");
        assert_eq!(error("51%"), "lease: `51%`; at most 50%");
        assert_eq!(error("99999999999999999999999%"), "lease: `99999999999999999999999%`; at most 50%");
        for text in ["0", "0ms", "0s"] {
            assert_eq!(error(text), "lease: `0ns`; at least 20ms: shorter leases save no calls");
        }
        assert_eq!(error("19ms"), "lease: `19ms`; at least 20ms: shorter leases save no calls");
        for (text, value) in [("10001ms", "10.001s"), ("11s", "11s"), ("1m", "60s"), ("1h", "3600s")] {
            assert_eq!(error(text), format!("lease: `{value}`; at most 10s"));
        }
        for text in ["99999999999999999999999s", "99999999999999999999999ms", "18446744073709551615d"] {
            assert!(error(text).ends_with("; at most 10s"), "{}", error(text));
        }
        for text in ["", "10", "%", "ms", "-1s", "1.5s", "10 %", "OFF", "50us", "10%%", "½%", "on"] {
            assert_eq!(error(text), format!("lease: `{text}`; {SYNTAX}"));
        }
        let odd = Lease::lasting(Duration::from_micros(50_500)).unwrap_err();
        assert_eq!(odd.to_string(), "lease: `50.5ms`; a whole number of milliseconds");
    }
}
