//! Dates as header fields spell them: the three HTTP-date forms of RFC 9110, and RFC 3339.
//!
//! jiff has the calendar, and reads RFC 3339. HTTP-dates are taken apart here, because servers send what no crate for
//! them reads: other weekdays, `UTC`, lower case; and the two digits of a year are relative to the present one.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::fmt::temporal::Pieces;
use jiff::tz::TimeZone;

use super::mode::ParseMode;
use super::number::integer;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
/// What stands between the parts of a date.
const SEPARATORS: &[u8] = b" ,-";
/// The longest date there is: `Wednesday, 02 Jul 2025 12:01:30 GMT`, the first form with a whole weekday.
const MAX_LEN: usize = 35;
/// How many digits of a second jiff reads: nanoseconds.
const FRACTION_DIGITS: usize = 9;

/// Reads any of `Tue, 01 Jul 2025 12:01:30 GMT`, `Tuesday, 01-Jul-25 12:01:30 GMT` and `Tue Jul  1 12:01:30 2025`.
///
/// `now` settles the century of the second form: a year that seems more than 50 years ahead is past. Leniently,
/// `UTC` may stand for `GMT`, letters may be of any case, and the weekday need not be the right one.
pub(crate) fn http_date(text: &[u8], now: SystemTime, mode: ParseMode) -> Option<SystemTime> {
    if text.len() > MAX_LEN {
        return None;
    }
    let is_separator = |byte: &u8| SEPARATORS.contains(byte);
    let separators: Vec<u8> = text.iter().copied().filter(is_separator).collect();
    let parts: Vec<&[u8]> = text.split(is_separator).collect();
    let (weekday, day, month, year, time, zone) = match (&separators[..], &parts[..]) {
        (b",     ", [weekday, b"", day @ [_, _], month, year @ [_, _, _, _], time, zone]) => {
            (weekday, day, month, number(year)?, time, *zone)
        }
        (b", --  ", [weekday, b"", day @ [_, _], month, year @ [_, _], time, zone]) => {
            (weekday, day, month, this_century(number(year)?, now), time, *zone)
        }
        (b"     ", [weekday, month, b"", day @ [_], time, year @ [_, _, _, _]])
        | (b"    ", [weekday, month, day @ [_, _], time, year @ [_, _, _, _]]) => {
            (weekday, day, month, number(year)?, time, &b"GMT"[..])
        }
        _ => return None,
    };
    let spelled = |text: &[u8], word: &str| match mode {
        ParseMode::Strict => text == word.as_bytes(),
        ParseMode::Lenient => text.eq_ignore_ascii_case(word.as_bytes()),
    };
    let month = MONTHS.iter().position(|name| spelled(month, name))? + 1;
    let date = Date::new(year, month.try_into().ok()?, number(day)?).ok()?;
    let fits = match mode {
        ParseMode::Strict => {
            let name = WEEKDAYS[usize::try_from(date.weekday().to_monday_zero_offset()).ok()?];
            let is_long = separators == b", --  ";
            spelled(weekday, if is_long { name } else { &name[..3] }) && spelled(zone, "GMT")
        }
        ParseMode::Lenient => {
            WEEKDAYS.iter().any(|name| spelled(weekday, name) || spelled(weekday, &name[..3]))
                && (spelled(zone, "GMT") || spelled(zone, "UTC"))
        }
    };
    if fits { at(date, time) } else { None }
}

/// Reads RFC 3339, `2025-07-01T14:00:30.5+02:00`, and what ISO 8601 allows besides: no seconds (`2025-07-01T12:01Z`), a
/// blank for the `T`. Digits below a nanosecond are dropped. A time without a zone is no moment.
pub(crate) fn rfc3339(text: &[u8]) -> Option<SystemTime> {
    let text = nanoseconds(text);
    let pieces = Pieces::parse(&*text).ok()?;
    let (time, offset) = (pieces.time()?, pieces.to_numeric_offset()?);
    let moment = offset.to_timestamp(pieces.date().to_datetime(time));
    // As in `at`: the last hours of the year 9999 are beyond what jiff counts, and so are the first of the year -9999.
    let nearest = if pieces.date().year() > 0 { Timestamp::MAX } else { Timestamp::MIN };
    Some(moment.unwrap_or(nearest).into())
}

/// Returns the text without the digits of a second that are below a nanosecond: jiff reads no time that has them.
fn nanoseconds(text: &[u8]) -> Cow<'_, [u8]> {
    let Some(point) = text.iter().position(|&byte| byte == b'.') else { return Cow::Borrowed(text) };
    let fraction = &text[point + 1..];
    let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits <= FRACTION_DIGITS {
        return Cow::Borrowed(text);
    }
    Cow::Owned([&text[..=point], &fraction[..FRACTION_DIGITS], &fraction[digits..]].concat())
}

