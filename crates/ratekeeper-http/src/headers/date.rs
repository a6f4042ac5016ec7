//! Dates as header fields spell them: the three HTTP-date forms of RFC 9110, and ISO 8601.

use super::Mode;
use super::moment::{Day, Moment, WEEKDAYS};
use super::number::billionths;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Any of `Tue, 01 Jul 2025 12:01:30 GMT`, `Tuesday, 01-Jul-25 12:01:30 GMT` and `Tue Jul  1 12:01:30 2025`.
///
/// `now` settles the century of the second form: a year that seems more than 50 years ahead is past. Leniently,
/// `UTC` may stand for `GMT`, letters may be of any case, and the weekday need not be the right one.
pub(crate) fn http_date(text: &[u8], now: Moment, mode: Mode) -> Option<Moment> {
    let mut scan = Scan { rest: text, mode };
    let named = scan.letters();
    let (day, seconds, long) = if scan.literal(b", ") {
        let day = scan.digits(2)?;
        let long = match scan.byte()? {
            b' ' => false,
            b'-' => true,
            _ => return None,
        };
        let month = scan.month()?;
        let year = if long {
            scan.expect(b"-")?;
            this_century(scan.digits(2)?, now)
        } else {
            scan.expect(b" ")?;
            scan.digits(4)?
        };
        scan.expect(b" ")?;
        let seconds = scan.clock()?;
        scan.expect(b" ")?;
        scan.zone()?;
        (Day::new(year, month, day)?, seconds, long)
    } else {
        scan.expect(b" ")?;
        let month = scan.month()?;
        scan.expect(b" ")?;
        let day = if scan.literal(b" ") { scan.digits(1)? } else { scan.digits(2)? };
        scan.expect(b" ")?;
        let seconds = scan.clock()?;
        scan.expect(b" ")?;
        (Day::new(scan.digits(4)?, month, day)?, seconds, false)
    };
    if !scan.rest.is_empty() || !weekday_fits(named, day, long, mode) {
        return None;
    }
    Some(day.at(seconds))
}

fn weekday_fits(named: &[u8], day: Day, long: bool, mode: Mode) -> bool {
    let spelled = |name: &'static str| if long { name } else { &name[..3] };
    match mode {
        Mode::Strict => spelled(day.weekday()).as_bytes() == named,
        Mode::Lenient => WEEKDAYS.iter().any(|name| {
            named.eq_ignore_ascii_case(name.as_bytes()) || named.eq_ignore_ascii_case(&name.as_bytes()[..3])
        }),
    }
}

/// The year meant by its last two digits: RFC 9110 §5.6.7.
fn this_century(two_digits: i64, now: Moment) -> i64 {
    let this_year = now.year();
    let year = this_year - this_year.rem_euclid(100) + two_digits;
    if year > this_year + 50 {
        year - 100
    } else if year <= this_year - 50 {
        year + 100
    } else {
        year
    }
}

/// RFC 3339, `2025-07-01T14:00:30.5+02:00`, and what ISO 8601 allows besides: no seconds (`2025-07-01T12:01Z`), a blank
/// for the `T`. A time without a zone is no moment.
pub(crate) fn iso8601(text: &[u8]) -> Option<Moment> {
    let mut scan = Scan { rest: text, mode: Mode::Lenient };
    let year = scan.digits(4)?;
    scan.expect(b"-")?;
    let month = scan.digits(2)?;
    scan.expect(b"-")?;
    let day = Day::new(year, month, scan.digits(2)?)?;
    let (b'T' | b't' | b' ') = scan.byte()? else { return None };
    let mut seconds = scan.hours_and_minutes()?;
    let mut nanos = 0;
    if scan.literal(b":") {
        seconds += scan.seconds()?;
        nanos = if scan.literal(b".") { scan.fraction()? } else { 0 };
    }
    let east = match scan.byte()? {
        b'Z' | b'z' => 0,
        b'+' => scan.hours_and_minutes()?,
        b'-' => -scan.hours_and_minutes()?,
        _ => return None,
    };
    scan.rest.is_empty().then(|| day.at(seconds - east).plus_nanos(nanos))
}

/// What is left to read.
struct Scan<'a> {
    rest: &'a [u8],
    mode: Mode,
}

