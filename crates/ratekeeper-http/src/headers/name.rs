//! Names that structured fields can carry.

use std::fmt;

use sfv::{ItemSerializer, StringRef};

use super::fields::MAX_NAME;

/// The name of a limit, checked and escaped once, so that writing it per response is a copy.
///
/// Structured-field strings hold printable ASCII only. Another name is refused rather than mapped: two names
/// that a mapping makes equal would make two limits look like one.
///
/// ```
/// use ratekeeper_http::headers::{FieldError, LimitName};
///
/// assert_eq!(LimitName::new("per \"user\"")?.as_field(), r#""per \"user\"""#);
/// assert_eq!(LimitName::new("größe"), Err(FieldError::Unprintable));
/// # Ok::<(), FieldError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LimitName {
    quoted: Box<str>,
}

impl LimitName {
    /// Checks and escapes `name`: 1 to [`MAX_NAME`] characters of printable ASCII.
    ///
    /// # Errors
    ///
    /// If it is empty, longer, or not printable ASCII.
    pub fn new(name: &str) -> Result<Self, FieldError> {
        Ok(LimitName { quoted: ItemSerializer::new().bare_item(string(name)?).finish().into() })
    }

    /// Returns the name in quotes, escaped, as it stands in a field.
    pub fn as_field(&self) -> &str {
        &self.quoted
    }
}

/// Returns `text` as a structured-field string, if it can be one.
pub(super) fn string(text: &str) -> Result<&StringRef, FieldError> {
    if text.is_empty() {
        return Err(FieldError::EmptyName);
    }
    if text.len() > MAX_NAME {
        return Err(FieldError::LongName);
    }
    StringRef::from_str(text).map_err(|_| FieldError::Unprintable)
}

/// Why a field cannot be written. All of these are mistakes of configuration: nothing fails per response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FieldError {
    /// A policy without a name; the draft requires one.
    Unnamed,
    /// A name or unit without a character.
    EmptyName,
    /// A name or unit longer than [`MAX_NAME`] bytes.
    LongName,
    /// A name or unit with a character that is not printable ASCII.
    Unprintable,
    /// A policy over a window of no time: nobody could keep it, and no reader takes it for one.
    EmptyWindow,
    /// A field without policies; structured fields have no empty lists.
    NoPolicies,
    /// A field of more than [`MAX_ENTRIES`](super::MAX_ENTRIES) policies.
    TooManyPolicies,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FieldError::Unnamed => "a policy in a header needs a name",
            FieldError::EmptyName => "a name in a header needs at least one character",
            FieldError::LongName => "a name in a header has at most 256 bytes",
            FieldError::Unprintable => "a name in a header is printable ASCII (space to tilde)",
            FieldError::EmptyWindow => "a policy's window in a header is longer than no time",
            FieldError::NoPolicies => "a policy header needs at least one policy",
            FieldError::TooManyPolicies => "a policy header holds at most 64 policies",
        })
    }
}

impl std::error::Error for FieldError {}

#[cfg(test)]
mod tests {
    use super::super::fields::MAX_ENTRIES;
    use super::*;

    #[test]
    fn names() {
        let field = |name: &str| LimitName::new(name).map(|name| name.as_field().to_owned());
        assert_eq!(field("burst").as_deref(), Ok(r#""burst""#));
        assert_eq!(field(r#"a"b\c"#).as_deref(), Ok(r#""a\"b\\c""#));
        assert_eq!(field(""), Err(FieldError::EmptyName));
        for unprintable in ["\n", "a\0", "\x7f", "é", "日"] {
            assert_eq!(field(unprintable), Err(FieldError::Unprintable), "{unprintable:?}");
        }
        assert!(field(&"x".repeat(MAX_NAME)).is_ok());
        assert_eq!(field(&"x".repeat(MAX_NAME + 1)), Err(FieldError::LongName));
    }

    #[test]
    fn messages_tell_the_real_bounds() {
        assert!(FieldError::LongName.to_string().contains(&MAX_NAME.to_string()));
        assert!(FieldError::TooManyPolicies.to_string().contains(&MAX_ENTRIES.to_string()));
    }
}
