//! A secret that clients must know.

use std::convert::Infallible;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use http::HeaderValue;
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A token, compared in a time that does not depend on how much of a guess is right.
#[derive(Clone)]
pub struct Secret(Box<[u8]>);

impl Secret {
    /// The secret of this text, unless it is empty.
    pub fn new(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Secret(text.as_bytes().into()))
    }

    /// Whether a guess is right. Only the guess's own length, which its sender knows, shows in the time.
    #[must_use]
    pub fn matches(&self, guess: &[u8]) -> bool {
        let mut difference = u8::from(guess.len() != self.0.len());
        for (index, byte) in guess.iter().enumerate() {
            difference |= byte ^ self.0[index % self.0.len()];
            // Keeps the compiler from leaving early once the answer is known.
            difference = std::hint::black_box(difference);
        }
        difference == 0
    }

    /// Whether a field `authorization` bears it: `Bearer`, and the token.
    #[must_use]
    pub fn is_borne_by(&self, authorization: Option<&HeaderValue>) -> bool {
        let given = authorization.map(HeaderValue::as_bytes).unwrap_or_default();
        match given.split_at_checked("Bearer ".len()) {
            Some((scheme, token)) => scheme.eq_ignore_ascii_case(b"Bearer ") && self.matches(token),
            None => false,
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Text of a flag or a file that holds a secret: a token, or a URL with a password. It never shows in what is printed
/// for debugging, nor in the error when it is written wrongly.
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

        /// What to say about a value that is no text. What serde would say shows the value.
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

/// True if what was typed looks like an address, however wrong, that may hold a password.
pub(crate) fn may_hold_password(given: &str) -> bool {
    given.contains('@') || given.contains("://")
}

/// Text with whatever may be the password of a URL taken out of each line: for errors that show what was typed, where
/// a URL may stand that is not even one.
pub(crate) fn without_passwords(text: &str) -> String {
    let masked = |line: &str| {
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
        ] {
            assert_eq!(without_passwords(text), expected);
        }
        assert_eq!(format!("{:?}", SecretText::from("sesame")), "SecretText(…)");
    }

    #[test]
    fn only_the_whole_secret_matches() {
        let secret = Secret::new("sesame").unwrap();
        assert!(secret.matches(b"sesame"));
        for guess in ["", "s", "sesam", "sesamE", "sesamesesame", "sesame "] {
            assert!(!secret.matches(guess.as_bytes()), "{guess}");
        }
        assert!(Secret::new("").is_none());
        assert_eq!(format!("{secret:?}"), "Secret(…)");
    }
}
