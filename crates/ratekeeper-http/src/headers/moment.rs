//! Points in time and the days of the Gregorian calendar.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::number::from_nanos;

/// A point in time: nanoseconds since the Unix epoch. Signed and wide, so that no date that can be written
/// needs an overflow check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(i128);

const NANOS: i128 = 1_000_000_000;
const DAY_SECONDS: i64 = 86_400;

impl Moment {
    pub(crate) fn since_epoch(elapsed: Duration) -> Self {
        Moment(i128::try_from(elapsed.as_nanos()).unwrap_or(i128::MAX))
    }

    pub(crate) fn from_seconds(seconds: i64) -> Self {
        Moment(i128::from(seconds) * NANOS)
    }

    pub(crate) fn plus_nanos(self, nanos: u32) -> Self {
        Moment(self.0.saturating_add(i128::from(nanos)))
    }

    /// How long after `earlier` this is; zero if it is not after.
    pub(crate) fn since(self, earlier: Moment) -> Duration {
        from_nanos(u128::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    pub(crate) fn year(self) -> i64 {
        // Days since 0001-01-01. Years of average length are off by one at most.
        let days = i64::try_from(self.0.div_euclid(NANOS * i128::from(DAY_SECONDS))).unwrap_or(0) + EPOCH_DAY;
        let guess = days.saturating_mul(400).div_euclid(146_097).saturating_add(1);
        (guess - 1..=guess + 1).rev().find(|&year| days_before(year) <= days).unwrap_or(guess)
    }
}

impl From<SystemTime> for Moment {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Moment::since_epoch(after),
            Err(before) => Moment(-Moment::since_epoch(before.duration()).0),
        }
    }
}

/// Days from 0001-01-01 to 1970-01-01.
const EPOCH_DAY: i64 = days_before(1970);

/// Days from 0001-01-01 to the first day of `year`, in the Gregorian calendar.
const fn days_before(year: i64) -> i64 {
    let full = year - 1;
    full * 365 + full.div_euclid(4) - full.div_euclid(100) + full.div_euclid(400)
}

const fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Monday first, as 0001-01-01 was one.
pub(crate) const WEEKDAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// A date whose fields are checked against the calendar.
#[derive(Clone, Copy)]
pub(crate) struct Day {
    /// Days since 0001-01-01.
    number: i64,
}

impl Day {
    pub(crate) fn new(year: i64, month: i64, day: i64) -> Option<Day> {
        let february = if is_leap(year) { 29 } else { 28 };
        let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let before = usize::try_from(month.checked_sub(1)?).ok()?;
        let length = *lengths.get(before)?;
        let passed: i64 = lengths[..before].iter().sum();
        (1..=length).contains(&day).then(|| Day { number: days_before(year) + passed + day - 1 })
    }

    pub(crate) fn weekday(self) -> &'static str {
        let index = usize::try_from(self.number.rem_euclid(7)).unwrap_or(0);
        WEEKDAYS[index]
    }

    /// `seconds` after midnight.
    pub(crate) fn at(self, seconds: i64) -> Moment {
        Moment::from_seconds((self.number - EPOCH_DAY) * DAY_SECONDS + seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn years_of_moments() {
        for year in 1..=9999 {
            assert_eq!(Day::new(year, 1, 1).unwrap().at(0).year(), year);
            assert_eq!(Day::new(year, 12, 31).unwrap().at(DAY_SECONDS - 1).year(), year);
        }
        Moment(i128::MAX).year();
        Moment(i128::MIN).year();
    }
}
