//! The same formats read slowly, byte by byte, for the tests of the fast parser.

use ratekeeper::Timestamp;

use super::entry::{TraceEntry, TraceUnits};

/// What a line says, with the client as the key.
pub(super) fn parse(line: &[u8], combined: bool) -> Option<TraceEntry<'_>> {
    let mut rest = LineRest(line);
    let key = rest.until(b' ')?;
    let identity = rest.until(b' ')?;
    let user = rest.until(b'[')?;
    if key.is_empty() || identity.is_empty() || user.len() < 2 || !user.ends_with(b" ") {
        return None;
    }
    let at = date(rest.take(26)?)?;
    rest.literal(b"] ")?;
    rest.quoted()?;
    rest.literal(b" ")?;
    let status = rest.take(3)?;
    if !status.iter().all(u8::is_ascii_digit) {
        return None;
    }
    rest.literal(b" ")?;
    if rest.literal(b"-").is_none() {
        let mut digits = 0;
        while rest.0.first().is_some_and(u8::is_ascii_digit) {
            rest.take(1)?;
            digits += 1;
        }
        if digits == 0 {
            return None;
        }
    }
    if combined {
        for _ in 0..2 {
            rest.literal(b" ")?;
            rest.quoted()?;
        }
    }
    let ends = rest.0.is_empty() || rest.0[0] == b' ';
    ends.then_some(TraceEntry::new(at, key, 1, TraceUnits::default()))
}

fn date(text: &[u8]) -> Option<Timestamp> {
    let text = str::from_utf8(text).ok()?;
    let (day, time) = text.split_once(':')?;
    let [day, month, year]: [&str; 3] = day.split('/').collect::<Vec<_>>().try_into().ok()?;
    let (time, zone) = time.split_once(' ')?;
    let [hour, minute, second]: [&str; 3] = time.split(':').collect::<Vec<_>>().try_into().ok()?;
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months.iter().position(|known| known.eq_ignore_ascii_case(month))?;
    let (day, year) = (number(day, 2)?, number(year, 4)?);
    let (hour, minute, second) = (number(hour, 2)?, number(minute, 2)?, number(second, 2)?);
    if hour > 23 || minute > 59 || second > 60 || zone.len() != 5 {
        return None;
    }
    let leap = |year: i64| (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let lengths = [31, if leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    if day < 1 || day > lengths[month] {
        return None;
    }
    // Day by day from the epoch, or back to it.
    let mut days: i64 = lengths[..month].iter().sum::<i64>() + day - 1;
    let length = |year: i64| if leap(year) { 366 } else { 365 };
    days += (1970..year).map(length).sum::<i64>() - (year..1970).map(length).sum::<i64>();
    let sign = match zone.as_bytes()[0] {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = (number(zone.get(1..3)?, 2)?, number(zone.get(3..5)?, 2)?);
    // No zone is further away than a day and two hours.
    if hours > 25 || minutes > 59 {
        return None;
    }
    let seconds =
        days * 86_400 + hour * 3_600 + minute * 60 + second.min(59) - sign * (hours * 3_600 + minutes * 60);
    seconds.checked_mul(1_000_000_000).map(Timestamp::from_nanos)
}

fn number(text: &str, digits: usize) -> Option<i64> {
    (text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

struct LineRest<'a>(&'a [u8]);

impl<'a> LineRest<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn literal(&mut self, text: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(text)?;
        Some(())
    }

    /// Everything before a byte, which is passed over.
    fn until(&mut self, byte: u8) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|found| *found == byte)?;
        let taken = self.take(end);
        self.take(1)?;
        taken
    }

    fn quoted(&mut self) -> Option<()> {
        self.literal(b"\"")?;
        loop {
            match self.take(1)? {
                b"\"" => return Some(()),
                b"\\" => drop(self.take(1)?),
                _ => {}
            }
        }
    }
}
