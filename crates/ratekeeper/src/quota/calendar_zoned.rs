//! Calendar windows in named time zones, by the rules of the IANA database.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp as Instant};

use super::super::error::QuotaError;
use super::{CalendarUnit, clamp};
use crate::Timestamp;

/// A zone that was found in the database.
pub(super) struct Named {
    pub(super) name: &'static str,
    pub(super) rules: TimeZone,
}

/// Looks the zone up once per process and name. Only names that the database knows are kept, so what is leaked
/// is bounded by the size of the database.
pub(super) fn named(name: &str) -> Result<&'static Named, QuotaError> {
    static KNOWN: OnceLock<Mutex<HashMap<String, &'static Named>>> = OnceLock::new();
    let remedy = "a zone is a name of the IANA time zone database, such as `Europe/Berlin`";
    let rules = TimeZone::get(name).map_err(|_| QuotaError::syntax("zone", name, remedy))?;
    let canonical = rules.iana_name().unwrap_or(name).to_string();
    let mut known = KNOWN.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let zone = known.entry(canonical).or_insert_with_key(|name| {
        let name: &'static str = Box::leak(name.clone().into_boxed_str());
        Box::leak(Box::new(Named { name, rules }))
    });
    Ok(*zone)
}

/// The window around `at`, in instants: what people call a day may be 23 or 25 hours long.
pub(super) fn window(unit: CalendarUnit, rules: &TimeZone, at: Timestamp) -> (Timestamp, Timestamp) {
    // Every i64 of nanoseconds lies well within the years that the library knows.
    let instant = Instant::from_nanosecond(at.as_nanos().into()).unwrap_or(Instant::UNIX_EPOCH);
    match unit {
        CalendarUnit::Minute | CalendarUnit::Hour => clock_window(unit, rules, instant),
        CalendarUnit::Day | CalendarUnit::Week | CalendarUnit::Month | CalendarUnit::Year => {
            date_window(unit, rules, instant)
        }
    }
}

/// Minutes and hours of the local clock. A change of the zone's offset within one ends it: the windows tile time.
fn clock_window(unit: CalendarUnit, rules: &TimeZone, instant: Instant) -> (Timestamp, Timestamp) {
    let length = i128::from(unit.nominal().as_nanos());
    let offset = rules.to_offset(instant);
    let shift = i128::from(offset.seconds()) * 1_000_000_000;
    let mut start = (instant.as_nanosecond() + shift).div_euclid(length) * length - shift;
    let mut end = start + length;
    if let Some(change) = rules.preceding(instant).next().filter(|change| change.offset() == offset) {
        start = start.max(change.timestamp().as_nanosecond());
    }
    // `preceding` looks strictly before: an offset that begins at this very instant begins a window.
    if let Ok(before) = instant.checked_sub(Span::new().nanoseconds(1))
        && rules.to_offset(before) != offset
    {
        start = instant.as_nanosecond();
    }
    if let Some(change) = rules.following(instant).next().filter(|change| change.offset() != offset) {
        end = end.min(change.timestamp().as_nanosecond());
    }
    (clamp(start), clamp(end))
}

fn date_window(unit: CalendarUnit, rules: &TimeZone, instant: Instant) -> (Timestamp, Timestamp) {
    let date = rules.to_datetime(instant).date();
    let (first, next) = match unit {
        CalendarUnit::Week => {
            let first = date.saturating_sub(Span::new().days(date.weekday().to_monday_zero_offset()));
            (first, first.saturating_add(Span::new().days(7)))
        }
        CalendarUnit::Month => {
            (date.first_of_month(), date.last_of_month().saturating_add(Span::new().days(1)))
        }
        CalendarUnit::Year => (date.first_of_year(), date.last_of_year().saturating_add(Span::new().days(1))),
        _ => (date, date.saturating_add(Span::new().days(1))),
    };
    (midnight(rules, first), midnight(rules, next))
}

/// The first instant of a date: where clocks skip midnight, the first that exists.
fn midnight(rules: &TimeZone, date: Date) -> Timestamp {
    match rules.to_ambiguous_zoned(date.at(0, 0, 0, 0)).compatible() {
        Ok(zoned) => clamp(zoned.timestamp().as_nanosecond()),
        Err(_) if date.year() > 0 => Timestamp::MAX,
        Err(_) => Timestamp::MIN,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Calendar, Zone};
    use super::*;

    fn hours(zone: &str, unit: CalendarUnit, at: &str) -> i64 {
        let at: Instant = at.parse().unwrap();
        let at = clamp(at.as_nanosecond());
        let (start, end) = Calendar::new(unit, Zone::named(zone).unwrap()).window(at);
        assert!(start <= at && at < end);
        (end.as_nanos() - start.as_nanos()) / 3_600_000_000_000
    }

    #[test]
    fn days_are_as_long_as_the_zone_makes_them() {
        assert_eq!(hours("Europe/Berlin", CalendarUnit::Day, "2025-03-30T12:00:00Z"), 23);
        assert_eq!(hours("Europe/Berlin", CalendarUnit::Day, "2025-10-26T12:00:00Z"), 25);
        assert_eq!(hours("Europe/Berlin", CalendarUnit::Day, "2025-07-01T12:00:00Z"), 24);
        assert_eq!(hours("Europe/Berlin", CalendarUnit::Week, "2025-03-28T12:00:00Z"), 7 * 24 - 1);
        assert_eq!(hours("America/New_York", CalendarUnit::Month, "2024-02-10T12:00:00Z"), 29 * 24);
        assert_eq!(hours("Asia/Kolkata", CalendarUnit::Year, "2024-02-10T12:00:00Z"), 366 * 24);
    }

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
                    let change = change.timestamp().as_nanosecond();
                    for minutes in -100..100 {
                        let at = clamp(change + minutes * 60_000_000_000 - i128::from(minutes % 2 == 0));
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

    #[test]
    fn a_zone_is_loaded_once_whatever_its_spelling() {
        let (one, other) = (named("Europe/Berlin").unwrap(), named("europe/berlin").unwrap());
        assert!(std::ptr::eq(one, other));
        assert!(Zone::named("Mars/Olympus").unwrap_err().to_string().contains("Europe/Berlin"));
    }
}
