//! The key of a request: who is limited.

use std::fmt;

/// The key of a request, by which it is limited: any bytes, 1 to 1024 of them, such as the name of a user.
///
/// Borrowed, because the bytes are already somewhere: in a request, in a read buffer. Building one checks the length and
/// copies nothing.
///
/// ```
/// use ratekeeper::Key;
/// assert!(Key::new("user:42").is_ok());
/// assert!(Key::new(&[0xff, 0x00]).is_ok(), "bytes, not UTF-8");
/// assert_eq!(Key::new("").unwrap_err().to_string(), "key: 0 bytes; a key has 1 to 1024 bytes");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key<'a>(&'a [u8]);

impl<'a> Key<'a> {
    /// The longest key, in bytes.
    pub const MAX_LEN: usize = 1024;

    /// Returns a key of these bytes.
    ///
    /// # Errors
    ///
    /// If there are no bytes, or more than [1024](Key::MAX_LEN).
    #[inline]
    pub fn new<B: AsRef<[u8]> + ?Sized>(bytes: &'a B) -> Result<Self, KeyError> {
        let bytes = bytes.as_ref();
        if bytes.is_empty() || bytes.len() > Self::MAX_LEN {
            return Err(KeyError { len: bytes.len() });
        }
        Ok(Key(bytes))
    }

    /// Returns a key of bytes that were a key before.
    #[inline]
    pub(crate) fn again(bytes: &'a [u8]) -> Self {
        debug_assert!(Self::new(bytes).is_ok());
        Key(bytes)
    }

    /// Returns the bytes of the key.
    #[inline]
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

/// A value that can be made a key: a [`Key`], or any bytes, which may be empty or too long for one.
///
/// ```
/// use ratekeeper::{IntoKey, Key};
/// assert_eq!("user:42".into_key(), Key::new("user:42"));
/// assert!("".into_key().is_err());
/// ```
pub trait IntoKey<'a> {
    /// Returns the key.
    ///
    /// # Errors
    ///
    /// If there are no bytes, or more than [1024](Key::MAX_LEN).
    fn into_key(self) -> Result<Key<'a>, KeyError>;
}

impl<'a> IntoKey<'a> for Key<'a> {
    #[inline]
    fn into_key(self) -> Result<Key<'a>, KeyError> {
        Ok(self)
    }
}

impl<'a, B: AsRef<[u8]> + ?Sized> IntoKey<'a> for &'a B {
    #[inline]
    fn into_key(self) -> Result<Key<'a>, KeyError> {
        Key::new(self)
    }
}

impl fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key(\"{}\")", self.0.escape_ascii())
    }
}

impl fmt::Display for Key<'_> {
    /// Printable characters as they are, everything else escaped: a key never breaks a log line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

/// The error of bytes that cannot be a [`Key`]: there are none, or too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyError {
    /// How many bytes were given.
    pub len: usize,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key: {} bytes; a key has 1 to {} bytes", self.len, Key::MAX_LEN)
    }
}

impl std::error::Error for KeyError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_are_inclusive() {
        assert!(Key::new(&[b'k'; 1024]).is_ok());
        assert_eq!(Key::new(&[b'k'; 1025]).unwrap_err().len, 1025);
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(Key::new(b"a\r\n\xff").unwrap().to_string(), r"a\r\n\xff");
    }
}
