//! Keys as hashes under a secret, so that a record tells who is one and not who it is.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use std::path::Path;

use siphasher::sip::SipHasher13;

use crate::error::{Explain, ServerError};
use crate::files::{beside, is_full, keep_private, private, remove, sync_folder};
use crate::settings::is_in_sample;
use crate::watcher::is_no_file;

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
        // Opening a pipe may take for ever.
        if is_no_file(path) {
            return Err(ServerError::new(format!("--record: {shown} is no regular file; move it away")));
        }
        let secret = match fs::read_to_string(path) {
            // Of a process that was killed before there was a secret in it.
            Ok(text) if text.is_empty() => make_secret(path)?,
            Ok(text) => parse(text.trim()).ok_or_else(|| {
                let problem = "is no secret of 32 hexadecimal digits; remove it, and another is made";
                ServerError::new(format!("--record: {shown} {problem}"))
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => make_secret(path)?,
            Err(error) => return Err(error).explain(|| format!("--record: {shown}: cannot be read")),
        };
        keep_private(path);
        Ok(KeyMask { secret, sample })
    }

    /// Returns the hash of a key that is to be recorded; none if it is not.
    pub(super) fn of(&self, key: &[u8]) -> Option<u64> {
        let mut hasher = SipHasher13::new_with_keys(self.secret.0, self.secret.1);
        hasher.write(key);
        let hash = hasher.finish();
        is_in_sample(hash, self.sample).then_some(hash)
    }
}

/// Makes a secret, and writes it to a file that only its owner can read. If there is no room for it, it lasts as long as this
/// process.
fn make_secret(path: &Path) -> Result<(u64, u64), ServerError> {
    // Each has a seed of its own, which the system has made.
    let random = || RandomState::new().hash_one(0_u64);
    let secret = (random(), random());
    match write_secret(path, secret) {
        Err(error) if is_full(&error) => {
            let path = path.display();
            tracing::error!(%error, %path, "record: the secret cannot be written, keys have other hashes after a restart");
        }
        written => written.explain(|| format!("--record: {}: cannot be written", path.display()))?,
    }
    Ok(secret)
}

/// Writes a secret whole or not at all: half of one would keep every later server from starting.
fn write_secret(path: &Path, secret: (u64, u64)) -> io::Result<()> {
    let part = beside(path, ".part");
    let write = || {
        remove(&part)?;
        let mut file = private().create_new(true).open(&part)?;
        writeln!(file, "{:016x}{:016x}", secret.0, secret.1)?;
        file.sync_all()?;
        fs::rename(&part, path)
    };
    write().inspect_err(|_| drop(remove(&part)))?;
    sync_folder(path)
}

fn parse(text: &str) -> Option<(u64, u64)> {
    let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let half = |from: usize| u64::from_str_radix(text.get(from..from + 16)?, 16).ok();
    if is_hex { Some((half(0)?, half(16)?)) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::RecordSettings;

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
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // Somebody has made it readable to all.
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
            assert_eq!(KeyMask::open(&path, 1).unwrap().secret, one.secret);
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
        fs::write(&path, "mumble").unwrap();
        let error = KeyMask::open(&path, 1).unwrap_err().to_string();
        assert!(error.contains("32 hexadecimal digits; remove it"), "{error}");
        fs::remove_file(&path).unwrap();
    }
}
