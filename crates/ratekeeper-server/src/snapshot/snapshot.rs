//! The file of state: opened, read, written.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ratekeeper::MemoryStore;
use ratekeeper::store::{MemoryStoreBuilder, SnapshotError};

use super::owner_lock::OwnerLock;
use crate::error::{AnyError, Explain, ServerError};
use crate::files::{beside, folder, private, remove, sync_folder};
use crate::watch::{LogThrottle, SnapshotCounts};
use crate::watcher::is_no_file;

/// How a snapshot begins, of whatever version.
const MAGIC: &[u8] = b"RKMEM\0";
/// How many files that could not be read are kept, of each kind.
const KEPT: usize = 5;

/// A file of state, locked for this process.
#[derive(Debug)]
pub struct Snapshot {
    path: PathBuf,
    /// Held while the file is written, too: by one thread at a time.
    lock: Mutex<OwnerLock>,
    counts: SnapshotCounts,
    before_lines: LogThrottle,
}

/// What is in a file.
enum Restored {
    /// A store, and when it was written.
    Store(Box<MemoryStore>, SystemTime),
    /// There is no such file.
    Nothing,
    /// It cannot be read; true if another version wrote it.
    Unreadable(AnyError, bool),
}

impl Snapshot {
    /// Locks the file for this process, and makes sure that it can be written.
    ///
    /// # Errors
    ///
    /// Another server uses the file, or it cannot be written.
    pub fn open(path: &Path) -> Result<Self, ServerError> {
        let failed = || format!("--snapshot {}: cannot be written", path.display());
        if path.is_dir() {
            return Err(ServerError::new(format!("{}: it is a folder; name a file in it", failed())));
        }
        let lock = beside(path, ".lock");
        // Opening a pipe may take for ever, and a device must not be moved aside.
        for path in [path, &lock] {
            if is_no_file(path) {
                let (failed, path) = (failed(), path.display());
                return Err(ServerError::new(format!("{failed}: {path} is no regular file; name another")));
            }
        }
        let snapshot = Snapshot {
            path: path.to_owned(),
            lock: Mutex::new(OwnerLock::take(path, &lock)?),
            counts: SnapshotCounts::default(),
            before_lines: LogThrottle::each_minute(),
        };
        // A new file, because writing into an old one shows nothing about the folder.
        let part = snapshot.beside(".part");
        remove(&part).explain(failed)?;
        private().create_new(true).open(&part).explain(failed)?;
        fs::remove_file(&part).explain(failed)?;
        Ok(snapshot)
    }

    /// Returns what is counted of this file, to be given to the [engine](crate::Engine::with_snapshot) of the server.
    pub fn counts(&self) -> &SnapshotCounts {
        &self.counts
    }

    /// Builds the store that the file holds, or an empty one if there is no file yet. A file that cannot be read is moved
    /// aside, and the one before it is used. If that is of no use either, limits start afresh; the service starts in any
    /// case.
    ///
    /// # Errors
    ///
    /// The file cannot be moved, or holds more than the store may.
    pub fn restore(&self, builder: impl Fn() -> MemoryStoreBuilder) -> Result<MemoryStore, ServerError> {
        let (path, before) = (self.path.display(), self.beside(".before"));
        let (error, is_whole) = match self.read(&self.path, &builder)? {
            Restored::Store(store, written) => {
                self.counts.restored(written);
                tracing::info!(keys = store.len(), age = ?age(written), %path, "snapshot: restored");
                return Ok(*store);
            }
            Restored::Nothing => {
                if before.exists() {
                    // Somebody has removed the file: writing it never does.
                    let before = before.display();
                    tracing::warn!(%path, "snapshot: there is none; rename {before} to use the one before");
                }
                return Ok(builder().build());
            }
            Restored::Unreadable(error, is_whole) => (error, is_whole),
        };
        let aside = self.set_aside(if is_whole { ".version-" } else { ".damaged-" })?;
        let (aside, before_path) = (aside.display(), before.display());
        match self.read(&before, &builder)? {
            Restored::Store(store, written) => {
                self.counts.restored(written);
                tracing::warn!(
                    %error, %path, %aside, before = %before_path, keys = store.len(), age = ?age(written),
                    "snapshot: cannot be read, moved aside; the one before is used"
                );
                return Ok(*store);
            }
            Restored::Unreadable(error, _) => {
                // It stays, until two others have been written.
                tracing::error!(%error, path = %before_path, "snapshot: the one before cannot be read either");
            }
            Restored::Nothing => {}
        }
        tracing::error!(%error, %path, %aside, "snapshot: cannot be read, moved aside; limits start afresh");
        Ok(builder().build())
    }

