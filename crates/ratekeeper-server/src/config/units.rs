//! Sizes and percentages, as flags and files spell them.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// A number of bytes: `64KB`, `256MB`, `2GB`, in steps of 1000, or of 1024 as `256MiB`; a number alone is bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "Spelling")]
pub struct ByteSize(pub u64);

/// A percentage of a whole: `50%`, or `50`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "Spelling")]
pub struct Percent(u8);

/// A share of all, in millionths: `1%`, `0.01%`, `100%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "Spelling")]
pub struct SampleShare(u32);

impl SampleShare {
    /// Returns the share, from 1 to 1,000,000 millionths.
    pub fn millionths(self) -> u32 {
        self.0
    }
}

impl FromStr for SampleShare {
    type Err = MeasureError;

    fn from_str(text: &str) -> Result<Self, MeasureError> {
        let number = text.trim().strip_suffix('%').unwrap_or(text.trim()).trim_end();
        let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
        let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        // A percent is ten thousand millionths.
        if !is_number(whole) || !is_number(part) || part.len() > 4 {
            return Err(MeasureError::SHARE);
        }
        let millionths = format!("{whole}{part:0<4}").parse().map_err(|_| MeasureError::SHARE)?;
        if (1..=1_000_000).contains(&millionths) {
            Ok(SampleShare(millionths))
        } else {
            Err(MeasureError::SHARE)
        }
    }
}

impl Percent {
    /// Returns the percentage, from 0 to 100.
    pub fn get(self) -> u8 {
        self.0
    }
}

impl FromStr for ByteSize {
    type Err = MeasureError;

    fn from_str(text: &str) -> Result<Self, MeasureError> {
        let (number, unit) = split(text);
        let bytes = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kb" => 1_000,
            "m" | "mb" => 1_000_000,
            "g" | "gb" => 1_000_000_000,
            "t" | "tb" => 1_000_000_000_000,
            "kib" => 1 << 10,
            "mib" => 1 << 20,
            "gib" => 1 << 30,
            "tib" => 1 << 40,
            _ => return Err(MeasureError::BYTES),
        };
        let number: u64 = number.parse().map_err(|_| MeasureError::BYTES)?;
        number.checked_mul(bytes).map(ByteSize).ok_or(MeasureError::BYTES)
    }
}

impl FromStr for Percent {
    type Err = MeasureError;

    fn from_str(text: &str) -> Result<Self, MeasureError> {
        let number = match split(text) {
            (number, "" | "%") => number.parse::<u8>(),
            _ => return Err(MeasureError::PERCENT),
        };
        number.ok().filter(|percent| *percent <= 100).map(Percent).ok_or(MeasureError::PERCENT)
    }
}

/// Digits, and what follows them.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim_start())
}

/// What a file may write: a text, or a number alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum Spelling {
    Whole(u64),
    Real(f64),
    Text(String),
}

macro_rules! from_spelling {
    ($($kind:ty),*) => {$(
        impl TryFrom<Spelling> for $kind {
            type Error = MeasureError;

            fn try_from(spelling: Spelling) -> Result<Self, MeasureError> {
                match spelling {
                    Spelling::Whole(number) => number.to_string().parse(),
                    Spelling::Real(number) => number.to_string().parse(),
                    Spelling::Text(text) => text.parse(),
                }
            }
        }
    )*};
}

from_spelling!(ByteSize, Percent, SampleShare);

/// The text is no size or percentage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasureError(&'static str);

impl MeasureError {
    const BYTES: Self = MeasureError("no number of bytes; write `64KB`, `256MB` or `2GiB`");
    const SHARE: Self = MeasureError("no share of all; write `1%`, from 0.0001% to 100%");
    const PERCENT: Self = MeasureError("no percentage; write `50%`, from 0% to 100%");
}

impl fmt::Display for MeasureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for MeasureError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("7", 7),
            ("64KB", 64_000),
            ("256MiB", 256 << 20),
            ("2 gb", 2_000_000_000),
            ("1t", 1_000_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for wrong in ["", "MB", "-1", "1.5GB", "1 XB", "99999999999999TB"] {
            assert_eq!(wrong.parse::<ByteSize>(), Err(MeasureError::BYTES), "{wrong}");
        }
    }

    #[test]
    fn percentages() {
        for (text, percent) in [("50%", 50), ("0", 0), ("100 %", 100)] {
            assert_eq!(text.parse::<Percent>().map(Percent::get), Ok(percent), "{text}");
        }
        for wrong in ["", "%", "101%", "-1", "0.5", "half", "300"] {
            assert_eq!(wrong.parse::<Percent>(), Err(MeasureError::PERCENT), "{wrong}");
        }
    }

    #[test]
    fn shares() {
        for (text, millionths) in [
            ("1%", 10_000),
            ("100%", 1_000_000),
            ("0.01%", 100),
            ("12.5 %", 125_000),
            ("0.0001%", 1),
            ("5", 50_000),
        ] {
            assert_eq!(text.parse::<SampleShare>().map(SampleShare::millionths), Ok(millionths), "{text}");
        }
        for wrong in ["", "%", "0%", "101%", "100.0001%", "-1%", "1.%", ".5%", "0.00001%", "1/100", "1e1%"] {
            assert_eq!(wrong.parse::<SampleShare>(), Err(MeasureError::SHARE), "{wrong}");
        }
    }

    #[test]
    fn a_file_may_write_a_number_or_a_text() {
        #[derive(Deserialize)]
        struct Section {
            size: ByteSize,
            share: Percent,
        }
        let section: Section = toml::from_str("size = 4096\nshare = \"50%\"\n").unwrap();
        assert_eq!((section.size.0, section.share.get()), (4_096, 50));
        let section: Section = toml::from_str("size = \"1KB\"\nshare = 10\n").unwrap();
        assert_eq!((section.size.0, section.share.get()), (1_000, 10));
        let wrong = toml::from_str::<Section>("size = \"big\"\nshare = 1\n").err().unwrap();
        assert!(wrong.message().contains("write `64KB`"), "{wrong}");
    }
}
