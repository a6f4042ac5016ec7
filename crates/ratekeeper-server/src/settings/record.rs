//! How requests are recorded.

use std::path::PathBuf;

/// How requests are recorded: where, how many of them, and how much is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSettings {
    /// The file that is written. Older ones lie beside it: `FILE.1`, `FILE.2` and so on.
    pub path: PathBuf,
    /// Of how many keys in a million all requests are recorded.
    pub sample: u32,
    /// The most bytes of one file.
    pub max_bytes: u64,
    /// The most files, the one that is written included; at least one.
    pub files: usize,
    /// How keys are written.
    pub keys: RecordedKeys,
}

/// Returns true if what has this hash is in a sample of so many in a [million](RecordSettings::WHOLE): the hash as a fraction.
pub(crate) fn is_in_sample(hash: u64, millionths: u32) -> bool {
    (u128::from(hash) * u128::from(RecordSettings::WHOLE)) >> 64 < u128::from(millionths)
}

/// How the keys of recorded requests are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordedKeys {
    /// As a hash under a secret of the file: keys are personal data.
    #[default]
    Hashed,
    /// As they are.
    Clear,
}

impl RecordSettings {
    /// All of them.
    pub const WHOLE: u32 = 1_000_000;
    /// The bytes of one file unless somebody decides otherwise.
    pub const DEFAULT_MAX_BYTES: u64 = 100_000_000;
    /// The files that are kept unless somebody decides otherwise.
    pub const DEFAULT_FILES: usize = 5;

    /// Returns the settings of a record in this file, with the defaults.
    pub fn to(path: PathBuf) -> Self {
        RecordSettings {
            path,
            sample: Self::WHOLE,
            max_bytes: Self::DEFAULT_MAX_BYTES,
            files: Self::DEFAULT_FILES,
            keys: RecordedKeys::default(),
        }
    }
}
