//! What a rule counts.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use crate::name::Name;
use crate::quote::shorten;

/// What a rule counts: `requests` unless it says otherwise, `tokens`, `bytes`, or any word of 1 to 32 of the characters
/// `a-z 0-9 _ -` that begins with a letter.
///
/// ```
/// use ratekeeper::Unit;
/// let tokens: Unit = "tokens".parse()?;
/// assert_eq!(tokens, "tokens");
/// assert_eq!(
///     Unit::new("GB").unwrap_err().to_string(),
///     "unit: `GB`; a unit is a word of 1 to 32 of a-z 0-9 _ - that begins with a letter, and not `per`",
/// );
/// # Ok::<(), ratekeeper::UnitError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unit(UnitName);

/// The two units that need no name of their own come first: most rules count those.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum UnitName {
    Requests,
    Concurrent,
    Other(Name),
}

impl Unit {
    /// What a plain cost is a number of.
    pub const REQUESTS: Unit = Unit(UnitName::Requests);
    /// Places among those in flight: what `8 concurrent` counts. A request takes one unless it says otherwise.
    pub const CONCURRENT: Unit = Unit(UnitName::Concurrent);

    /// The longest word, in bytes.
    pub const MAX_LEN: usize = 32;

    /// The most units that one request may name.
    pub const MOST_NAMED: usize = 4;

    /// Returns the unit of this word.
    ///
    /// # Errors
    ///
    /// If the word is empty, longer than [32](Unit::MAX_LEN) bytes, has a character that is not allowed, or is `per`,
    /// which means something else in a quota.
    pub fn new(word: &str) -> Result<Self, UnitError> {
        match word {
            "requests" => Ok(Unit::REQUESTS),
            "concurrent" => Ok(Unit::CONCURRENT),
            _ if !is_word(word) => Err(UnitError { value: shorten(word) }),
            _ => Name::new(word)
                .map(|name| Unit(UnitName::Other(name)))
                .map_err(|_| UnitError { value: shorten(word) }),
        }
    }

    /// Returns the word.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            UnitName::Requests => "requests",
            UnitName::Concurrent => "concurrent",
            UnitName::Other(name) => name.as_str(),
        }
    }

    /// Returns true of `requests`.
    #[inline]
    pub fn is_requests(&self) -> bool {
        matches!(self.0, UnitName::Requests)
    }
}

fn is_word(word: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    let begins = word.starts_with(|letter: char| letter.is_ascii_lowercase());
    begins && word.len() <= Unit::MAX_LEN && word.bytes().all(allowed) && word != "per"
}

impl Default for Unit {
    fn default() -> Self {
        Unit::REQUESTS
    }
}

impl FromStr for Unit {
    type Err = UnitError;

    fn from_str(word: &str) -> Result<Self, UnitError> {
        Unit::new(word)
    }
}

impl Borrow<str> for Unit {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq<str> for Unit {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Unit {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl fmt::Debug for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unit({})", self.as_str())
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The error of a text that cannot be a [`Unit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitError {
    value: String,
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnitError { value } = self;
        write!(
            f,
            "unit: `{value}`; a unit is a word of 1 to 32 of a-z 0-9 _ - that begins with a letter, and not `per`"
        )
    }
}

impl std::error::Error for UnitError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_small_and_short() {
        for word in ["tokens", "input-tokens", "gpu_ms", "a", "t2"] {
            assert_eq!(Unit::new(word).unwrap().as_str(), word);
        }
        let long = "a".repeat(33);
        for wrong in ["", "Tokens", "2t", "-a", "per", "größe", "a b", "a.b", long.as_str()] {
            assert!(Unit::new(wrong).is_err(), "{wrong}");
        }
        assert!(Unit::new(&"a".repeat(32)).is_ok());
    }

    #[test]
    fn the_words_of_the_two_that_are_there_already_mean_those() {
        assert_eq!(Unit::new("requests").unwrap(), Unit::REQUESTS);
        assert_eq!(Unit::new("concurrent").unwrap(), Unit::CONCURRENT);
    }
}
