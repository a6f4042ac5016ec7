//! What rules and plans are called.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::quota::{QuotaError, QuotaErrorKind, shorten};

/// The name of a rule or a plan: 1 to 64 of the characters `A-Z a-z 0-9 _ - : . @ +`.
///
/// So few, because a name is written as it is into state, into keys, into headers and into log lines, and none of
/// these may need to quote it. A clone shares the text.
///
/// ```
/// use ratekeeper::Name;
/// let hourly: Name = "hourly".parse()?;
/// assert_eq!(hourly.as_str(), "hourly");
/// assert_eq!(
///     Name::new("per hour").unwrap_err().to_string(),
///     "name: `per hour`; 1 to 64 characters of A-Z a-z 0-9 _ - : . @ +",
/// );
/// # Ok::<(), ratekeeper::QuotaError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// The longest name, in bytes.
    pub const MAX_LEN: usize = 64;

    pub(crate) const REMEDY: &str = "1 to 64 characters of A-Z a-z 0-9 _ - : . @ +";

    /// A name of this text, if every character of it may be in one.
    pub fn new(text: &str) -> Result<Self, QuotaError> {
        if !Self::is_valid(text) {
            let value = format!("`{}`", shorten(text));
            return Err(QuotaError::new(QuotaErrorKind::Name, "name", value, Self::REMEDY));
        }
        Ok(Name(text.into()))
    }

    fn is_valid(text: &str) -> bool {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-:.@+".contains(&byte);
        (1..=Self::MAX_LEN).contains(&text.len()) && text.bytes().all(allowed)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = QuotaError;

    fn from_str(text: &str) -> Result<Self, QuotaError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_are_inclusive() {
        assert!(Name::new(&"n".repeat(64)).is_ok());
        let error = Name::new(&"n".repeat(65)).unwrap_err();
        assert_eq!(error.kind(), QuotaErrorKind::Name);
        assert_eq!(Name::new("").unwrap_err().value(), "``");
    }

    #[test]
    fn every_byte_is_in_or_out() {
        let allowed: String =
            (0..=127u8).map(char::from).filter(|c| Name::new(&c.to_string()).is_ok()).collect();
        assert_eq!(allowed, "+-.0123456789:@ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz");
        assert!(Name::new("größe").is_err());
    }
}
