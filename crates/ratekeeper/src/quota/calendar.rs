//! Calendar windows: the minute, hour, day, week, month or year around an instant, in a time zone.

use std::fmt;

use super::error::QuotaError;
use crate::{Nanos, Timestamp};

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400 * SECOND;
/// 1970-01-01 was a Thursday: the Monday before it, in days.
const FIRST_MONDAY: i64 = -3;

/// A unit of the calendar. A week begins on Monday.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CalendarUnit {
    /// From second 0.
    Minute,
    /// From minute 0.
    Hour,
    /// From midnight: 23 or 25 hours when the zone's clocks change.
    Day,
    /// From midnight before Monday.
    Week,
    /// From midnight before the 1st.
    Month,
    /// From midnight before 1 January.
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

    /// The unit's length, taking a month for 30 days and a year for 365.
    pub const fn nominal(self) -> Nanos {
        let secs = match self {
            CalendarUnit::Minute => 60,
            CalendarUnit::Hour => 3_600,
            CalendarUnit::Day => 86_400,
            CalendarUnit::Week => 7 * 86_400,
            CalendarUnit::Month => 30 * 86_400,
            CalendarUnit::Year => 365 * 86_400,
        };
        Nanos::from_secs(secs)
    }

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

    /// `month`, `years`: the units that no number of nanoseconds can stand for.
    pub(crate) fn of_varying_length(word: &str) -> Option<Self> {
        let word = word.strip_suffix('s').unwrap_or(word);
        Self::ALL.into_iter().find(|unit| unit.varies() && unit.word() == word)
    }

    /// The unit that is just so long.
    pub(crate) fn of_length(length: Nanos) -> Option<Self> {
        Self::of_nominal(length).filter(|unit| !unit.varies())
    }

    /// The unit that is [taken](CalendarUnit::nominal) for so long.
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
    /// The `unit` as people in `zone` see it.
    pub const fn new(unit: CalendarUnit, zone: Zone) -> Self {
        Calendar { unit, zone }
    }

    /// The unit.
    pub const fn unit(&self) -> CalendarUnit {
        self.unit
    }

    /// The zone.
    pub const fn zone(&self) -> Zone {
        self.zone
    }

    /// The window around `at`: its first instant, and the first instant after it. O(1), however long ago the
    /// last window was. At the ends of time windows are cut off rather than wrapped.
    pub fn window(&self, at: Timestamp) -> (Timestamp, Timestamp) {
        #[cfg(feature = "timezones")]
        if let Some(zone) = self.zone.0 {
            return zoned::window(self.unit, &zone.rules, at);
        }
        let (start, end) = utc_window(self.unit, at.as_nanos().into());
        (clamp(start), clamp(end))
    }
}

fn clamp(nanos: i128) -> Timestamp {
    let bounds = i128::from(i64::MIN)..=i128::from(i64::MAX);
    let nanos = nanos.clamp(*bounds.start(), *bounds.end());
    i64::try_from(nanos).map_or(Timestamp::MAX, Timestamp::from_nanos)
}

fn utc_window(unit: CalendarUnit, at: i128) -> (i128, i128) {
    let day = i128::from(DAY);
    let grid = |length: i128, offset: i128| {
        let start = (at - offset).div_euclid(length) * length + offset;
        (start, start + length)
    };
    match unit {
        CalendarUnit::Minute => grid(60 * i128::from(SECOND), 0),
        CalendarUnit::Hour => grid(3_600 * i128::from(SECOND), 0),
        CalendarUnit::Day => grid(day, 0),
        CalendarUnit::Week => grid(7 * day, i128::from(FIRST_MONDAY) * day),
        CalendarUnit::Month => {
            let (year, month) = civil(at.div_euclid(day));
            let next = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
            (first_of(year, month) * day, first_of(next.0, next.1) * day)
        }
        CalendarUnit::Year => {
            let (year, _) = civil(at.div_euclid(day));
            (first_of(year, 1) * day, first_of(year + 1, 1) * day)
        }
    }
}

/// Days from the epoch to the first of a month of the Gregorian calendar. Years are counted from March, so that
/// the leap day is a year's last and the months before it follow a fixed pattern of 30 and 31 days.
fn first_of(year: i128, month: i128) -> i128 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days_before_month = (153 * month + 2) / 5;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // 719468 days lie between 0000-03-01 and 1970-01-01.
    365 * year + leap_days + days_before_month - 719_468
}

/// The year and month that a day since the epoch lies in.
fn civil(day: i128) -> (i128, i128) {
    // The mean year is 365.2425 days, so the guess is off by one at most.
    let mut year = 1970 + (day * 10_000).div_euclid(3_652_425);
    while first_of(year, 1) > day {
        year -= 1;
    }
    while first_of(year + 1, 1) <= day {
        year += 1;
    }
    let month = (2..=12).take_while(|month| first_of(year, *month) <= day).last().unwrap_or(1);
    (year, month)
}

/// A time zone. UTC is always there; named zones need the feature `timezones`.
///
/// Copied freely: each named zone is loaded once and kept for the life of the process, and there are only as
/// many as the time zone database knows.
#[derive(Clone, Copy)]
pub struct Zone(#[cfg(feature = "timezones")] Option<&'static zoned::Named>);

impl Zone {
    /// Coordinated universal time.
    #[cfg(feature = "timezones")]
    pub const UTC: Zone = Zone(None);
    /// Coordinated universal time.
    #[cfg(not(feature = "timezones"))]
    pub const UTC: Zone = Zone();

    /// The zone of this name in the IANA time zone database, such as `Europe/Berlin`.
    pub fn named(name: &str) -> Result<Self, QuotaError> {
        if name.eq_ignore_ascii_case("UTC") {
            return Ok(Zone::UTC);
        }
        #[cfg(feature = "timezones")]
        return zoned::named(name).map(|zone| Zone(Some(zone)));
        #[cfg(not(feature = "timezones"))]
        Err(QuotaError::syntax(
            "zone",
            name,
            "only UTC is built in: enable the feature `timezones` for the others",
        ))
    }

    /// The zone's name.
    pub fn name(&self) -> &str {
        #[cfg(feature = "timezones")]
        if let Some(zone) = self.0 {
            return zone.name;
        }
        "UTC"
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Zone {}

impl std::hash::Hash for Zone {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zone({})", self.name())
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(feature = "timezones")]
#[path = "calendar_zoned.rs"]
mod zoned;

#[cfg(test)]
mod tests {
    use super::*;

    fn utc(unit: CalendarUnit, secs: i64) -> (i64, i64) {
        let (start, end) = Calendar::new(unit, Zone::UTC).window(Timestamp::from_secs(secs));
        (start.as_nanos() / SECOND, end.as_nanos() / SECOND)
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
}
