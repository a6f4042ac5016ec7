//! The plain format: `time_seconds [key [cost] [unit=amount…]]`.

use ratekeeper::Timestamp;

use super::entry::{TraceEntry, TraceUnits};
use super::format::KeyField;
use super::line_error::LineError;

const NANOS_PER_SECOND: i64 = 1_000_000_000;

pub(super) fn parse(line: &[u8], by: KeyField) -> Result<TraceEntry<'_>, LineError> {
    let mut rest = line;
    let at = time(next_word(&mut rest))?;
    let key = next_word(&mut rest);
    let unread = rest;
    let word = next_word(&mut rest);
    // What has a `=` is a unit: then nothing is said of the cost.
    let (cost, units) = match word {
        [] => (1, rest),
        word if word.contains(&b'=') => (1, unread),
        word => (cost(word).ok_or(LineError::Cost)?, rest),
    };
    let units = if units.is_empty() { TraceUnits::default() } else { TraceUnits::parse(units)? };
    Ok(TraceEntry::new(at, if by == KeyField::All { b"" } else { key }, cost, units))
}

/// Takes the next word off a line, and the blanks after it; empty at the end.
pub(super) fn next_word<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let skip = |text: &'a [u8]| &text[text.iter().position(|byte| !is_blank(byte)).unwrap_or(text.len())..];
    let text = skip(rest);
    let (word, after) = text.split_at(text.iter().position(is_blank).unwrap_or(text.len()));
    *rest = skip(after);
    word
}

/// Reads a whole number.
pub(super) fn cost(word: &[u8]) -> Option<u64> {
    if !word.first()?.is_ascii_digit() {
        return None;
    }
    str::from_utf8(word).ok()?.parse().ok()
}

/// Reads seconds with a fraction, exactly; what is finer than a nanosecond is cut off. A number with an exponent is read
/// as a double.
pub(super) fn time(word: &[u8]) -> Result<Timestamp, LineError> {
    let (negative, digits) = match word {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let point = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
    let (whole, rest) = digits.split_at(point);
    let fraction = match rest {
        [] => rest,
        [b'.', fraction @ ..] if fraction.iter().all(u8::is_ascii_digit) => fraction,
        _ => return double(word),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(LineError::Time);
    }
    let digit = |byte: &u8| i64::from(byte - b'0');
    let push = |sum: i64, byte: &u8| sum.checked_mul(10)?.checked_add(digit(byte));
    let seconds = whole.iter().try_fold(0, push).ok_or(LineError::Range)?;
    let places = fraction.iter().map(digit).chain(std::iter::repeat(0)).take(9);
    let nanos = places.fold(0, |sum, digit| sum * 10 + digit);
    let total = seconds.checked_mul(NANOS_PER_SECOND).and_then(|whole| whole.checked_add(nanos));
    let total = total.ok_or(LineError::Range)?;
    Ok(Timestamp::from_nanos(if negative { -total } else { total }))
}

#[expect(clippy::cast_possible_truncation, reason = "checked against the range of an i64 before")]
fn double(word: &[u8]) -> Result<Timestamp, LineError> {
    let starts_right = word.iter().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(byte));
    let text = str::from_utf8(word).map_err(|_| LineError::Time)?;
    let seconds: f64 = text.parse().ok().filter(|_| starts_right).ok_or(LineError::Time)?;
    let nanos = seconds * 1e9;
    if nanos.abs() < 9.2e18 { Ok(Timestamp::from_nanos(nanos as i64)) } else { Err(LineError::Range) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanos(line: &str) -> Result<i64, LineError> {
        parse(line.as_bytes(), KeyField::Client).map(|entry| entry.at.as_nanos())
    }

    #[test]
    fn times_are_exact() {
        for (text, expected) in [
            ("0", 0),
            ("1.5", 1_500_000_000),
            ("1761884055.342794596", 1_761_884_055_342_794_596),
            ("0.1234567899", 123_456_789),
            (".5", 500_000_000),
            ("7.", 7_000_000_000),
            ("-1.5", -1_500_000_000),
            ("1e3", 1_000_000_000_000),
            ("5e-1", 500_000_000),
            ("  3\tkey", 3_000_000_000),
        ] {
            assert_eq!(nanos(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_line() {
        for (text, expected) in [
            ("", LineError::Time),
            (".", LineError::Time),
            ("-", LineError::Time),
            ("inf", LineError::Time),
            ("nan", LineError::Time),
            ("0x1", LineError::Time),
            ("key 1", LineError::Time),
            ("99999999999", LineError::Range),
            ("1e300", LineError::Range),
            ("99999999999999999999999", LineError::Range),
            ("1 key -1", LineError::Cost),
            ("1 key 1.5", LineError::Cost),
            ("1 key +1", LineError::Cost),
            ("1 key 99999999999999999999", LineError::Cost),
            ("1 key 1 more", LineError::Unit),
            ("1 key 1 2", LineError::Unit),
            ("1 key 1 tokens=", LineError::Unit),
            ("1 key 1 tokens=-1", LineError::Unit),
            ("1 key 1 tokens=1.5", LineError::Unit),
            ("1 key 1 =5", LineError::Unit),
            ("1 key 1 Tokens=5", LineError::Unit),
            ("1 key 1 a=1 b", LineError::Unit),
            ("1 key 1 requests=5", LineError::RequestsNamed),
            ("1 key 1 a=1 b=2 a=1", LineError::UnitTwice),
            ("1 key 1 a=1 b=2 c=3 d=4 e=5", LineError::TooManyUnits),
            ("1 key 1 a=9223372036854775808", LineError::Amount),
            ("1 key 1 a=99999999999999999999", LineError::Amount),
        ] {
            assert_eq!(nanos(text), Err(expected), "{text}");
        }
    }

    #[test]
    fn key_and_cost_may_be_missing() {
        let read = |line: &'static str| {
            parse(line.as_bytes(), KeyField::Client).map(|entry| (entry.key, entry.cost))
        };
        assert_eq!(read("1"), Ok((&b""[..], 1)));
        assert_eq!(read("1 k"), Ok((&b"k"[..], 1)));
        assert_eq!(read("1 k 0"), Ok((&b"k"[..], 0)));
        assert_eq!(parse(b"1 k 2", KeyField::All).unwrap().key, b"");
    }

    #[test]
    fn units_follow_the_cost_or_the_key() {
        let read = |line: &'static str| {
            let entry = parse(line.as_bytes(), KeyField::Client).unwrap();
            (entry.cost, entry.units.iter().collect::<Vec<_>>())
        };
        assert_eq!(read("1 k 2"), (2, vec![]));
        assert_eq!(read("1 k 2 tokens=58"), (2, vec![("tokens", 58)]));
        assert_eq!(read("1 k tokens=58\t gpu_ms=0 "), (1, vec![("tokens", 58), ("gpu_ms", 0)]));
        assert_eq!(read("1 k 0 a=1 b=2 c=3 d=9223372036854775807").1.len(), 4);
        assert!(parse(b"1 k tokens=\xff", KeyField::Client).is_err());
    }
}
