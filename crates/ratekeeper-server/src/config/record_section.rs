//! `[record]`: requests that are recorded.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use serde::Deserialize;

use super::units::{ByteSize, SampleShare};
use crate::settings::RecordedKeys;

/// `[record]`: requests that are recorded, for `ratekeeper simulate`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct RecordSection {
    /// The file that is written.
    pub file: Option<PathBuf>,
    /// The share of keys whose requests are recorded; all of them unless set.
    pub sample: Option<SampleShare>,
    /// The most bytes of one file.
    pub max_bytes: Option<ByteSize>,
    /// How many files are kept.
    pub files: Option<NonZeroUsize>,
    /// How keys are written.
    pub keys: Option<RecordKeys>,
}

/// How keys are written: [`RecordedKeys`] as flags and files spell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordKeys {
    /// As hashes under a secret of the file.
    Hashed,
    /// As they are.
    Clear,
}

impl From<RecordKeys> for RecordedKeys {
    fn from(word: RecordKeys) -> Self {
        match word {
            RecordKeys::Hashed => RecordedKeys::Hashed,
            RecordKeys::Clear => RecordedKeys::Clear,
        }
    }
}
