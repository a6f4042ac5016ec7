//! Instants for people: RFC 3339, and "3 s ago". The calendar that access logs are read with is here too.

use std::fmt;

use ratekeeper::Timestamp;

pub(crate) const SECONDS_PER_DAY: i64 = 86_400;
const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// Days from the epoch to a day of the proleptic Gregorian calendar. The day is not checked against its month.
///
/// Years are counted from March, so that the leap day is the last of its year, in eras of 400 years.
pub(crate) fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day of so many days after the epoch.
pub(crate) fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// How many days a month has.
pub(crate) fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// An instant as RFC 3339 writes it, in UTC, with as many digits of a second as it has.
#[derive(Clone, Copy, Debug)]
pub struct Rfc3339(pub Timestamp);

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        let (seconds, fraction) = (nanos.div_euclid(NANOS_PER_SECOND), nanos.rem_euclid(NANOS_PER_SECOND));
        let (year, month, day) = civil_from_days(seconds.div_euclid(SECONDS_PER_DAY));
        let second = seconds.rem_euclid(SECONDS_PER_DAY);
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if fraction != 0 {
            let digits = format!("{fraction:09}");
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}

/// How far an instant is from now: `3 s ago`, `in 5 min`, `now`.
#[derive(Clone, Copy, Debug)]
pub struct Ago {
    /// The instant.
    pub then: Timestamp,
    /// The present.
    pub now: Timestamp,
}

impl fmt::Display for Ago {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (past, ahead) = (self.now.since(self.then).as_nanos(), self.then.since(self.now).as_nanos());
        match (past, ahead) {
            (0, 0) => f.write_str("now"),
            (0, ahead) => write!(f, "in {}", Span(ahead)),
            (past, _) => write!(f, "{} ago", Span(past)),
        }
    }
}

/// So many nanoseconds in the largest unit of which there are two, or exactly one.
#[derive(Clone, Copy, Debug)]
pub struct Span(pub u64);

impl fmt::Display for Span {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
                .map(|nanos| Span(nanos).to_string()),
            ["1999 ns", "1 µs", "1 s", "1 min", "1 day"]
        );
    }

    proptest! {
        #[test]
        fn a_day_has_one_date(days in -200_000i64..200_000) {
            let (year, month, day) = civil_from_days(days);
            prop_assert_eq!(days_from_civil(year, month, day), days);
            prop_assert!((1..=days_in_month(year, month)).contains(&day));
        }
    }
}
