//! A page in the text format of Prometheus.

use std::fmt::Write;
use std::time::Duration;

use crate::watch::{BUCKETS, TimesReading, shown_key};

/// Returns a key as the value of a label: as it is shown everywhere, and then with the format's own escapes.
pub(super) fn label(key: &[u8]) -> String {
    shown_key(key).replace('\\', "\\\\").replace('"', "\\\"")
}

/// A page that is written line by line.
pub(super) struct MetricsPage(String);

impl MetricsPage {
    pub(super) fn new() -> Self {
        MetricsPage(String::with_capacity(4096))
    }

    /// Returns what was written.
    pub(super) fn into_text(self) -> String {
        self.0
    }

    /// Begins a metric.
    pub(super) fn head(&mut self, name: &str, kind: &str, help: &str) {
        self.line(&format!("# HELP {name} {help}"));
        self.line(&format!("# TYPE {name} {kind}"));
    }

    pub(super) fn line(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
    }

    /// Writes a line without labels.
    pub(super) fn seconds(&mut self, name: &str, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.line(&format!("{name} {}", seconds(nanos)));
    }

    /// Writes the lines of a histogram that has these labels, none of them `le`.
    pub(super) fn histogram(&mut self, name: &str, labels: &str, reading: &TimesReading) {
        let mut count = 0;
        for (bound, bucket) in BUCKETS.iter().zip(&reading.buckets) {
            count += bucket;
            let bound = seconds(*bound);
            self.line(&format!("{name}_bucket{{{labels},le=\"{bound}\"}} {count}"));
        }
        let count = reading.count();
        self.line(&format!("{name}_bucket{{{labels},le=\"+Inf\"}} {count}"));
        self.line(&format!("{name}_sum{{{labels}}} {}", seconds(reading.nanos)));
        self.line(&format!("{name}_count{{{labels}}} {count}"));
    }
}

/// Returns seconds in exact decimals: no floating point between a counter and its reader.
fn seconds(nanos: u64) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write!(text, "{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
    text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_one_label_whatever_is_in_it() {
        for (key, expected) in [
            (&b"user:42"[..], "user:42"),
            ("né".as_bytes(), "né"),
            (b"a\"b", r#"a\"b"#),
            (b"a\nb", r"a\\u{a}b"),
            (b"a\\nb", r"a\\\\nb"),
            (b"a\xffb", r"a\\xffb"),
            (b"a\\xffb", r"a\\\\xffb"),
            (b"\r\0\x1b", r"\\u{d}\\u{0}\\u{1b}"),
        ] {
            assert_eq!(label(key), expected);
        }
    }

    #[test]
    fn seconds_are_exact() {
        for (nanos, expected) in [
            (0, "0"),
            (250, "0.00000025"),
            (1_000_000_000, "1"),
            (1_500_000_000, "1.5"),
            (10_000_000_000, "10"),
        ] {
            assert_eq!(seconds(nanos), expected);
        }
    }
}