    /// Reads a file, and counts one that cannot be read.
    fn read(&self, path: &Path, builder: &impl Fn() -> MemoryStoreBuilder) -> Result<Restored, ServerError> {
        let written = || path.metadata().and_then(|metadata| metadata.modified()).unwrap_or(UNIX_EPOCH);
        let unreadable = |error: AnyError, is_whole| {
            self.counts.unreadable();
            Ok(Restored::Unreadable(error, is_whole))
        };
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Restored::Nothing),
            Err(error) => return unreadable(error.into(), false),
        };
        match builder().restore(&bytes) {
            Ok(store) => Ok(Restored::Store(Box::new(store), written())),
            Err(error @ (SnapshotError::Foreign | SnapshotError::Truncated | SnapshotError::Damaged)) => {
                let is_whole = error == SnapshotError::Foreign && bytes.starts_with(MAGIC);
                unreadable(error.into(), is_whole)
            }
            // The file is right, and a setting is wrong.
            Err(error) => Err(error).explain(|| format!("--snapshot {}", path.display())),
        }
    }

    /// Writes the store to the file: whole or not at all, and readable by its owner alone, because the secret seed of the
    /// hashes is in it. The file that was there is kept as the one before. Shards are locked one after the other, and none
    /// while anything is written. Returns how many bytes were written.
    ///
    /// # Errors
    ///
    /// The file cannot be written, or is another server's by now; the old one is still there.
    pub fn write(&self, store: &MemoryStore) -> Result<usize, ServerError> {
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let began = Instant::now();
        let written = lock.keep().and_then(|()| {
            let bytes = store.snapshot();
            let written = self.replace(&bytes).map(|()| bytes.len());
            written.explain(|| format!("--snapshot {}: cannot be written", self.path.display()))
        });
        match &written {
            Ok(bytes) => self.counts.succeeded(*bytes, began.elapsed()),
            Err(_) => self.counts.failed(),
        }
        written
    }

    /// Writes another file, and puts it in the place of the old one.
    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        let part = self.beside(".part");
        let mut file = private().create(true).truncate(true).open(&part)?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        if written.is_ok() {
            self.keep_before();
        }
        let renamed = written.and_then(|()| fs::rename(&part, &self.path));
        if renamed.is_err() {
            // Half a snapshot is of no use, and the disk may be full.
            let _ = fs::remove_file(&part);
        }
        renamed.and_then(|()| sync_folder(&self.path))
    }

    /// Keeps the file under another name, before it is replaced. At no time there is none.
    fn keep_before(&self) {
        let before = self.beside(".before");
        let kept = remove(&before).and_then(|()| match fs::hard_link(&self.path, &before) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            // Not every file system can have two names for a file.
            Err(_) => fs::copy(&self.path, &before).map(drop).inspect_err(|_| drop(remove(&before))),
            Ok(()) => Ok(()),
        });
        if let Err(error) = kept
            && self.before_lines.is_due().is_some()
        {
            let path = before.display();
            tracing::warn!(%error, %path, "snapshot: the one before is not kept");
        }
    }

    /// Moves the file to a name of its own, and removes the oldest such file if there are many.
    fn set_aside(&self, kind: &str) -> Result<PathBuf, ServerError> {
        // The same number of digits for centuries to come, so that names sort by time.
        let aside = self.beside(&format!("{kind}{:014}", millis()));
        let failed = || format!("--snapshot {}: cannot be read, nor moved aside", self.path.display());
        fs::rename(&self.path, &aside).explain(failed)?;
        let prefix = self.beside(kind);
        let entries = fs::read_dir(folder(&self.path)).explain(failed)?;
        let mut found: Vec<PathBuf> = entries
            .filter_map(|entry| Some(self.path.with_file_name(entry.ok()?.file_name())))
            .filter(|path| {
                path.as_os_str().as_encoded_bytes().starts_with(prefix.as_os_str().as_encoded_bytes())
            })
            .collect();
        found.sort();
        for oldest in found.iter().rev().skip(KEPT) {
            // One file too many does no harm.
            let _ = fs::remove_file(oldest);
        }
        Ok(aside)
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        beside(&self.path, suffix)
    }
}

