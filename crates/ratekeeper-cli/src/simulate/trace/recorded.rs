//! The format of `ratekeeper serve --record`: `time key cost plans result [unit=amount…]`.

use super::entry::{TraceEntry, TracePlans, TraceUnits};
use super::format::KeyField;
use super::line_error::LineError;
use super::plain;

pub(super) fn parse(line: &[u8], by: KeyField) -> Result<TraceEntry<'_>, LineError> {
    let mut rest = line;
    let at = plain::time(plain::next_word(&mut rest))?;
    let key = plain::next_word(&mut rest);
    let cost = plain::cost(plain::next_word(&mut rest)).ok_or(LineError::Cost)?;
    let plans = TracePlans::parse(plain::next_word(&mut rest)).ok_or(LineError::Recorded)?;
    let was_allowed = match plain::next_word(&mut rest) {
        b"allowed" => true,
        b"denied" => false,
        _ => return Err(LineError::Recorded),
    };
    let units = if rest.is_empty() { TraceUnits::default() } else { TraceUnits::parse(rest)? };
    let key = if by == KeyField::All { b"" } else { key };
    Ok(TraceEntry { at, key, cost, units, plans, was_allowed: Some(was_allowed) })
}

/// Writes a key as it was asked for: blanks, control characters and `%` are recorded as `%20` and the like. What does not look
/// like that stays.
#[cold]
pub(super) fn decode(key: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let mut rest = key;
    while let [first, after @ ..] = rest {
        rest = after;
        let digits =
            after.get(..2).filter(|digits| *first == b'%' && digits.iter().all(u8::is_ascii_hexdigit));
        let byte = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match byte.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = &after[2..];
            }
            None => out.push(*first),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_the_plans_and_what_was_decided() {
        let entry = parse(b"1.5 user%2042 3 free,llm denied tokens=58", KeyField::Client).unwrap();
        assert_eq!((entry.at.as_nanos(), entry.key, entry.cost), (1_500_000_000, &b"user%2042"[..], 3));
        assert_eq!((entry.was_allowed, entry.units.iter().next()), (Some(false), Some(("tokens", 58))));
        assert!(entry.plans.has("llm") && entry.plans.has("free") && !entry.plans.has("fre"));
        assert!(entry.plans.are_several() && entry.plans.are_told());
        let own = parse(b"1 k 1 - allowed", KeyField::All).unwrap();
        assert_eq!((own.key, own.was_allowed), (&b""[..], Some(true)));
        assert!(own.plans.are_told() && !own.plans.has("-") && !own.plans.are_several());
    }

    #[test]
    fn a_key_is_decoded() {
        let mut out = b"before".to_vec();
        for (written, key) in [
            ("user%2042", "user 42"),
            ("%25%25%0a%7f", "%%\n\u{7f}"),
            ("100%", "100%"),
            ("%2", "%2"),
            ("%+1%é", "%+1%é"),
        ] {
            decode(written.as_bytes(), &mut out);
            assert_eq!(out, key.as_bytes(), "{written}");
        }
    }

    #[test]
    fn what_is_no_line() {
        for (line, expected) in [
            ("", LineError::Time),
            ("x k 1 free allowed", LineError::Time),
            ("1 k", LineError::Cost),
            ("1 k x free allowed", LineError::Cost),
            ("1 k 1", LineError::Recorded),
            ("1 k 1 free", LineError::Recorded),
            ("1 k 1 free maybe", LineError::Recorded),
            ("1 k 1 free allowed 7", LineError::Unit),
        ] {
            assert_eq!(parse(line.as_bytes(), KeyField::Client), Err(expected), "{line}");
        }
    }
}
