//! Why bytes cannot be restored.

use std::fmt;

/// The error of bytes that cannot be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The bytes do not begin as a snapshot of this version does.
    Foreign,
    /// The bytes end too early.
    Truncated,
    /// The bytes are damaged: the checksum does not match, or a field has an impossible value.
    Damaged,
    /// The snapshot holds more states than the store may.
    TooManyKeys {
        /// How many the snapshot holds.
        found: u64,
        /// How many the store may hold.
        max_keys: usize,
    },
    /// The snapshot holds states that take more memory than the store may.
    TooManyBytes {
        /// How many bytes they would take.
        found: usize,
        /// How many bytes the store may take.
        max_bytes: usize,
    },
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotError::Foreign => f.write_str("snapshot: not one of this version; start without it"),
            SnapshotError::Truncated => {
                f.write_str("snapshot: ends too early; it was not written to its end")
            }
            SnapshotError::Damaged => f.write_str("snapshot: damaged; start without it"),
            SnapshotError::TooManyKeys { found, max_keys } => {
                write!(f, "snapshot: {found} live states; the store may hold {max_keys}: raise max_keys")
            }
            SnapshotError::TooManyBytes { found, max_bytes } => {
                write!(
                    f,
                    "snapshot: {found} bytes of live states; the store may take {max_bytes}: raise max_bytes"
                )
            }
        }
    }
}

impl std::error::Error for SnapshotError {}
