//! The date of an access log, always 26 bytes: `10/Oct/2000:13:55:36 -0700`.
//!
//! Lines that follow each other tell the same second or the same minute, so both are remembered: the calendar is asked
//! once a minute of the trace, which is why its speed does not show.

use jiff::fmt::strtime::BrokenDownTime;
use ratekeeper::Timestamp;

use super::line_error::LineError;

/// How long a date is, without its brackets.
pub(super) const LEN: usize = 26;
/// Where the seconds begin, after the minute.
const SECONDS: usize = 18;
/// Where the blank before the zone is.
const ZONE: usize = 20;
/// What a date looks like: `strptime` would also accept fewer digits, and blanks.
const SHAPE: &[u8; LEN] = b"00/aaa/0000:00:00:00 +0000";

/// Reads dates, and remembers the last one.
#[derive(Clone, Debug)]
pub(super) struct DateReader {
    text: [u8; LEN],
    at: Timestamp,
    /// Seconds from the epoch to the start of the minute of `text`.
    minute: i64,
}

impl Default for DateReader {
    fn default() -> Self {
        // Not a date, so no date is taken for it.
        DateReader { text: [0; LEN], at: Timestamp::EPOCH, minute: 0 }
    }
}

impl DateReader {
    /// Returns the instant that a date tells. A leap second counts as the last second of its minute.
    #[inline]
    pub(super) fn read(&mut self, text: &[u8; LEN]) -> Result<Timestamp, LineError> {
        if *text == self.text {
            return Ok(self.at);
        }
        let same_minute = text[..SECONDS] == self.text[..SECONDS] && text[ZONE..] == self.text[ZONE..];
        let minute = if same_minute { self.minute } else { minute(text).ok_or(LineError::Date)? };
        let second = second(text).ok_or(LineError::Date)?;
        let nanos = (minute + second).checked_mul(1_000_000_000).ok_or(LineError::Range)?;
        *self = DateReader { text: *text, at: Timestamp::from_nanos(nanos), minute };
        Ok(self.at)
    }
}

/// Returns the seconds from the epoch to the start of the minute.
fn minute(text: &[u8; LEN]) -> Option<i64> {
    let fits = text.iter().zip(SHAPE).all(|(byte, shape)| match shape {
        b'0' => byte.is_ascii_digit(),
        b'a' => byte.is_ascii_alphabetic(),
        b'+' => b"+-".contains(byte),
        separator => byte == separator,
    });
    let date = BrokenDownTime::parse("%d/%b/%Y:%H:%M:%S %z", text).ok().filter(|_| fits)?;
    Some(date.to_timestamp().ok()?.as_second() - i64::from(date.second()?))
}

#[inline]
fn second(text: &[u8; LEN]) -> Option<i64> {
    let (tens, ones) = (text[SECONDS].wrapping_sub(b'0'), text[SECONDS + 1].wrapping_sub(b'0'));
    let second = (tens < 10 && ones < 10).then(|| i64::from(tens * 10 + ones))?;
    (second <= 60).then_some(second.min(59))
}