/// Returns the moment of a time, `HH:MM:SS`, on this date in UTC. A leap second is the first one of the next minute.
fn at(date: Date, time: &[u8]) -> Option<SystemTime> {
    let [hour @ .., b':', m1, m2, b':', s1, s2] = time else { return None };
    let [_, _] = hour else { return None };
    let second: i8 = number(&[*s1, *s2])?;
    let is_leap = second == 60;
    let time = DateTime::from(date).with().hour(number(hour)?).minute(number(&[*m1, *m2])?);
    let time = time.second(if is_leap { 59 } else { second }).build().ok()?;
    // The last hours of the year 9999, which some servers send for "never", are beyond what jiff counts.
    let moment = TimeZone::UTC.to_timestamp(time).unwrap_or(Timestamp::MAX);
    SystemTime::from(moment).checked_add(Duration::from_secs(is_leap.into()))
}

/// Returns the year meant by its last two digits: RFC 9110 §5.6.7.
fn this_century(two_digits: i16, now: SystemTime) -> i16 {
    let now = Timestamp::try_from(now).unwrap_or(Timestamp::MAX);
    let this_year = TimeZone::UTC.to_datetime(now).year();
    let year = this_year - this_year.rem_euclid(100) + two_digits;
    if year > this_year + 50 {
        year - 100
    } else if year <= this_year - 50 {
        year + 100
    } else {
        year
    }
}

