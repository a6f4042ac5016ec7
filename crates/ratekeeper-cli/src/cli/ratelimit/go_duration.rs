//! Durations as Go spells them: `24h`, `1m30s`, `1.5s`, `150us`.

use std::time::Duration;

/// The units, the longer names first: `m` begins `ms`.
const UNITS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Returns the duration, or `None` if the text is none. A sign is not taken: nothing here lasts less than no time.
pub(super) fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut nanos: u128 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let (unit, length) = UNITS.into_iter().find(|(unit, _)| after.starts_with(unit))?;
        nanos = nanos.checked_add(scaled(number, length)?)?;
        rest = &after[unit.len()..];
    }
    let nanos = u64::try_from(nanos).ok().filter(|_| !text.is_empty())?;
    Some(Duration::from_nanos(nanos))
}

/// Returns a decimal number of a unit in nanoseconds, the rest of one cut off.
fn scaled(number: &str, length: u128) -> Option<u128> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && part.is_empty() {
        return None;
    }
    let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u128>().ok() };
    // What is beyond is less than a nanosecond of an hour.
    let part = &part[..part.len().min(18)];
    // A second point is no digit.
    let parts = digits(part)?.checked_mul(length)? / 10_u128.checked_pow(u32::try_from(part.len()).ok()?)?;
    digits(whole)?.checked_mul(length)?.checked_add(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_units_one_after_the_other() {
        for (text, nanos) in [
            ("0", 0),
            ("0s", 0),
            ("24h", 86_400_000_000_000),
            ("1m30s", 90_000_000_000),
            ("1h0m10.5s", 3_610_500_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("100ms", 100_000_000),
            ("150us", 150_000),
            ("150µs", 150_000),
            ("150μs", 150_000),
            ("7ns", 7),
            ("1.9ns", 1),
            ("0.1234567890123456789s", 123_456_789),
        ] {
            assert_eq!(parse(text), Some(Duration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration() {
        for text in [
            "",
            "10",
            "s",
            ".s",
            "1.2.3s",
            "-1s",
            "+1s",
            "1 s",
            "1d",
            "1s ",
            "1sm",
            "9999999999999999h",
            "1e3s",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