impl<'a> Scan<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn literal(&mut self, literal: &[u8]) -> bool {
        match self.rest.strip_prefix(literal) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, literal: &[u8]) -> Option<()> {
        self.literal(literal).then_some(())
    }

    fn take_while(&mut self, wanted: fn(&u8) -> bool) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(self.rest.iter().take_while(|b| wanted(b)).count());
        self.rest = rest;
        taken
    }

    fn letters(&mut self) -> &'a [u8] {
        self.take_while(u8::is_ascii_alphabetic)
    }

    /// Exactly `count` digits (at most four).
    fn digits(&mut self, count: usize) -> Option<i64> {
        let (digits, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        digits.iter().try_fold(0, |number, b| b.is_ascii_digit().then(|| number * 10 + i64::from(b - b'0')))
    }

    /// The digits after a point, in nanoseconds.
    fn fraction(&mut self) -> Option<u32> {
        billionths(self.take_while(u8::is_ascii_digit))
    }

    fn month(&mut self) -> Option<i64> {
        let spelled = self.letters();
        let index = MONTHS.iter().position(|month| match self.mode {
            Mode::Strict => month.as_bytes() == spelled,
            Mode::Lenient => month.as_bytes().eq_ignore_ascii_case(spelled),
        })?;
        i64::try_from(index + 1).ok()
    }

    /// `HH:MM:SS` in seconds.
    fn clock(&mut self) -> Option<i64> {
        let minutes = self.hours_and_minutes()?;
        self.expect(b":")?;
        Some(minutes + self.seconds()?)
    }

    /// `SS`; a leap second is the first one of the next minute.
    fn seconds(&mut self) -> Option<i64> {
        self.digits(2).filter(|seconds| *seconds <= 60)
    }

    /// `HH:MM` in seconds.
    fn hours_and_minutes(&mut self) -> Option<i64> {
        let hours = self.digits(2)?;
        self.expect(b":")?;
        let minutes = self.digits(2)?;
        (hours < 24 && minutes < 60).then_some(hours * 3600 + minutes * 60)
    }

    fn zone(&mut self) -> Option<()> {
        let zone = self.letters();
        let known = match self.mode {
            Mode::Strict => zone == b"GMT",
            Mode::Lenient => zone.eq_ignore_ascii_case(b"GMT") || zone.eq_ignore_ascii_case(b"UTC"),
        };
        known.then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::{Duration, UNIX_EPOCH};

    const NOON: i64 = 1_751_371_200; // 2025-07-01T12:00:00Z

    /// The moment that `text` must be read as, in seconds since the epoch.
    fn at(seconds: i64) -> Option<Moment> {
        Some(Moment::from_seconds(seconds))
    }

    fn http(text: &str, mode: Mode) -> Option<Moment> {
        http_date(text.as_bytes(), Moment::from_seconds(NOON), mode)
    }

    #[test]
    fn three_forms_of_one_moment() {
        for text in
            ["Tue, 01 Jul 2025 12:01:30 GMT", "Tuesday, 01-Jul-25 12:01:30 GMT", "Tue Jul  1 12:01:30 2025"]
        {
            assert_eq!(http(text, Mode::Strict), at(NOON + 90), "{text}");
        }
        let leap = "Sat, 31 Dec 2016 23:59:60 GMT";
        assert_eq!(http(leap, Mode::Strict), http("Sun, 01 Jan 2017 00:00:00 GMT", Mode::Strict));
        assert!(http(leap, Mode::Strict).is_some());
        assert_eq!(http("Thu Jan 01 00:00:00 1970", Mode::Strict), at(0));
        assert_eq!(http("Wed, 31 Dec 1969 23:59:59 GMT", Mode::Strict), at(-1));
    }

    #[test]
    fn lenient_only() {
        for text in [
            "Tue, 01 Jul 2025 12:01:30 UTC",
            "tue, 01 jul 2025 12:01:30 gmt",
            "Wed, 01 Jul 2025 12:01:30 GMT",
            "Tuesday, 01 Jul 2025 12:01:30 GMT",
        ] {
            assert_eq!(http(text, Mode::Lenient), at(NOON + 90), "{text}");
            assert_eq!(http(text, Mode::Strict), None, "{text}");
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
            assert_eq!(http(text, Mode::Lenient), None, "{text}");
        }
    }

    #[test]
    fn two_digit_years_are_within_fifty_years_ahead() {
        let in_year = |now: i64, two| this_century(two, Day::new(now, 6, 1).unwrap().at(0));
        assert_eq!(in_year(2025, 75), 2075);
        assert_eq!(in_year(2025, 76), 1976);
        assert_eq!(in_year(2025, 25), 2025);
        assert_eq!(in_year(2099, 1), 2101);
        assert_eq!(in_year(1960, 10), 2010);
    }

    #[test]
    fn iso8601_offsets_and_fractions() {
        let later = |nanos| at(NOON + 30).map(|moment| moment.plus_nanos(nanos));
        for (text, expected) in [
            ("2025-07-01T12:00:30Z", later(0)),
            ("2025-07-01t12:00:30z", later(0)),
            ("2025-07-01T14:00:30+02:00", later(0)),
            ("2025-07-01T06:30:30-05:30", later(0)),
            ("2025-07-01T12:00:30.25Z", later(250_000_000)),
            ("2025-07-01T12:00:30.1234567891Z", later(123_456_789)),
            ("2025-07-01T12:00:30.Z", None),
            ("2025-07-01T12:00:30", None),
            ("2025-07-01T12:00:30+2", None),
            ("2025-07-01T12:00:30+24:00", None),
            ("2025-07-01T12:00:30ZZ", None),
            ("2025-13-01T12:00:30Z", None),
            ("2025-02-29T12:00:30Z", None),
            ("2025-07-01 12:00:30Z", later(0)),
            ("2025-07-01T12:01Z", at(NOON + 60)),
            ("2025-07-01T14:01+02:00", at(NOON + 60)),
            ("2025-07-01T12:01", None),
            ("2025-07-01T12:01:Z", None),
            ("2025-07-01T12:01.5Z", None),
            ("2025-07-01T12Z", None),
            ("2025-07-01Z", None),
        ] {
            assert_eq!(iso8601(text.as_bytes()), expected, "{text}");
        }
    }

    proptest! {
        /// Another implementation writes the date, ours reads it, from 1970 to 9999.
        #[test]
        fn agrees_with_httpdate(seconds in 0i64..253_402_300_800) {
            let text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds.unsigned_abs()));
            prop_assert_eq!(http(&text, Mode::Strict), at(seconds));
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
                prop_assert_eq!(http(&form, Mode::Strict), at(seconds), "{}", form);
            }
        }

        #[test]
        fn any_bytes(text in proptest::collection::vec(any::<u8>(), 0..64), now in any::<i64>()) {
            for mode in [Mode::Lenient, Mode::Strict] {
                http_date(&text, Moment::from_seconds(now), mode);
            }
            iso8601(&text);
        }
    }
}
