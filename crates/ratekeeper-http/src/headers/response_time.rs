//! What "now" is for one response, and how far from then a field points.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use http::header::DATE;

use super::date::{http_date, rfc3339};
use super::mode::ParseMode;
use super::number::{decimal, duration, integer, trim};

/// Resets below this are seconds from now: 31 years, which nobody waits.
const EPOCH_SECONDS_FROM: Duration = Duration::from_secs(1_000_000_000);
/// Resets above this are epoch milliseconds; as seconds it would be the year 5138.
const EPOCH_SECONDS_TO: Duration = Duration::from_secs(100_000_000_000);

/// The moment a response was made: its own `Date`, so that a wrong local clock does not matter, or else the
/// local clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseTime {
    made: SystemTime,
    pub(crate) mode: ParseMode,
}

impl ResponseTime {
    pub(crate) fn of(headers: &HeaderMap, now: SystemTime, mode: ParseMode) -> Self {
        let mut dates = headers.get_all(DATE).iter();
        let made = dates.find_map(|date| http_date(trim(date.as_bytes()), now, mode)).unwrap_or(now);
        ResponseTime { made, mode }
    }

    /// Returns the time from the response to `moment`; zero if that is past.
    fn until(self, moment: SystemTime) -> Duration {
        moment.duration_since(self.made).unwrap_or_default()
    }

    fn until_epoch(self, since_epoch: Duration) -> Duration {
        // Later than the system can count is later than anybody waits.
        UNIX_EPOCH.checked_add(since_epoch).map_or(Duration::MAX, |moment| self.until(moment))
    }

    /// Reads an HTTP-date as the time until then.
    pub(crate) fn until_http_date(self, text: &[u8]) -> Option<Duration> {
        http_date(text, self.made, self.mode).map(|moment| self.until(moment))
    }

    /// Returns what a number in a reset field means: seconds from now, epoch seconds or epoch milliseconds, by its
    /// size.
    pub(crate) fn until_number(self, number: Duration) -> Duration {
        if number < EPOCH_SECONDS_FROM {
            number
        } else if number <= EPOCH_SECONDS_TO {
            self.until_epoch(number)
        } else {
            self.until_epoch(number / 1000)
        }
    }

    /// Reads a reset field in any spelling seen in the wild. No standard governs these, so the mode does not matter.
    pub(crate) fn until_reset(self, text: &[u8]) -> Option<Duration> {
        decimal(text)
            .map(|number| self.until_number(number))
            .or_else(|| duration(text))
            .or_else(|| rfc3339(text).map(|moment| self.until(moment)))
            .or_else(|| ResponseTime { mode: ParseMode::Lenient, ..self }.until_http_date(text))
    }

    /// Reads a reset field as the drafts that had one define it: whole seconds from now. A number so large that it
    /// must be a date is nothing that they allow.
    pub(crate) fn until_draft_reset(self, text: &[u8]) -> Option<Duration> {
        let seconds = Duration::from_secs(integer(text)?);
        (seconds < EPOCH_SECONDS_FROM).then_some(seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    const NOON: u64 = 1_751_371_200;

    fn noon() -> ResponseTime {
        ResponseTime::of(&HeaderMap::new(), UNIX_EPOCH + Duration::from_secs(NOON), ParseMode::Lenient)
    }

    #[test]
    fn the_size_of_a_number_tells_its_meaning() {
        let until = |text: &str| noon().until_reset(text.as_bytes()).unwrap();
        assert_eq!(until("999999999.5"), Duration::from_millis(999_999_999_500));
        assert_eq!(until("1000000000"), Duration::ZERO, "epoch seconds in 2001");
        assert_eq!(until("1751371260.25"), Duration::from_millis(60_250));
        assert_eq!(until("100000000000"), Duration::from_secs(100_000_000_000 - NOON));
        assert_eq!(until("100000000001"), Duration::ZERO, "epoch milliseconds in 1973");
        assert_eq!(until("1751371260500.5"), Duration::from_micros(60_500_500));
        let huge = until("99999999999999999999999999");
        assert_eq!(huge, Duration::from_millis(u64::MAX) - Duration::from_secs(NOON));
    }

    #[test]
    fn the_response_dates_itself() {
        let mut headers = HeaderMap::new();
        headers.append(DATE, HeaderValue::from_static("yesterday"));
        headers.append(DATE, HeaderValue::from_static("Tue, 01 Jul 2025 12:00:00 GMT"));
        let wrong = UNIX_EPOCH + Duration::from_secs(77);
        let clock = ResponseTime::of(&headers, wrong, ParseMode::Lenient);
        assert_eq!(clock.until_reset(b"1751371260"), Some(Duration::from_secs(60)));
        headers.clear();
        let clock = ResponseTime::of(&headers, wrong, ParseMode::Lenient);
        assert_eq!(clock.until_reset(b"1751371260"), Some(Duration::from_secs(1_751_371_260 - 77)));
    }

    #[test]
    fn clocks_before_the_epoch() {
        let clock =
            ResponseTime::of(&HeaderMap::new(), UNIX_EPOCH - Duration::from_secs(10), ParseMode::Lenient);
        assert_eq!(clock.until_reset(b"1000000000"), Some(Duration::from_secs(1_000_000_010)));
    }
}
