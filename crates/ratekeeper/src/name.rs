//! Names of rules and plans.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::quote::shorten;

/// The name of a rule or a plan: 1 to 64 of the characters `A-Z a-z 0-9 _ - : . @ +`.
///
/// No others, because a name is written unquoted into stored state, keys, headers and log lines. Cloning is cheap: clones
/// share the text.
///
/// ```
/// use ratekeeper::Name;
/// let hourly: Name = "hourly".parse()?;
/// assert_eq!(hourly.as_str(), "hourly");
/// assert_eq!(
///     Name::new("per hour").unwrap_err().to_string(),
///     "name: `per hour`; 1 to 64 characters of A-Z a-z 0-9 _ - : . @ +",
/// );
/// # Ok::<(), ratekeeper::NameError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// The longest name, in bytes.
    pub const MAX_LEN: usize = 64;

    pub(crate) const REMEDY: &str = "1 to 64 characters of A-Z a-z 0-9 _ - : . @ +";

    /// Returns a name of this text. Allocates once.
    ///
    /// # Errors
    ///
    /// If the text is empty, longer than [64](Name::MAX_LEN) bytes, or has a character that is not allowed.
    pub fn new(text: &str) -> Result<Self, NameError> {
        if !Self::is_valid(text) {
            return Err(NameError { value: shorten(text) });
        }
        Ok(Name(text.into()))
    }

    fn is_valid(text: &str) -> bool {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-:.@+".contains(&byte);
        (1..=Self::MAX_LEN).contains(&text.len()) && text.bytes().all(allowed)
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Name::new(text)
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        *self.0 == *other
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        *self.0 == **other
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({})", self.0)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The error of a text that cannot be a [`Name`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameError {
    value: String,
}

impl NameError {
    /// Returns the text that was given, printable and at most 64 characters of it.
    pub fn value(&self) -> &str {
        &self.value
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "name: `{}`; {}", self.value, Name::REMEDY)
    }
}

impl std::error::Error for NameError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_are_inclusive() {
        assert!(Name::new(&"n".repeat(64)).is_ok());
        assert!(Name::new(&"n".repeat(65)).is_err());
        assert_eq!(Name::new("").unwrap_err().to_string(), format!("name: ``; {}", Name::REMEDY));
    }

    #[test]
    fn every_byte_is_in_or_out() {
        let allowed: String =
            (0..=127u8).map(char::from).filter(|c| Name::new(&c.to_string()).is_ok()).collect();
        assert_eq!(allowed, "+-.0123456789:@ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz");
        assert!(Name::new("größe").is_err());
    }
}
