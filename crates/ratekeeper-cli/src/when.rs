//! Instants and spans of time as people read them: RFC 3339, `3 s ago`, `5 min`.

use std::fmt;

use ratekeeper::{Decision, Timestamp};

/// Displays an instant as RFC 3339 in UTC, with as many digits of a second as it has.
#[derive(Clone, Copy, Debug)]
pub struct Rfc3339(pub Timestamp);

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // 64 bits of nanoseconds end in the year 2262; jiff goes on to 9999.
        let moment = jiff::Timestamp::from_nanosecond(self.0.as_nanos().into());
        moment.map_err(|_| fmt::Error)?.fmt(f)
    }
}

/// Displays how far an instant is from the present: `3 s ago`, `in 5 min` or `now`.
#[derive(Clone, Copy, Debug)]
pub struct Ago {
    /// The instant to describe.
    pub then: Timestamp,
    /// The present, which it is compared with.
    pub now: Timestamp,
}

impl fmt::Display for Ago {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (past, ahead) = (self.now.since(self.then).as_nanos(), self.then.since(self.now).as_nanos());
        match (past, ahead) {
            (0, 0) => f.write_str("now"),
            (0, ahead) => write!(f, "in {}", HumanSpan(ahead)),
            (past, _) => write!(f, "{} ago", HumanSpan(past)),
        }
    }
}

/// Displays nanoseconds in the largest unit of which there are at least two, or exactly one: `119 s`, `2 min`, `1 day`.
#[derive(Clone, Copy, Debug)]
pub struct HumanSpan(pub u64);

impl fmt::Display for HumanSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u64); 6] = [
            ("days", 86_400_000_000_000),
            ("h", 3_600_000_000_000),
            ("min", 60_000_000_000),
            ("s", 1_000_000_000),
            ("ms", 1_000_000),
            ("µs", 1_000),
        ];
        match UNITS.iter().find(|(_, unit)| self.0 >= 2 * unit || self.0 == *unit) {
            Some(("days", unit)) if self.0 == *unit => f.write_str("1 day"),
            Some((name, unit)) => write!(f, "{} {name}", self.0 / unit),
            None => write!(f, "{} ns", self.0),
        }
    }
}

/// Returns `retry_after` as every `--json` has it: milliseconds rounded up, 0 when allowed, −1 for never.
pub fn retry_after_ms(decision: &Decision) -> i64 {
    decision.retry_after.map_or(-1, |wait| i64::try_from(wait.ceil_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rfc(nanos: i64) -> String {
        Rfc3339(Timestamp::from_nanos(nanos)).to_string()
    }

    #[test]
    fn instants() {
        assert_eq!(rfc(1_761_884_055_342_794_596), "2025-10-31T04:14:15.342794596Z");
        assert_eq!(rfc(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc(-1), "1969-12-31T23:59:59.999999999Z");
        assert_eq!(rfc(951_782_400_500_000_000), "2000-02-29T00:00:00.5Z");
        assert_eq!(rfc(i64::MAX), "2262-04-11T23:47:16.854775807Z");
        assert_eq!(rfc(i64::MIN), "1677-09-21T00:12:43.145224192Z");
    }

    #[test]
    fn distances() {
        let at = Timestamp::from_secs;
        let ago = |then, now| Ago { then: at(then), now: at(now) }.to_string();
        assert_eq!(
            (ago(7, 10).as_str(), ago(10, 10).as_str(), ago(13, 10).as_str()),
            ("3 s ago", "now", "in 3 s")
        );
        assert_eq!((ago(0, 119).as_str(), ago(0, 120).as_str()), ("119 s ago", "2 min ago"));
        assert_eq!(ago(0, 86_400 * 3), "3 days ago");
        assert_eq!(
            [1_999, 1_000, 1_000_000_000, 60_000_000_000, 86_400_000_000_000]
                .map(|nanos| HumanSpan(nanos).to_string()),
            ["1999 ns", "1 µs", "1 s", "1 min", "1 day"]
        );
    }
}
