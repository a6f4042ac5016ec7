//! Calendar windows: the minute, hour, day, week, month or year around an instant, in a time zone.
//!
//! Windows tile time: each begins where the one before ends. What people call a day is 23 or 25 hours long when clocks
//! change, and where they skip midnight it begins with the first instant that exists.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp as Instant};

use super::zone::Zone;
use crate::{Nanos, Timestamp};

/// A unit of the calendar. A week begins on Monday.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CalendarUnit {
    /// A minute, from second 0.
    Minute,
    /// An hour, from minute 0.
    Hour,
    /// A day, from midnight: 23 or 25 hours when the zone's clocks change.
    Day,
    /// A week, from the midnight before Monday.
    Week,
    /// A month, from the midnight before the 1st.
    Month,
    /// A year, from the midnight before 1 January.
    Year,
}

impl CalendarUnit {
    const ALL: [CalendarUnit; 6] = [
        CalendarUnit::Minute,
        CalendarUnit::Hour,
        CalendarUnit::Day,
        CalendarUnit::Week,
        CalendarUnit::Month,
        CalendarUnit::Year,
    ];

    /// Returns the unit's length, taking a month for 30 days and a year for 365.
    pub const fn nominal(self) -> Nanos {
        Nanos::from_secs(self.nominal_secs())
    }

    const fn nominal_secs(self) -> u64 {
        match self {
            CalendarUnit::Minute => 60,
            CalendarUnit::Hour => 3_600,
            CalendarUnit::Day => 86_400,
            CalendarUnit::Week => 7 * 86_400,
            CalendarUnit::Month => 30 * 86_400,
            CalendarUnit::Year => 365 * 86_400,
        }
    }

    /// Returns the word for it in the text form of a quota.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            CalendarUnit::Minute => "minute",
            CalendarUnit::Hour => "hour",
            CalendarUnit::Day => "day",
            CalendarUnit::Week => "week",
            CalendarUnit::Month => "month",
            CalendarUnit::Year => "year",
        }
    }

    const fn varies(self) -> bool {
        matches!(self, CalendarUnit::Month | CalendarUnit::Year)
    }

    /// Returns the unit of a word such as `month` or `years`, if its length varies.
    pub(crate) fn of_varying_length(word: &str) -> Option<Self> {
        let word = word.strip_suffix('s').unwrap_or(word);
        Self::ALL.into_iter().find(|unit| unit.varies() && unit.word() == word)
    }

    /// Returns the unit that is always exactly so long.
    pub(crate) fn of_length(length: Nanos) -> Option<Self> {
        Self::of_nominal(length).filter(|unit| !unit.varies())
    }

    /// Returns the unit of this [nominal](CalendarUnit::nominal) length.
    pub(crate) fn of_nominal(length: Nanos) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.nominal() == length)
    }
}

/// A unit of the calendar in a time zone.
///
/// ```
/// use ratekeeper::{Calendar, CalendarUnit, Timestamp, Zone};
/// let month = Calendar::new(CalendarUnit::Month, Zone::UTC);
/// let (start, end) = month.window(Timestamp::from_secs(1_709_208_000)); // 2024-02-29T12:00:00Z
/// assert_eq!((start, end), (Timestamp::from_secs(1_706_745_600), Timestamp::from_secs(1_709_251_200)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Calendar {
    unit: CalendarUnit,
    zone: Zone,
}

impl Calendar {
    /// Returns the calendar of this unit in this zone.
    pub const fn new(unit: CalendarUnit, zone: Zone) -> Self {
        Calendar { unit, zone }
    }

    /// Returns the unit of the calendar that one window spans.
    pub const fn unit(&self) -> CalendarUnit {
        self.unit
    }

    /// Returns the time zone in which the windows begin.
    pub const fn zone(&self) -> Zone {
        self.zone
    }

