//! Calendar windows in UTC, by walking the years and months one by one.

use crate::{Calendar, CalendarUnit, Timestamp, Zone};

const DAY: i128 = 86_400_000_000_000;

/// Returns the window around an instant. Named zones are beyond a naive model: there it takes the engine's word.
pub(super) fn window(calendar: Calendar, at: i128) -> (i128, i128) {
    if calendar.zone() != Zone::UTC {
        let nearest = i64::try_from(at).unwrap_or(i64::MAX);
        let (start, end) = calendar.window(Timestamp::from_nanos(nearest));
        return (start.as_nanos().into(), end.as_nanos().into());
    }
    let grid = |length: i128, first: i128| {
        let start = (at - first).div_euclid(length) * length + first;
        (start, start + length)
    };
    match calendar.unit() {
        CalendarUnit::Minute => grid(DAY / 1_440, 0),
        CalendarUnit::Hour => grid(DAY / 24, 0),
        CalendarUnit::Day => grid(DAY, 0),
        // 1970-01-05 was a Monday.
        CalendarUnit::Week => grid(7 * DAY, 4 * DAY),
        CalendarUnit::Month => month(at),
        CalendarUnit::Year => (year(at).1, year(at).2),
    }
}

fn is_leap(year: i128) -> bool {
    year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0)
}

fn length(year: i128) -> i128 {
    if is_leap(year) { 366 * DAY } else { 365 * DAY }
}

/// Returns the year around an instant, its first one and the next year's.
fn year(at: i128) -> (i128, i128, i128) {
    let (mut year, mut start) = (1970, 0);
    while start > at {
        year -= 1;
        start -= length(year);
    }
    while start + length(year) <= at {
        start += length(year);
        year += 1;
    }
    (year, start, start + length(year))
}

fn month(at: i128) -> (i128, i128) {
    let (year, mut start, _) = year(at);
    let february = if is_leap(year) { 29 } else { 28 };
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        let end = start + days * DAY;
        if at < end {
            return (start, end);
        }
        start = end;
    }
    unreachable!("twelve months make a year")
}