/// Milliseconds since the epoch.
fn millis() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_millis()
}

/// How long ago that was.
fn age(written: SystemTime) -> Duration {
    SystemTime::now().duration_since(written).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn of_the_files_that_cannot_be_read_the_newest_are_kept() {
        let folder = std::env::temp_dir().join(format!("ratekeeper-aside-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("state");
        // Not a name of ours, though it begins like one.
        fs::write(folder.join("state.damages"), "").unwrap();
        let snapshot = Snapshot::open(&path).unwrap();
        let mut last = PathBuf::new();
        for round in 0..KEPT + 3 {
            fs::write(&path, format!("damaged {round}")).unwrap();
            last = snapshot.set_aside(".damaged-").unwrap();
            // Two in one millisecond have one name.
            while beside(&path, &format!(".damaged-{:014}", millis())) == last {
                std::thread::yield_now();
            }
        }
        let names = files(&folder);
        let aside: Vec<&String> = names.iter().filter(|name| name.starts_with("state.damaged-")).collect();
        assert_eq!(aside.len(), KEPT, "{names:?}");
        assert_eq!(fs::read_to_string(&last).unwrap(), format!("damaged {}", KEPT + 2));
        assert!(names.contains(&"state.damages".to_owned()) && names.contains(&"state.lock".to_owned()));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_one_before_is_kept_and_a_lock_that_was_removed_is_taken_again() {
        let folder = std::env::temp_dir().join(format!("ratekeeper-before-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("state");
        let snapshot = Snapshot::open(&path).unwrap();
        snapshot.write(&MemoryStore::default()).unwrap();
        assert_eq!(files(&folder), ["state", "state.lock"], "there was none before");
        let first = fs::read(&path).unwrap();
        fs::write(beside(&path, ".part"), "of a process that was killed").unwrap();
        snapshot.write(&MemoryStore::default()).unwrap();
        assert_eq!(files(&folder), ["state", "state.before", "state.lock"]);
        assert_eq!(fs::read(beside(&path, ".before")).unwrap(), first);

        fs::remove_dir_all(&folder).unwrap();
        assert!(snapshot.write(&MemoryStore::default()).is_err());
        fs::create_dir(&folder).unwrap();
        let other = Snapshot::open(&path).unwrap();
        let error = snapshot.write(&MemoryStore::default()).unwrap_err().to_string();
        assert!(error.contains("another server uses it"), "{error}");
        drop(other);
        snapshot.write(&MemoryStore::default()).unwrap();
        let error = Snapshot::open(&path).unwrap_err().to_string();
        assert!(error.contains("another server uses it"), "{error}");
        let counted = snapshot.counts().read();
        assert_eq!((counted.succeeded, counted.failed), (3, 2));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_cannot_be_written_leaves_no_half_of_it() {
        let folder = std::env::temp_dir().join(format!("ratekeeper-part-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("state");
        let snapshot = Snapshot::open(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(snapshot.write(&MemoryStore::default()).is_err());
        assert_eq!(files(&folder), ["state", "state.lock"]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
