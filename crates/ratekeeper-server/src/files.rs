//! Files that a server writes.

use std::ffi::OsString;
#[cfg(unix)]
use std::fs::File;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Removes a file, if there is one.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Returns true if there is no room for what was to be written, which nobody has to restart a server for.
pub(crate) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), FileTooLarge | QuotaExceeded | StorageFull)
}

/// Makes sure that the name of a file survives a loss of power, too.
#[cfg(unix)]
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    match File::open(folder(path)).and_then(|folder| folder.sync_all()) {
        // Not every file system can do that with a folder, and one that must not be listed cannot be opened.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied
            ) =>
        {
            Ok(())
        }
        synced => synced,
    }
}

/// Returns true if the folder of a file cannot be synced, because this process must not read it.
#[cfg(unix)]
pub(crate) fn is_unsynced(path: &Path) -> bool {
    File::open(folder(path)).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// Nobody syncs a folder.
#[cfg(not(unix))]
pub(crate) fn is_unsynced(_: &Path) -> bool {
    false
}

/// A folder cannot be opened.
#[cfg(not(unix))]
pub(crate) fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Returns where a file is that a symbolic link names; the file need not exist. What is no link is where it is.
pub(crate) fn followed(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    // As many as a system follows.
    for _ in 0..40 {
        match fs::read_link(&path) {
            Ok(target) => path = folder(&path).join(target),
            Err(_) => break,
        }
    }
    path
}

/// Returns the path of a file beside this one: its name, and this after it.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Returns the folder that a file is in.
pub(crate) fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}

/// Returns how a file is opened to be written, by this user alone.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Takes the rights of all but its owner from a file that is there already, as far as this process may.
pub(crate) fn keep_private(path: &Path) {
    #[cfg(unix)]
    if let Ok(metadata) = path.metadata() {
        use std::os::unix::fs::PermissionsExt;
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o077 != 0
            && let Err(error) = fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o700))
        {
            let path = path.display();
            tracing::warn!(%error, %path, "file: others can read or write it, and this cannot be changed");
        }
    }
    #[cfg(not(unix))]
    let _ = path;
}