    /// Returns the window around `at`: its first instant, and the first instant after it. At the ends of time windows
    /// are cut off rather than wrapped.
    ///
    /// Costs 5 to 50 nanoseconds in UTC and some hundred in other zones, however long ago the last window was.
    pub fn window(&self, at: Timestamp) -> (Timestamp, Timestamp) {
        // Windows begin and end with a second, in every zone and since ever: so the nanoseconds do not matter.
        let second = at.as_nanos().div_euclid(1_000_000_000);
        let rules = self.zone.rules();
        let (start, end) = match self.unit {
            CalendarUnit::Month | CalendarUnit::Year => date_window(self.unit, rules, second),
            // Every one as long as the other, which a division finds in a quarter of the time: decisions are made on it.
            unit if self.zone.is_utc() => even_window(unit, second),
            CalendarUnit::Minute | CalendarUnit::Hour => clock_window(self.unit, rules, second),
            unit => date_window(unit, rules, second),
        };
        (Timestamp::from_secs(start), Timestamp::from_secs(end))
    }
}

/// Returns jiff's instant of a second that a [`Timestamp`] lies in, or of one beside it: well within the years that jiff
/// knows.
fn instant(second: i64) -> Instant {
    Instant::from_second(second).unwrap_or(Instant::UNIX_EPOCH)
}

/// Minutes, hours, days and weeks of UTC, which has no leap seconds here and no changes of the clock.
fn even_window(unit: CalendarUnit, second: i64) -> (i64, i64) {
    // The epoch was a Thursday, and the first Monday after it four days later.
    let first = if unit == CalendarUnit::Week { 4 * 86_400 } else { 0 };
    let length = unit.nominal_secs().cast_signed();
    let start = (second - first).div_euclid(length) * length + first;
    (start, start + length)
}

/// Minutes and hours of the local clock. A change of the zone's offset within one ends it: the windows tile time.
fn clock_window(unit: CalendarUnit, rules: &TimeZone, second: i64) -> (i64, i64) {
    let length = unit.nominal_secs().cast_signed();
    let offset_at = |second| i64::from(rules.to_offset(instant(second)).seconds());
    let offset = offset_at(second);
    let start = (second + offset).div_euclid(length) * length - offset;
    let end = start + length;
    // The rules note changes of a zone's name as well, which end nothing.
    let before = rules.preceding(instant(second + 1)).map(|change| change.timestamp().as_second());
    let began = before.take_while(|change| *change > start).find(|change| offset_at(change - 1) != offset);
    let after = rules.following(instant(second)).map(|change| change.timestamp().as_second());
    let ends = after.take_while(|change| *change < end).find(|change| offset_at(*change) != offset);
    (began.unwrap_or(start), ends.unwrap_or(end))
}

/// Days and what is made of them: what people call a day may be 23 or 25 hours long.
fn date_window(unit: CalendarUnit, rules: &TimeZone, second: i64) -> (i64, i64) {
    let date = rules.to_datetime(instant(second)).date();
    let later = |date: Date, days: i8| date.saturating_add(Span::new().days(days));
    let (first, next) = match unit {
        CalendarUnit::Week => {
            let monday = later(date, -date.weekday().to_monday_zero_offset());
            (monday, later(monday, 7))
        }
        CalendarUnit::Month => (date.first_of_month(), later(date.last_of_month(), 1)),
        CalendarUnit::Year => (date.first_of_year(), later(date.last_of_year(), 1)),
        _ => (date, later(date, 1)),
    };
    (midnight(rules, first), midnight(rules, next))
}

