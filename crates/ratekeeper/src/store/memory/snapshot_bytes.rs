//! Reading the bytes of a snapshot.

use super::snapshot_error::SnapshotError;
use crate::Timestamp;

/// The bytes that are left to read.
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N], SnapshotError> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(SnapshotError::Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8, SnapshotError> {
        self.take::<1>().map(|[byte]| byte)
    }

    pub(super) fn word(&mut self) -> Result<u64, SnapshotError> {
        self.take().map(u64::from_be_bytes)
    }

    pub(super) fn instant(&mut self) -> Result<Timestamp, SnapshotError> {
        self.take().map(i64::from_be_bytes).map(Timestamp::from_nanos)
    }

    /// Takes a run of bytes that begins with its length, in two bytes.
    pub(super) fn run(&mut self) -> Result<&'a [u8], SnapshotError> {
        let len = u16::from_be_bytes(self.take()?);
        let (run, rest) = self.0.split_at_checked(usize::from(len)).ok_or(SnapshotError::Truncated)?;
        self.0 = rest;
        Ok(run)
    }
}
