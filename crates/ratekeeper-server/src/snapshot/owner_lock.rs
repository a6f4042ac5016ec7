//! One server for one file of state.

use std::fs::{File, Metadata, TryLockError};
use std::path::{Path, PathBuf};

use crate::error::{Explain, ServerError};
use crate::files::private;

/// The lock beside a file of state. Released when it is dropped, or when the process ends, however it does.
#[derive(Debug)]
pub(super) struct OwnerLock {
    /// The file of state.
    path: PathBuf,
    /// The file that is locked.
    name: PathBuf,
    /// Locked as long as it is open; none if the file system has no locks. Never removed, because another process may have
    /// locked it meanwhile.
    file: Option<File>,
}

impl OwnerLock {
    /// Locks a file of state against other servers, by the file `name` beside it.
    pub(super) fn take(path: &Path, name: &Path) -> Result<Self, ServerError> {
        let failed = || format!("--snapshot {}: cannot be written", path.display());
        let file = private().create(true).open(name).explain(failed)?;
        let file = match file.try_lock() {
            Ok(()) => Some(file),
            Err(TryLockError::WouldBlock) => {
                return Err(ServerError::new(format!(
                    "--snapshot {}: another server uses it ({} is locked); give each server a file of its own",
                    path.display(),
                    name.display()
                )));
            }
            Err(TryLockError::Error(error)) => {
                let path = name.display();
                tracing::warn!(%error, %path, "snapshot: cannot be locked, let no other server use it");
                None
            }
        };
        Ok(OwnerLock { path: path.to_owned(), name: name.to_owned(), file })
    }

    /// Makes sure that the lock is the one that other servers would find: the folder may have been removed and made again.
    pub(super) fn keep(&mut self) -> Result<(), ServerError> {
        let Some(file) = &self.file else { return Ok(()) };
        let found = self.name.metadata();
        if let (Ok(ours), Ok(found)) = (file.metadata(), found)
            && is_same(&ours, &found)
        {
            return Ok(());
        }
        *self = OwnerLock::take(&self.path, &self.name)?;
        Ok(())
    }
}

#[cfg(unix)]
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Nobody can remove a file that is open.
#[cfg(not(unix))]
fn is_same(_: &Metadata, _: &Metadata) -> bool {
    true
}
