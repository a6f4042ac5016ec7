//! Keys as hashes under a secret, so that a record tells who is one and not who it is.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use std::path::Path;

use siphasher::sip::SipHasher13;

use crate::error::{Explain, ServerError};
use crate::files::private;
use crate::settings::RecordSettings;

/// Hashes keys under a secret, and chooses by the hash which of them are recorded: of a key that is, every request is, or its
/// limits could not be tried.
#[derive(Clone, Copy)]
pub(super) struct KeyMask {
    secret: (u64, u64),
    sample: u32,
}

impl std::fmt::Debug for KeyMask {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyMask").field("sample", &self.sample).finish_non_exhaustive()
    }
}

impl KeyMask {
    /// Returns the mask whose secret is in this file, which is made if there is none: the same key has the same hash after a
    /// restart.
    pub(super) fn open(path: &Path, sample: u32) -> Result<Self, ServerError> {
        let shown = path.display();
        let secret = match fs::read_to_string(path) {
            Ok(text) => parse(text.trim()).ok_or_else(|| {
                let problem = "is no secret of 32 hexadecimal digits; remove it, and another is made";
                ServerError::new(format!("--record: {shown} {problem}"))
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make_secret(path).explain(|| format!("--record: {shown}: cannot be written"))?
            }
            Err(error) => return Err(error).explain(|| format!("--record: {shown}: cannot be read")),
        };
        Ok(KeyMask { secret, sample })
    }

    /// Returns the hash of a key that is to be recorded; none if it is not.
    pub(super) fn of(&self, key: &[u8]) -> Option<u64> {
        let mut hasher = SipHasher13::new_with_keys(self.secret.0, self.secret.1);
        hasher.write(key);
        let hash = hasher.finish();
        // The upper half as a fraction: no key is at the edge of what `u32` can say.
        let place = (u128::from(hash) * u128::from(RecordSettings::WHOLE)) >> 64;
        (place < u128::from(self.sample)).then_some(hash)
    }
}

/// Makes a secret, and writes it to a file that only its owner can read.
fn make_secret(path: &Path) -> io::Result<(u64, u64)> {
    // Each has a seed of its own, which the system has made.
    let random = || RandomState::new().hash_one(0_u64);
    let secret = (random(), random());
    let mut file = private().create_new(true).open(path)?;
    writeln!(file, "{:016x}{:016x}", secret.0, secret.1)?;
    file.sync_all()?;
    Ok(secret)
}

fn parse(text: &str) -> Option<(u64, u64)> {
    let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let half = |from: usize| u64::from_str_radix(text.get(from..from + 16)?, 16).ok();
    if is_hex { Some((half(0)?, half(16)?)) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(sample: u32) -> KeyMask {
        KeyMask { secret: (1, 2), sample }
    }

    #[test]
    fn about_as_many_keys_as_wanted_and_always_the_same() {
        let keys: Vec<String> = (0..100_000).map(|number| format!("user:{number}")).collect();
        let count = |sample| keys.iter().filter(|key| mask(sample).of(key.as_bytes()).is_some()).count();
        assert_eq!((count(RecordSettings::WHOLE), count(0)), (100_000, 0));
        let some = count(RecordSettings::WHOLE / 100);
        assert!((800..1_200).contains(&some), "one in a hundred: {some}");
        assert_eq!(some, count(RecordSettings::WHOLE / 100));
    }

    #[test]
    fn a_secret_is_kept() {
        let path = std::env::temp_dir().join(format!("ratekeeper-mask-{}", std::process::id()));
        let (one, two) = (KeyMask::open(&path, 1).unwrap(), KeyMask::open(&path, 1).unwrap());
        assert_eq!(one.secret, two.secret);
        fs::write(&path, "mumble").unwrap();
        let error = KeyMask::open(&path, 1).unwrap_err().to_string();
        assert!(error.contains("32 hexadecimal digits; remove it"), "{error}");
        fs::remove_file(&path).unwrap();
    }
}
