//! The common and the combined log format:
//!
//! ```text
//! 203.0.113.9 - ann [10/Oct/2000:13:55:36 -0700] "GET /a?b HTTP/1.1" 200 512 "referer" "user agent"
//! ```
//!
//! Servers add fields of their own at the end; what follows a blank is not looked at. A quotation mark within quotes
//! is escaped by a backslash.

use memchr::{memchr, memchr2};

use super::date::{self, DateReader};
use super::entry::{TraceEntry, TraceUnits};
use super::format::KeyField;
use super::line_error::LineError;

#[inline]
pub(super) fn parse<'a>(
    line: &'a [u8],
    by: KeyField,
    dates: &mut DateReader,
    combined: bool,
) -> Result<TraceEntry<'a>, LineError> {
    let (client, rest) = word(line).ok_or(LineError::Client)?;
    let (_, rest) = word(rest).ok_or(LineError::Client)?;
    // A user's name may contain blanks; the date begins with the first bracket.
    let bracket = memchr(b'[', rest).ok_or(LineError::Date)?;
    let user = match rest[..bracket].strip_suffix(b" ") {
        Some(user) if !user.is_empty() => user,
        _ => return Err(LineError::Client),
    };
    let (date, rest) = rest[bracket + 1..].split_first_chunk::<{ date::LEN }>().ok_or(LineError::Date)?;
    let at = dates.read(date)?;
    let rest = rest.strip_prefix(b"] ").ok_or(LineError::Date)?;
    let (request, rest) = quoted(rest).ok_or(LineError::Request)?;
    let mut rest = status_and_size(rest).ok_or(LineError::Request)?;
    if combined {
        for _ in 0..2 {
            let after = rest.strip_prefix(b" ").and_then(quoted);
            rest = after.ok_or(LineError::Combined)?.1;
        }
    }
    if !rest.is_empty() && rest[0] != b' ' {
        return Err(if combined { LineError::Combined } else { LineError::Request });
    }
    let key = match by {
        KeyField::Client => client,
        KeyField::User => user,
        KeyField::Path => path(request),
        KeyField::All => b"",
    };
    Ok(TraceEntry::new(at, key, 1, TraceUnits::default()))
}

/// Returns the word up to the next blank, unless it is empty, and what follows the blank.
#[inline]
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    // Words are short: looking at each byte is faster than setting up a search.
    let end = text.iter().position(|byte| *byte == b' ')?;
    (end > 0).then(|| (&text[..end], &text[end + 1..]))
}

/// Returns what stands in quotes at the start, and what follows the closing quote.
#[inline]
fn quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.strip_prefix(b"\"")?;
    let mut from = 0;
    loop {
        let at = from + memchr2(b'"', b'\\', text.get(from..)?)?;
        if text[at] == b'"' {
            return Some((&text[..at], &text[at + 1..]));
        }
        from = at + 2;
    }
}

/// Returns what follows ` 200 512`, where the size may be `-`.
#[inline]
fn status_and_size(text: &[u8]) -> Option<&[u8]> {
    let [b' ', a, b, c, b' ', rest @ ..] = text else { return None };
    if ![a, b, c].iter().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if let [b'-', rest @ ..] = rest {
        return Some(rest);
    }
    let end = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
    (end > 0).then(|| &rest[end..])
}

/// Returns `/a` of `GET /a?b HTTP/1.1`, or the whole text if it is not a request.
fn path(request: &[u8]) -> &[u8] {
    let Some((_, rest)) = word(request) else { return request };
    let end = memchr2(b' ', b'?', rest).unwrap_or(rest.len());
    if end == 0 { request } else { &rest[..end] }
}

#[cfg(test)]
mod tests {
    use super::super::reference;
    use super::*;
    use proptest::prelude::*;

    const LINE: &str =
        r#"203.0.113.9 - ann [10/Oct/2000:13:55:36 -0700] "GET /a?b HTTP/1.1" 200 512 "-" "Mozilla \"x\"""#;

    fn read(line: &str, by: KeyField, combined: bool) -> Result<(i64, String, u64), LineError> {
        let entry = parse(line.as_bytes(), by, &mut DateReader::default(), combined)?;
        Ok((entry.at.as_nanos(), String::from_utf8_lossy(entry.key).into_owned(), entry.cost))
    }