/// Returns the first second of a date: where clocks skip midnight, the first that exists.
fn midnight(rules: &TimeZone, date: Date) -> i64 {
    match rules.to_ambiguous_timestamp(date.at(0, 0, 0, 0)).compatible() {
        Ok(midnight) => midnight.as_second(),
        // Beyond what jiff knows, which is millennia beyond what a `Timestamp` can say.
        Err(_) if date.year() > 0 => i64::MAX,
        Err(_) => i64::MIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utc(unit: CalendarUnit, secs: i64) -> (i64, i64) {
        let (start, end) = Calendar::new(unit, Zone::UTC).window(Timestamp::from_secs(secs));
        (start.as_nanos() / 1_000_000_000, end.as_nanos() / 1_000_000_000)
    }

    #[test]
    fn known_windows() {
        let noon = 1_751_371_200; // Tuesday 2025-07-01T12:00:00Z
        assert_eq!(utc(CalendarUnit::Minute, noon + 59), (noon, noon + 60));
        assert_eq!(utc(CalendarUnit::Hour, noon + 3_599), (noon, noon + 3_600));
        assert_eq!(utc(CalendarUnit::Day, noon), (1_751_328_000, 1_751_414_400));
        assert_eq!(utc(CalendarUnit::Week, noon), (1_751_241_600, 1_751_846_400)); // Monday 2025-06-30
        assert_eq!(utc(CalendarUnit::Month, noon), (1_751_328_000, 1_754_006_400)); // to 2025-08-01
        assert_eq!(utc(CalendarUnit::Year, noon), (1_735_689_600, 1_767_225_600));
        assert_eq!(utc(CalendarUnit::Year, -1), (-31_536_000, 0));
    }

    #[test]
    fn windows_tile_the_whole_of_time() {
        for unit in CalendarUnit::ALL {
            let calendar = Calendar::new(unit, Zone::UTC);
            for at in (i64::MIN..i64::MAX - (1 << 54)).step_by(1 << 54).chain([-1, 0, 1]) {
                let at = Timestamp::from_nanos(at);
                let (start, end) = calendar.window(at);
                assert!(start <= at && at < end, "{unit:?} at {at:?}");
                assert_eq!(calendar.window(start), (start, end), "{unit:?} at its start {start:?}");
                assert_eq!(calendar.window(end).0, end, "{unit:?} after {at:?}");
            }
            assert_eq!(calendar.window(Timestamp::MAX).1, Timestamp::MAX);
            assert_eq!(calendar.window(Timestamp::MIN).0, Timestamp::MIN);
        }
    }

    #[cfg(feature = "timezones")]
    fn hours(zone: &str, unit: CalendarUnit, at: &str) -> i64 {
        let at: Instant = at.parse().unwrap();
        let at = Timestamp::from_secs(at.as_second());
        let (start, end) = Calendar::new(unit, Zone::named(zone).unwrap()).window(at);
        assert!(start <= at && at < end);
        (end.as_nanos() - start.as_nanos()) / 3_600_000_000_000
    }

    #[cfg(feature = "timezones")]
    #[test]
    fn days_are_as_long_as_the_zone_makes_them() {
        assert_eq!(hours("Europe/Berlin", CalendarUnit::Day, "2025-03-30T12:00:00Z"), 23);
        assert_eq!(hours("Europe/Berlin", CalendarUnit::Day, "2025-10-26T12:00:00Z"), 25);
        assert_eq!(hours("Europe/Berlin", CalendarUnit::Day, "2025-07-01T12:00:00Z"), 24);
        assert_eq!(hours("Europe/Berlin", CalendarUnit::Week, "2025-03-28T12:00:00Z"), 7 * 24 - 1);
        assert_eq!(hours("America/New_York", CalendarUnit::Month, "2024-02-10T12:00:00Z"), 29 * 24);
        assert_eq!(hours("Asia/Kolkata", CalendarUnit::Year, "2024-02-10T12:00:00Z"), 366 * 24);
    }

    #[cfg(feature = "timezones")]
    #[test]
    fn windows_tile_time_across_changes_of_the_clock() {
        for zone in
            ["Europe/Berlin", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kathmandu", "Africa/Cairo"]
        {
            for unit in [CalendarUnit::Minute, CalendarUnit::Hour, CalendarUnit::Day, CalendarUnit::Week] {
                let calendar = Calendar::new(unit, Zone::named(zone).unwrap());
                let rules = TimeZone::get(zone).unwrap();
                let from: Instant = "2010-01-01T00:00:00Z".parse().unwrap();
                for change in rules.following(from).take(6) {
                    let change = change.timestamp().as_second() * 1_000_000_000;
                    for minutes in -100..100 {
                        let at = change + minutes * 60_000_000_000 - i64::from(minutes % 2 == 0);
                        let at = Timestamp::from_nanos(at);
                        let (start, end) = calendar.window(at);
                        assert!(start <= at && at < end, "{zone} {unit:?} {at:?}");
                        assert_eq!(
                            calendar.window(start),
                            (start, end),
                            "{zone} {unit:?} at the start {start:?}"
                        );
                        assert_eq!(calendar.window(end).0, end, "{zone} {unit:?} the next begins at {end:?}");
                    }
                }
            }
        }
    }
}
