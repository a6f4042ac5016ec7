//! A secret that clients must know.

use std::fmt;

use http::HeaderValue;

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
}

/// The token in a field `authorization`: what comes after `Bearer`.
pub(crate) fn bearer(authorization: Option<&HeaderValue>) -> Option<&[u8]> {
    let (scheme, token) = authorization?.as_bytes().split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token)
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
