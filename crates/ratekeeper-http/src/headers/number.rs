//! Numbers and durations as header fields spell them.
//!
//! Nothing here wraps: a number too large for its type becomes the largest one.

use std::time::Duration;

use http::HeaderValue;

/// Reads a non-negative decimal number, `digits` or `digits.digits`, to the nanosecond; finer digits are dropped.
/// It is a `Duration` because every use is either a time or only its whole part.
pub(crate) fn decimal(text: &[u8]) -> Option<Duration> {
    let (whole, fraction) = match text.iter().position(|&b| b == b'.') {
        Some(dot) => (&text[..dot], Some(&text[dot + 1..])),
        None => (text, None),
    };
    let nanos = match fraction {
        Some(digits) => billionths(digits)?,
        None => 0,
    };
    Some(Duration::new(integer(whole)?, nanos))
}

/// Reads one or more digits; saturates.
pub(crate) fn integer(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(text.iter().fold(0u64, |n, &b| n.saturating_mul(10).saturating_add(u64::from(b - b'0'))))
}

/// Reads the digits after a point, in billionths.
fn billionths(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let padded = digits.iter().copied().chain(std::iter::repeat(b'0')).take(9);
    Some(padded.fold(0, |n, b| n * 10 + u32::from(b - b'0')))
}

/// Reads a duration with units, `1h2m3.5s`, `6m0s`, `250ms`: what Go prints, plus `d` for days.
pub(crate) fn duration(mut text: &[u8]) -> Option<Duration> {
    let mut total = Duration::ZERO;
    if text.is_empty() {
        return None;
    }
    while !text.is_empty() {
        let digits = text.iter().take_while(|b| b.is_ascii_digit() || **b == b'.').count();
        let amount = decimal(&text[..digits])?;
        text = &text[digits..];
        let letters = text.iter().take_while(|b| !b.is_ascii_digit() && **b != b'.').count();
        total = total.saturating_add(scale(amount, unit_nanos(&text[..letters])?));
        text = &text[letters..];
    }
    Some(total)
}

fn unit_nanos(unit: &[u8]) -> Option<u64> {
    Some(match unit {
        b"ns" => 1,
        // Both micro signs of Unicode, as UTF-8.
        b"us" | b"\xC2\xB5s" | b"\xCE\xBCs" => 1_000,
        b"ms" => 1_000_000,
        b"s" => 1_000_000_000,
        b"m" => 60_000_000_000,
        b"h" => 3_600_000_000_000,
        b"d" => 86_400_000_000_000,
        _ => return None,
    })
}

/// Returns `amount` units of `unit` nanoseconds each.
fn scale(amount: Duration, unit: u64) -> Duration {
    let unit = u128::from(unit);
    let whole = u128::from(amount.as_secs()).saturating_mul(unit);
    from_nanos(whole.saturating_add(u128::from(amount.subsec_nanos()) * unit / 1_000_000_000))
}

/// Returns nanoseconds as a duration; saturates at `Duration::MAX`.
fn from_nanos(nanos: u128) -> Duration {
    let below_a_second = u32::try_from(nanos % 1_000_000_000).unwrap_or(0);
    match u64::try_from(nanos / 1_000_000_000) {
        Ok(seconds) => Duration::new(seconds, below_a_second),
        Err(_) => Duration::MAX,
    }
}

/// Returns whole seconds, rounded up.
pub(crate) fn seconds_up(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}

/// Returns a duration with units, rounded up to whole milliseconds, as Go prints one: `120ms`, `1.5s`, `6m0s`, `1h0m0s`.
pub(super) fn duration_text(duration: Duration) -> String {
    let millis = duration.as_nanos().div_ceil(1_000_000);
    let (seconds, below) = (millis / 1_000, millis % 1_000);
    if seconds == 0 && below > 0 {
        return format!("{below}ms");
    }
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    let mut text = match (hours, minutes) {
        (0, 0) => String::new(),
        (0, minutes) => format!("{minutes}m"),
        (hours, minutes) => format!("{hours}h{minutes}m"),
    };
    text.push_str(&(seconds % 60).to_string());
    if below > 0 {
        text.push('.');
        text.push_str(format!("{below:03}").trim_end_matches('0'));
    }
    text.push('s');
    text
}

/// Returns a number as structured fields can carry it: larger ones are sent as the largest there is, of 15 digits.
pub(crate) fn whole(number: u64) -> u64 {
    number.min(999_999_999_999_999)
}

/// Returns the text without the blanks around it.
pub(crate) fn trim(text: &[u8]) -> &[u8] {
    text.trim_ascii()
}

/// Returns a number as a value: in one allocation, or in none if it has one digit, as most waits have. `From<u64>` of a
/// header value takes two.
pub(super) fn number_value(number: u64) -> HeaderValue {
    const DIGITS: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
    let digit = usize::try_from(number).ok().and_then(|number| DIGITS.get(number));
    match digit {
        Some(digit) => HeaderValue::from_static(digit),
        None => {
            let mut buffer = itoa::Buffer::new();
            // Digits are always a value.
            HeaderValue::from_str(buffer.format(number)).unwrap_or_else(|_| number.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals() {
        let ms = Duration::from_millis;
        for (text, expected) in [
            ("0", Some(Duration::ZERO)),
            ("1.482", Some(ms(1482))),
            ("2.0", Some(ms(2000))),
            ("1.0000000019", Some(Duration::new(1, 1))),
            ("99999999999999999999999", Some(Duration::from_secs(u64::MAX))),
            ("", None),
            (".5", None),
            ("5.", None),
            ("-1", None),
            ("+1", None),
            ("1e3", None),
            ("1.2.3", None),
            ("1 2", None),
        ] {
            assert_eq!(decimal(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn durations_with_units() {
        let ms = Duration::from_millis;
        for (text, expected) in [
            ("1s", Some(ms(1_000))),
            ("6m0s", Some(ms(360_000))),
            ("1h2m3.5s", Some(ms(3_723_500))),
            ("250ms", Some(ms(250))),
            ("1.5h", Some(ms(5_400_000))),
            ("1d", Some(ms(86_400_000))),
            ("7us", Some(Duration::from_micros(7))),
            ("7µs", Some(Duration::from_micros(7))),
            ("9ns", Some(Duration::from_nanos(9))),
            ("99999999999999999999999d", Some(Duration::MAX)),
            ("18446744073709551615s18446744073709551615s", Some(Duration::MAX)),
            ("", None),
            ("6", None),
            ("6m0", None),
            ("s", None),
            ("1x", None),
            ("-1s", None),
            ("1 s", None),
        ] {
            assert_eq!(duration(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn durations_are_written_as_they_are_read() {
        let ms = Duration::from_millis;
        for (written, text) in [
            (ms(0), "0s"),
            (ms(1), "1ms"),
            (Duration::from_nanos(119_000_001), "120ms"),
            (ms(999), "999ms"),
            (Duration::from_nanos(999_000_001), "1s"),
            (ms(1_482), "1.482s"),
            (ms(8_640), "8.64s"),
            (ms(60_000), "1m0s"),
            (ms(360_000), "6m0s"),
            (ms(3_723_500), "1h2m3.5s"),
            (ms(7_200_000), "2h0m0s"),
            (ms(86_400_000), "24h0m0s"),
        ] {
            assert_eq!(duration_text(written), text);
            let read = duration(text.as_bytes()).unwrap();
            assert!(read >= written && read - written < ms(1), "{text}");
        }
        assert_eq!(duration(duration_text(Duration::MAX).as_bytes()), Some(Duration::MAX));
    }
}