    #[test]
    fn a_line_of_each() {
        let expected = 971_211_336_000_000_000;
        for (by, key) in [
            (KeyField::Client, "203.0.113.9"),
            (KeyField::User, "ann"),
            (KeyField::Path, "/a"),
            (KeyField::All, ""),
        ] {
            assert_eq!(read(LINE, by, true), Ok((expected, key.to_owned(), 1)));
            assert_eq!(
                read(LINE, by, false),
                Ok((expected, key.to_owned(), 1)),
                "a prefix of it is a common one"
            );
        }
        let common = LINE.split_once(" \"-\"").unwrap().0;
        assert!(read(common, KeyField::Client, false).is_ok());
        assert_eq!(read(common, KeyField::Client, true), Err(LineError::Combined));
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (from, to, expected) in [
            ("203.0.113.9 - ann ", "", LineError::Date),
            ("- ann ", "", LineError::Date),
            ("ann ", "", LineError::Client),
            ("203.0.113.9 ", " ", LineError::Client),
            ("[10/Oct", "[10/Okt", LineError::Date),
            ("10/Oct/2000", "31/Feb/2000", LineError::Date),
            ("13:55:36", "24:55:36", LineError::Date),
            ("-0700", "-07:0", LineError::Date),
            ("-0700", "_0700", LineError::Date),
            (" 200 ", " OK ", LineError::Request),
            (" 512 ", " x12 ", LineError::Request),
            ("\"GET", "GET", LineError::Request),
            ("\"-\" ", "", LineError::Combined),
            ("2000", "2999", LineError::Range),
        ] {
            assert_eq!(
                read(&LINE.replace(from, to), KeyField::Client, true),
                Err(expected),
                "{from} -> {to}"
            );
        }
    }

    /// A line, now and then with a byte changed, cut out or added.
    fn lines() -> impl Strategy<Value = Vec<u8>> {
        let line = (
            prop::sample::select(vec!["203.0.113.9", "::1", "-", "host name", ""]),
            prop::sample::select(vec!["-", "ann", "a b", "[", "\"\""]),
            (0u32..33, 0usize..13, 1960u32..2300, 0u32..25, 0u32..61, 0u32..62),
            prop::sample::select(vec!["+0000", "-0700", "+1345", "-0099", "0000"]),
            prop::sample::select(vec!["GET / HTTP/1.1", "GET /a?b", "\\\"", "", "\\", "x\\\\"]),
            prop::sample::select(vec!["200 512", "404 -", "20 1", "200", "200 1x", "200 5 0.003"]),
            prop::sample::select(vec![" \"-\" \"agent\"", " \"r\\\"\" \"\" extra", " \"-\"", "", "x", " 5"]),
        );
        let line = line.prop_map(|(client, user, (day, month, year, hour, minute, second), zone, request, status, end)| {
            let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec", "Xyz"];
            let month = months[month];
            format!(
                "{client} - {user} [{day:02}/{month}/{year}:{hour:02}:{minute:02}:{second:02} {zone}] \"{request}\" {status}{end}"
            )
            .into_bytes()
        });
        let change =
            (0usize..4, any::<prop::sample::Index>(), prop::sample::select(b" \"[]\\:/-+0a\xff".to_vec()));
        (line, change).prop_map(|(mut line, (kind, at, byte))| {
            let at = at.index(line.len());
            match kind {
                0 => line[at] = byte,
                1 => drop(line.remove(at)),
                2 => line.insert(at, byte),
                _ => {}
            }
            line
        })
    }

    proptest! {
        #![proptest_config(test_support::cases::config(8_000))]
        /// Fast and slow agree on what a line is and what it says, also with what is remembered of lines before.
        #[test]
        fn the_slow_parser_says_the_same(lines in prop::collection::vec(lines(), 1..6), combined: bool) {
            let mut dates = DateReader::default();
            for line in lines {
                let fast = parse(&line, KeyField::Client, &mut dates, combined).ok();
                let slow = reference::parse(&line, combined);
                prop_assert_eq!(fast, slow, "{}", line.escape_ascii());
            }
        }
    }
}
