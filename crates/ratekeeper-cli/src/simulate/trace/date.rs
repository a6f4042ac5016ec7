//! `10/Oct/2000:13:55:36 -0700`: the date of an access log, always 26 bytes.
//!
//! Lines that follow each other tell the same second or the same day, so both are remembered.

use ratekeeper::Timestamp;

use super::LineError;
use crate::when::{SECONDS_PER_DAY, days_from_civil, days_in_month};

/// How long a date is, without its brackets.
pub(super) const LEN: usize = 26;
/// Where the time of day begins.
const TIME: usize = 12;
/// Where the zone begins.
const ZONE: usize = 21;

/// Reads dates.
#[derive(Clone, Debug)]
pub(super) struct Dates {
    text: [u8; LEN],
    at: Timestamp,
    /// What midnight of the day in `text` is, in its zone, in seconds since the epoch.
    midnight: i64,
}

impl Default for Dates {
    fn default() -> Self {
        // Not a date, so nothing is taken for it.
        Dates { text: [0; LEN], at: Timestamp::EPOCH, midnight: 0 }
    }
}

impl Dates {
    #[inline]
    pub(super) fn read(&mut self, text: &[u8; LEN]) -> Result<Timestamp, LineError> {
        if *text == self.text {
            return Ok(self.at);
        }
        let same_day = text[..TIME] == self.text[..TIME] && text[ZONE..] == self.text[ZONE..];
        let midnight = if same_day { self.midnight } else { midnight(text).ok_or(LineError::Date)? };
        let second = time_of_day(text).ok_or(LineError::Date)?;
        let nanos = (midnight + second).checked_mul(1_000_000_000).ok_or(LineError::Range)?;
        *self = Dates { text: *text, at: Timestamp::from_nanos(nanos), midnight };
        Ok(self.at)
    }
}

fn midnight(text: &[u8; LEN]) -> Option<i64> {
    if text[2] != b'/' || text[6] != b'/' || text[11] != b':' || text[20] != b' ' {
        return None;
    }
    let (day, month, year) = (two(text, 0)?, month(&text[3..6])?, two(text, 7)? * 100 + two(text, 9)?);
    if day < 1 || day > days_in_month(year, month) {
        return None;
    }
    let sign = match text[ZONE] {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = (two(text, ZONE + 1)?, two(text, ZONE + 3)?);
    if minutes > 59 {
        return None;
    }
    Some(days_from_civil(year, month, day) * SECONDS_PER_DAY - sign * (hours * 3_600 + minutes * 60))
}

#[inline]
fn time_of_day(text: &[u8; LEN]) -> Option<i64> {
    let (hour, minute, second) = (two(text, TIME)?, two(text, TIME + 3)?, two(text, TIME + 6)?);
    let fits = text[TIME + 2] == b':' && text[TIME + 5] == b':' && text[TIME + 8] == b' ';
    // A leap second is the last of its minute.
    (fits && hour < 24 && minute < 60 && second <= 60).then(|| hour * 3_600 + minute * 60 + second.min(59))
}

#[inline]
fn two(text: &[u8; LEN], at: usize) -> Option<i64> {
    let (tens, ones) = (text[at].wrapping_sub(b'0'), text[at + 1].wrapping_sub(b'0'));
    (tens < 10 && ones < 10).then(|| i64::from(tens * 10 + ones))
}

fn month(name: &[u8]) -> Option<i64> {
    const NAMES: [&[u8; 3]; 12] =
        [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
    (1..).zip(NAMES).find(|(_, known)| name == *known).map(|(month, _)| month)
}
