//! The header codec from outside: the table of docs/headers.md, how families add up, laws, and what a response costs.
//!
//! Expectations are written as docs/headers.md §2 writes them: `L(name limit remaining reset)`, `P(name quota window)`,
//! `RA(wait)`, `-` for what is absent, and nothing for what is ignored.

mod allocation;
mod families;
mod laws;
mod table;

use std::fmt::Display;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ratekeeper_http::headers::{ParseMode, QuotaUnit, ServerLimits, parse_lines_with};

/// The clock of the rows, `Tue, 01 Jul 2025 12:00:00 GMT`.
const DATE: &str = "Date: Tue, 01 Jul 2025 12:00:00 GMT\n";

/// A local clock that is wrong, so that whoever uses it where `Date` is meant gets caught.
fn wrong_clock() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(4_000_000_000)
}

fn optional(value: Option<impl Display>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}

fn seconds(duration: Option<Duration>) -> String {
    match duration {
        None => "-".to_owned(),
        Some(whole) if whole.subsec_nanos() == 0 => format!("{}s", whole.as_secs()),
        Some(parts) => {
            let digits = format!("{:09}", parts.subsec_nanos());
            format!("{}.{}s", parts.as_secs(), digits.trim_end_matches('0'))
        }
    }
}

/// What was understood, in the notation of docs/headers.md §2.
fn notation(limits: &ServerLimits) -> String {
    let mut words = Vec::new();
    for p in &limits.policies {
        let mut word = format!("P({} {} {}", optional(p.name.as_ref()), p.quota, seconds(p.window));
        if p.unit != QuotaUnit::Requests {
            word += &format!(" {}", p.unit);
        }
        if let Some(key) = &p.partition_key {
            word += &format!(" {}", String::from_utf8_lossy(key));
        }
        words.push(word + ")");
    }
    for l in &limits.limits {
        let (name, limit, remaining) = (optional(l.name.as_ref()), optional(l.limit), optional(l.remaining));
        words.push(format!("L({name} {limit} {remaining} {})", seconds(l.reset)));
    }
    if let Some(wait) = limits.retry_after {
        words.push(format!("RA({})", seconds(Some(wait))));
    }
    if limits.cached {
        words.push("cached".to_owned());
    }
    words.join(" ")
}

fn read(lines: &str, mode: ParseMode) -> String {
    notation(&parse_lines_with(format!("{DATE}{lines}").as_bytes(), wrong_clock(), mode))
}

/// Leniently.
#[track_caller]
fn understood(lines: &str, expected: &str) {
    assert_eq!(read(lines, ParseMode::Lenient), expected, "{lines}");
}

/// In both modes.
#[track_caller]
fn understood_by_all(lines: &str, expected: &str) {
    understood(lines, expected);
    assert_eq!(read(lines, ParseMode::Strict), expected, "strictly: {lines}");
}

/// Leniently so, and strictly otherwise.
#[track_caller]
fn understood_unless_strict(lines: &str, expected: &str, strictly: &str) {
    understood(lines, expected);
    assert_eq!(read(lines, ParseMode::Strict), strictly, "strictly: {lines}");
}
