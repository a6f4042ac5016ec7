//! Text that holds a secret, and text that may.

use std::convert::Infallible;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// Text of a flag or a file that holds a secret: a token, or a URL with a password. Neither its `Debug` output nor the
/// error about a wrong value shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(String);

impl Deref for SecretText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl FromStr for SecretText {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(SecretText(text.to_owned()))
    }
}

impl From<&str> for SecretText {
    fn from(text: &str) -> Self {
        SecretText(text.to_owned())
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(…)")
    }
}

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Quoted;

        /// The error for a value that is no text. The error of serde would show the value.
        const WRONG: &str = "must be text in quotes";

        impl Visitor<'_> for Quoted {
            type Value = SecretText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text in quotes")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<SecretText, E> {
                Ok(SecretText(text.to_owned()))
            }

            fn visit_bool<E: Error>(self, _: bool) -> Result<SecretText, E> {
                Err(E::custom(WRONG))
            }

            fn visit_i64<E: Error>(self, _: i64) -> Result<SecretText, E> {
                Err(E::custom(WRONG))
            }

            fn visit_u64<E: Error>(self, _: u64) -> Result<SecretText, E> {
                Err(E::custom(WRONG))
            }

            fn visit_i128<E: Error>(self, _: i128) -> Result<SecretText, E> {
                Err(E::custom(WRONG))
            }

            fn visit_u128<E: Error>(self, _: u128) -> Result<SecretText, E> {
                Err(E::custom(WRONG))
            }

            fn visit_f64<E: Error>(self, _: f64) -> Result<SecretText, E> {
                Err(E::custom(WRONG))
            }
        }

        deserializer.deserialize_str(Quoted)
    }
}

/// Returns true if what was typed looks like an address, however wrong, that may hold a password.
pub fn may_hold_password(given: &str) -> bool {
    given.contains('@') || given.contains("://")
}

/// Returns a text without whatever may be the password of a URL in one of its lines: for errors that show what was typed,
/// even if it only resembles a URL.
pub fn without_passwords(text: &str) -> String {
    let masked = |line: &str| {
        let line = &without_password_options(line);
        // A mistyped `redis:/:pw@host` or `redis//:pw@host` has a password too.
        let start = line.find("//").map(|at| at + 2).or_else(|| line.find(":/").map(|at| at + 2));
        let secret = start.and_then(|start| Some((start, line.rfind('@').filter(|end| *end > start)?)));
        match secret {
            Some((start, end)) => format!("{}…{}", &line[..start], &line[end..]),
            None => line.to_owned(),
        }
    };
    text.split('\n').map(masked).collect::<Vec<_>>().join("\n")
}

/// Returns a line without the values of options that are passwords: `postgres://host/database?password=secret`.
fn without_password_options(line: &str) -> String {
    const NAME: &str = "password=";
    let mut parts = line.split(NAME);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end =
            part.find(|sign: char| sign.is_whitespace() || "&`'\"".contains(sign)).unwrap_or(part.len());
        shown += NAME;
        shown += if end > 0 { "…" } else { "" };
        shown += &part[end..];
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_urls_are_taken_out_of_what_is_told() {
        for (text, expected) in [
            ("no store at redis://:sesame@host:1", "no store at redis://…@host:1"),
            ("`redis://user:ses@me@host`\nmore", "`redis://…@host`\nmore"),
            ("redis//:my sesame@host", "redis//…@host"),
            ("redis:/:sesame@host", "redis:/…@host"),
            ("plan `gold@eu`: period", "plan `gold@eu`: period"),
            ("redis://host:1", "redis://host:1"),
            ("postgres://db/shop?user=rk&password=sesame", "postgres://db/shop?user=rk&password=…"),
            (
                "`postgres://rk@db/shop?password=ses@me&x=1` is wrong",
                "`postgres://…@db/shop?password=…&x=1` is wrong",
            ),
            ("password= is empty", "password= is empty"),
        ] {
            assert_eq!(without_passwords(text), expected);
        }
        assert_eq!(format!("{:?}", SecretText::from("sesame")), "SecretText(…)");
    }
}
