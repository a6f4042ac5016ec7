//! The bytes of a key, on the stack.

use std::fmt;

use ratekeeper::{Key, KeyError};

/// Keys up to this length, in bytes, are not allocated: an address, a user's id, a short route.
const INLINE: usize = 64;

/// Hexadecimal digits of the digest that ends a key which was too long.
const DIGEST: usize = 16;

/// A buffer that a key is written into.
///
/// A key has at most 1024 bytes. Of one that would be longer the first 1008 are kept, and a digest of the whole
/// takes the place of the rest: two long keys that begin alike are still two.
#[derive(Clone)]
pub struct KeyBuf {
    inline: [u8; INLINE],
    len: usize,
    /// Everything, once there is more than fits inline.
    spill: Vec<u8>,
    /// FNV-1a of everything that was ever pushed, from the moment there was too much.
    digest: Option<u64>,
}

impl KeyBuf {
    /// Creates an empty buffer. Allocates nothing.
    #[inline]
    pub fn new() -> Self {
        KeyBuf { inline: [0; INLINE], len: 0, spill: Vec::new(), digest: None }
    }

    /// Appends bytes. Allocates once there are more than 64.
    pub fn push(&mut self, bytes: &[u8]) {
        if let Some(digest) = self.digest {
            return self.set_digest(fnv(digest, bytes));
        }
        if self.spill.is_empty() {
            if let Some(room) = self.inline.get_mut(self.len..self.len + bytes.len()) {
                room.copy_from_slice(bytes);
                self.len += bytes.len();
                return;
            }
            self.spill.extend_from_slice(&self.inline[..self.len]);
        }
        let kept = bytes.len().min(Key::MAX_LEN - self.spill.len());
        self.spill.extend_from_slice(&bytes[..kept]);
        if kept < bytes.len() {
            let whole = fnv(FNV_BASIS, &self.spill);
            self.set_digest(fnv(whole, &bytes[kept..]));
        }
    }

    /// Appends the first `len` of these bytes. All of them are copied if there is room, which takes no loop and no call.
    #[inline]
    pub(super) fn push_short(&mut self, bytes: &[u8; 16], len: usize) {
        match self.inline.get_mut(self.len..self.len + bytes.len()) {
            Some(room) if self.spill.is_empty() => {
                room.copy_from_slice(bytes);
                self.len += len;
            }
            _ => self.push(&bytes[..len]),
        }
    }

    fn set_digest(&mut self, digest: u64) {
        self.digest = Some(digest);
        self.spill.truncate(Key::MAX_LEN - DIGEST);
        self.spill.extend_from_slice(format!("{digest:016x}").as_bytes());
    }

    /// Returns the bytes so far.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        if self.spill.is_empty() { &self.inline[..self.len] } else { &self.spill }
    }

    /// Returns the key.
    ///
    /// # Errors
    ///
    /// If nothing was pushed.
    #[inline]
    pub fn key(&self) -> Result<Key<'_>, KeyError> {
        Key::new(self.as_bytes())
    }
}

impl Default for KeyBuf {
    fn default() -> Self {
        KeyBuf::new()
    }
}

impl fmt::Debug for KeyBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyBuf(\"{}\")", self.as_bytes().escape_ascii())
    }
}

impl fmt::Write for KeyBuf {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// Stable from one process to the next, because the key may lie in a store that several share.
fn fnv(basis: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(basis, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(parts: &[&[u8]]) -> Vec<u8> {
        let mut key = KeyBuf::new();
        parts.iter().for_each(|part| key.push(part));
        key.as_bytes().to_vec()
    }

    #[test]
    fn short_and_long_keys_are_what_was_pushed() {
        for length in [1, 63, 64, 65, 1023, 1024] {
            let bytes = vec![b'k'; length];
            assert_eq!(of(&[&bytes]), bytes);
            assert_eq!(of(&[&bytes[..length / 2], &bytes[length / 2..]]), bytes);
        }
        assert!(KeyBuf::new().key().is_err());
    }

    #[test]
    fn keys_that_are_too_long_stay_apart() {
        let long = vec![b'k'; 65_536];
        let other = [&long[..65_535], b"x"].concat();
        assert_eq!(of(&[&long]).len(), Key::MAX_LEN);
        assert_ne!(of(&[&long]), of(&[&other]));
        assert_ne!(of(&[&long, b"a"]), of(&[&long, b"b"]));
        assert_eq!(of(&[&long[..2000], b"a"]), of(&[&long[..1000], &long[..1000], b"a"]));
    }
}
