//! Lines of the log that somebody outside can cause or word.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use ratekeeper::port::Clock;
use ratekeeper::{MonotonicClock, Timestamp};

/// Nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// Returns a text without line ends: what a remote server says may hold anything, and a line of the log is one event.
pub(crate) fn one_line(text: &dyn Display) -> String {
    let text = text.to_string();
    let lines = text.split(|char: char| char.is_control()).map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
}

/// Returns a key as text. What would not be seen is escaped as `\u{1b}`, bytes that are no text as `\xff`, and a backslash is
/// two: so that no two keys look the same. The console reads a key that is typed in the same way.
pub(crate) fn shown_key(key: &[u8]) -> String {
    let mut shown = String::with_capacity(key.len());
    for chunk in key.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '\\' => shown.push_str("\\\\"),
                _ if is_unseen(char) => shown.extend(char.escape_unicode()),
                _ => shown.push(char),
            }
        }
        shown.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    shown
}

/// Returns true of controls, of what changes the direction of a line, and of what has no width.
fn is_unseen(char: char) -> bool {
    char.is_control()
        || matches!(
            char,
            '\u{ad}'
                | '\u{61c}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
        )
}

/// Returns the milliseconds since the epoch.
pub(crate) fn epoch_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Limits a line that clients can cause over and over to one per second, per minute, or per part of a second.
#[derive(Debug)]
pub(crate) struct LogThrottle {
    /// Nanoseconds between two lines.
    pause: u64,
    /// When the next line is due, in nanoseconds since the epoch.
    next: AtomicU64,
    skipped: AtomicU64,
}

impl LogThrottle {
    /// Returns a throttle whose first line is due.
    pub(crate) const fn new() -> Self {
        Self::per_second(1)
    }

    /// Returns a throttle of one line per minute, whose first line is due.
    pub(crate) const fn each_minute() -> Self {
        Self::each(60 * SECOND)
    }

    /// Returns a throttle of so many lines a second, at least one, spread over the second.
    pub(crate) const fn per_second(lines: u32) -> Self {
        Self::each(SECOND / if lines == 0 { 1 } else { lines as u64 })
    }

    const fn each(pause: u64) -> Self {
        LogThrottle { pause, next: AtomicU64::new(0), skipped: AtomicU64::new(0) }
    }

    /// Returns how many lines were skipped since the last one, if another is due; `None` if this one is skipped.
    pub(crate) fn is_due(&self) -> Option<u64> {
        self.is_due_at(MonotonicClock.now())
    }

    fn is_due_at(&self, now: Timestamp) -> Option<u64> {
        let now = u64::try_from(now.as_nanos()).unwrap_or(0);
        let (next, after) = (self.next.load(Ordering::Relaxed), now.saturating_add(self.pause));
        let is_mine = now >= next
            && self.next.compare_exchange(next, after, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_mine {
            return Some(self.skipped.swap(0, Ordering::Relaxed));
        }
        self.skipped.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_spread_and_the_others_counted() {
        let throttle = LogThrottle::per_second(4);
        let due = |millis: i64| throttle.is_due_at(Timestamp::from_nanos(millis * 1_000_000));
        assert_eq!(due(0), Some(0));
        assert!((0..100).all(|_| due(249).is_none()));
        assert_eq!(due(250), Some(100));
        assert_eq!(due(499), None);
        // A silence does not make up for a burst.
        assert_eq!((due(9_000), due(9_000)), (Some(1), None));
    }

    #[test]
    fn no_two_keys_look_the_same() {
        for (key, expected) in [
            (&b"user:42"[..], "user:42"),
            (b"<script>", "<script>"),
            (b"a\xffb", r"a\xffb"),
            (br"a\xffb", r"a\\xffb"),
            ("né".as_bytes(), "né"),
            (b"say \"it's\"", "say \"it's\""),
            (br#"\""#, r#"\\""#),
            (b"a\nb\x1b", r"a\u{a}b\u{1b}"),
            ("\u{202e}x".as_bytes(), r"\u{202e}x"),
        ] {
            assert_eq!(shown_key(key), expected);
        }
    }

    #[test]
    fn a_line_that_is_caused_over_and_over_is_written_once_a_second() {
        let throttle = LogThrottle::new();
        assert_eq!(throttle.is_due(), Some(0));
        let written: Vec<u64> = (0..1_000).filter_map(|_| throttle.is_due()).collect();
        // The second may have ended in between.
        assert!(written.len() <= 1, "{written:?}");
        let skipped = throttle.skipped.into_inner();
        assert_eq!(written.iter().sum::<u64>() + skipped + written.len() as u64, 1_000);
    }
}
