//! Numbers and times of a trace as people read them.

use std::fmt;

use ratekeeper::Timestamp;

use crate::when::Rfc3339;

/// Times before this, in nanoseconds, are counted from the start of a test and not dates.
const FIRST_DATE: i64 = 100_000_000 * 1_000_000_000;

/// Displays an instant as seconds since the epoch, with as many decimals as it has.
pub(super) struct Seconds(pub(super) Timestamp);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        let (whole, fraction) = (nanos.unsigned_abs() / 1_000_000_000, nanos.unsigned_abs() % 1_000_000_000);
        write!(f, "{}{whole}", if nanos < 0 { "-" } else { "" })?;
        if fraction > 0 {
            let digits = format!("{fraction:09}");
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        Ok(())
    }
}

/// Displays a time of the trace: as a date, or as seconds if it is counted from zero.
pub(super) struct TraceMoment(pub(super) Timestamp);

impl fmt::Display for TraceMoment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.as_nanos().abs() < FIRST_DATE {
            write!(f, "{} s", Seconds(self.0))
        } else {
            write!(f, "{}", Rfc3339(self.0))
        }
    }
}

/// Displays a number with commas between thousands.
pub(super) struct Grouped(pub(super) u64);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let mut text = String::with_capacity(digits.len() * 4 / 3);
        for (index, digit) in digits.char_indices() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        f.pad(&text)
    }
}

/// Returns the share of a whole in per cent; 0 of an empty whole.
#[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
pub(super) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        let grouped = |number| Grouped(number).to_string();
        assert_eq!(
            [grouped(0), grouped(999), grouped(1_000), grouped(12_345_678)],
            ["0", "999", "1,000", "12,345,678"]
        );
        assert_eq!(TraceMoment(Timestamp::from_nanos(12_500_000_000)).to_string(), "12.5 s");
        assert_eq!(TraceMoment(Timestamp::from_secs(1_761_884_055)).to_string(), "2025-10-31T04:14:15Z");
        assert_eq!(Seconds(Timestamp::from_nanos(-1_500_000_000)).to_string(), "-1.5");
    }
}