/// Reads digits only.
fn number<T: TryFrom<u64>>(digits: &[u8]) -> Option<T> {
    integer(digits)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::UNIX_EPOCH;

    const NOON: i64 = 1_751_371_200; // 2025-07-01T12:00:00Z

    /// The moment that `text` must be read as, in seconds since the epoch.
    fn moment(seconds: i64) -> Option<SystemTime> {
        let distance = Duration::from_secs(seconds.unsigned_abs());
        if seconds < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) }
    }

    fn http(text: &str, mode: ParseMode) -> Option<SystemTime> {
        http_date(text.as_bytes(), moment(NOON).unwrap(), mode)
    }

    #[test]
    fn three_forms_of_one_moment() {
        for text in
            ["Tue, 01 Jul 2025 12:01:30 GMT", "Tuesday, 01-Jul-25 12:01:30 GMT", "Tue Jul  1 12:01:30 2025"]
        {
            assert_eq!(http(text, ParseMode::Strict), moment(NOON + 90), "{text}");
        }
        let leap = "Sat, 31 Dec 2016 23:59:60 GMT";
        assert_eq!(http(leap, ParseMode::Strict), http("Sun, 01 Jan 2017 00:00:00 GMT", ParseMode::Strict));
        assert!(http(leap, ParseMode::Strict).is_some());
        assert_eq!(http("Thu Jan 01 00:00:00 1970", ParseMode::Strict), moment(0));
        assert_eq!(http("Wed, 31 Dec 1969 23:59:59 GMT", ParseMode::Strict), moment(-1));
        let never = http("Fri, 31 Dec 9999 23:59:59 GMT", ParseMode::Strict);
        assert!(never >= http("Thu, 30 Dec 9999 00:00:00 GMT", ParseMode::Strict) && never.is_some());
    }

    #[test]
    fn lenient_only() {
        for text in [
            "Tue, 01 Jul 2025 12:01:30 UTC",
            "tue, 01 jul 2025 12:01:30 gmt",
            "Wed, 01 Jul 2025 12:01:30 GMT",
            "Tuesday, 01 Jul 2025 12:01:30 GMT",
        ] {
            assert_eq!(http(text, ParseMode::Lenient), moment(NOON + 90), "{text}");
            assert_eq!(http(text, ParseMode::Strict), None, "{text}");
        }
    }

    /// The longest of them were taken for too long to be a date.
    #[test]
    fn every_whole_weekday_before_the_first_form() {
        for weekday in WEEKDAYS {
            let text = format!("{weekday}, 01 Jul 2025 12:01:30 GMT");
            assert_eq!(http(&text, ParseMode::Lenient), moment(NOON + 90), "{text}");
        }
    }

    #[test]
    fn no_such_date() {
        for text in [
            "",
            "Tue",
            "Tue, 31 Jun 2025 12:00:00 GMT",
            "Sat, 29 Feb 2025 12:00:00 GMT",
            "Tue, 00 Jul 2025 12:00:00 GMT",
            "Tue, 01 Jul 2025 24:00:00 GMT",
            "Tue, 01 Jul 2025 12:60:00 GMT",
            "Tue, 01 Jul 2025 12:00:61 GMT",
            "Tue, 01 Jul 2025 12:00:00 PST",
            "Tue, 01 Jul 2025 12:00:00 GMT trailing",
            "Tue, 1 Jul 2025 12:00:00 GMT",
            "Someday, 01 Jul 2025 12:00:00 GMT",
            "Tue, 01 Jul 2025 12:00:00",
            "Tue Jul 1 12:00:00 2025",
        ] {
            assert_eq!(http(text, ParseMode::Lenient), None, "{text}");
        }
    }

    #[test]
    fn two_digit_years_are_within_fifty_years_ahead() {
        let in_year = |year, two| {
            let june = Date::new(year, 6, 1).unwrap().to_zoned(TimeZone::UTC).unwrap();
            this_century(two, june.timestamp().into())
        };
        assert_eq!(in_year(2025, 75), 2075);
        assert_eq!(in_year(2025, 76), 1976);
        assert_eq!(in_year(2025, 25), 2025);
        assert_eq!(in_year(2099, 1), 2101);
        assert_eq!(in_year(1960, 10), 2010);
    }

    #[test]
    fn rfc3339_offsets_and_fractions() {
        let later = |nanos| moment(NOON + 30).map(|moment| moment + Duration::from_nanos(nanos));
        for (text, expected) in [
            ("2025-07-01T12:00:30Z", later(0)),
            ("2025-07-01t12:00:30z", later(0)),
            ("2025-07-01T14:00:30+02:00", later(0)),
            ("2025-07-01T06:30:30-05:30", later(0)),
            ("2025-07-01T12:00:30.25Z", later(250_000_000)),
            ("2025-07-01T12:00:30.123456789Z", later(123_456_789)),
            ("2025-07-01T12:00:30.1234567891Z", later(123_456_789)),
            ("2025-07-01T14:00:30.000000000000+02:00", later(0)),
            ("2025-07-01T12:00:30.1234567891", None),
            ("2025-07-01T12:00:30.1234567891xZ", None),
            ("2025-07-01T12:00:30.Z", None),
            ("2025-07-01T12:00:30", None),
            ("2025-07-01T12:00:30+2", None),
            ("2025-07-01T12:00:30+26:00", None),
            ("2025-07-01T12:00:30ZZ", None),
            ("2025-13-01T12:00:30Z", None),
            ("2025-02-29T12:00:30Z", None),
            ("2025-07-01 12:00:30Z", later(0)),
            ("2025-07-01T12:01Z", moment(NOON + 60)),
            ("2025-07-01T14:01+02:00", moment(NOON + 60)),
            ("2025-07-01T12:01", None),
            ("2025-07-01T12:01:Z", None),
            ("2025-07-01T12:01.5Z", None),
            ("2025-07-01T12", None),
            ("2025-07-01Z", None),
        ] {
            assert_eq!(rfc3339(text.as_bytes()), expected, "{text}");
        }
    }

    /// What servers send for "never" was no moment: it is beyond what jiff counts.
    #[test]
    fn the_end_of_the_year_9999() {
        let last_days = http("Thu, 30 Dec 9999 00:00:00 GMT", ParseMode::Strict);
        for never in
            ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59.9999999Z", "9999-12-31T23:59:59.9999999999Z"]
        {
            let read = rfc3339(never.as_bytes());
            assert!(read.is_some() && read >= last_days, "{never}: {read:?}");
        }
        for long_ago in ["0000-01-01T00:00:00+14:00", "-009999-01-01T00:00:00+14:00"] {
            assert!(rfc3339(long_ago.as_bytes()).is_some_and(|moment| moment < UNIX_EPOCH), "{long_ago}");
        }
    }

    proptest! {
        #![proptest_config(test_support::cases::config(2_000))]

        /// Another implementation writes the date, ours reads it, from 1970 to the last days of 9999.
        #[test]
        fn agrees_with_httpdate(seconds in 0i64..253_402_200_000) {
            let text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds.unsigned_abs()));
            prop_assert_eq!(http(&text, ParseMode::Strict), moment(seconds));
        }

        /// Both read all three forms of one day alike.
        #[test]
        fn agrees_with_httpdate_on_every_form(seconds in 1_000_000_000i64..3_000_000_000) {
            let time = UNIX_EPOCH + Duration::from_secs(seconds.unsigned_abs());
            let imf = httpdate::fmt_http_date(time);
            let (day, month, year, clock) = (&imf[5..7], &imf[8..11], &imf[12..16], &imf[17..25]);
            let weekday = WEEKDAYS.iter().find(|name| name.starts_with(&imf[..3])).unwrap();
            let padded = day.strip_prefix('0').map_or(day.to_owned(), |digit| format!(" {digit}"));
            for form in [
                format!("{weekday}, {day}-{month}-{} {clock} GMT", &year[2..]),
                format!("{} {month} {padded} {clock} {year}", &imf[..3]),
            ] {
                prop_assert_eq!(httpdate::parse_http_date(&form).unwrap(), time);
                prop_assert_eq!(http(&form, ParseMode::Strict), moment(seconds), "{}", form);
            }
        }

        #[test]
        fn any_bytes(text in proptest::collection::vec(any::<u8>(), 0..64), now in any::<i64>()) {
            for mode in [ParseMode::Lenient, ParseMode::Strict] {
                if let Some(now) = moment(now) {
                    http_date(&text, now, mode);
                }
            }
            rfc3339(&text);
        }
    }
}
