//! Durations as people write them in flags and files: `500ms`, `10s`, `2m`, `1h`, `31d`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

/// A duration that was written as a number with its unit; `0` needs none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct DurationText(pub Duration);

impl FromStr for DurationText {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| DurationError)?;
        let millis = match unit {
            "ms" => Some(number),
            "s" => number.checked_mul(1_000),
            "m" => number.checked_mul(60_000),
            "h" => number.checked_mul(3_600_000),
            "d" => number.checked_mul(86_400_000),
            "" if number == 0 => Some(0),
            _ => None,
        };
        millis.map(|millis| DurationText(Duration::from_millis(millis))).ok_or(DurationError)
    }
}

impl TryFrom<String> for DurationText {
    type Error = DurationError;

    fn try_from(text: String) -> Result<Self, DurationError> {
        text.parse()
    }
}

/// The text is not a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurationError;

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a duration; write a whole number with its unit: `500ms`, `10s`, `2m`, `1h`, `31d`")
    }
}

impl std::error::Error for DurationError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_its_unit() {
        for (text, millis) in [
            ("0", 0),
            ("0s", 0),
            ("500ms", 500),
            ("10s", 10_000),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("1d", 86_400_000),
        ] {
            assert_eq!(text.parse(), Ok(DurationText(Duration::from_millis(millis))), "{text}");
        }
        let too_long = format!("{}h", u64::MAX);
        for text in ["", "10", "s", "-1s", "1.5s", "10 s", "1w", "1s2", &too_long] {
            assert_eq!(text.parse::<DurationText>(), Err(DurationError), "{text}");
        }
    }
}
