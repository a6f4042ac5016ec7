//! State across a restart: a file that is written on stop, and now and then before, and read on start.
//!
//! Beside the file there may be `FILE.part`, which is being written; `FILE.lock`, which shows that a server uses it; and
//! `FILE.damaged-<time>` or `FILE.version-<time>`, which could not be read.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ratekeeper::MemoryStore;
use ratekeeper::store::{MemoryStoreBuilder, SnapshotError};

use crate::engine::Engine;
use crate::error::{Explain, ServerError};
use crate::watch::{EventKind, EventLevel};
use crate::watcher::is_no_file;

/// How a snapshot begins, of whatever version.
const MAGIC: &[u8] = b"RKMEM\0";
/// How many files that could not be read are kept, of each kind.
const KEPT: usize = 5;

/// A file of state, locked for this process.
#[derive(Debug)]
pub struct Snapshot {
    path: PathBuf,
    /// Locked as long as it is open. Never removed, because another process may have locked it meanwhile.
    _lock: Option<File>,
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
        // Opening a pipe may take for ever, and a device must not be moved aside.
        for path in [path, &beside(path, ".lock")] {
            if is_no_file(path) {
                let (failed, path) = (failed(), path.display());
                return Err(ServerError::new(format!("{failed}: {path} is no regular file; name another")));
            }
        }
        let lock = lock(path)?;
        let snapshot = Snapshot { path: path.to_owned(), _lock: lock };
        // A new file, because writing into an old one shows nothing about the folder.
        let part = snapshot.beside(".part");
        match fs::remove_file(&part) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error).explain(failed),
            _ => {}
        }
        private().create_new(true).open(&part).explain(failed)?;
        fs::remove_file(&part).explain(failed)?;
        Ok(snapshot)
    }

    /// Builds the store that the file holds, or an empty one if there is no file yet. A file that cannot be understood is
    /// moved aside: limits start afresh, and the service starts.
    ///
    /// # Errors
    ///
    /// The file cannot be read or moved, or holds more than the store may.
    pub fn restore(&self, builder: impl Fn() -> MemoryStoreBuilder) -> Result<MemoryStore, ServerError> {
        let path = self.path.display();
        let bytes = match fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(builder().build()),
            Err(error) => return Err(error).explain(|| format!("--snapshot {path}: cannot be read")),
        };
        match builder().restore(&bytes) {
            Ok(store) => {
                tracing::info!(keys = store.len(), %path, "snapshot: restored");
                Ok(store)
            }
            Err(error @ (SnapshotError::Foreign | SnapshotError::Truncated | SnapshotError::Damaged)) => {
                let is_whole = error == SnapshotError::Foreign && bytes.starts_with(MAGIC);
                let aside = self.set_aside(if is_whole { ".version-" } else { ".damaged-" })?;
                let aside = aside.display();
                tracing::error!(%error, %path, %aside, "snapshot: cannot be read, moved aside; limits start afresh");
                Ok(builder().build())
            }
            // The file is right, and a setting is wrong.
            Err(error) => Err(error).explain(|| format!("--snapshot {path}")),
        }
    }

    /// Writes the store to the file: whole or not at all, and readable by its owner alone, because the secret seed of the
    /// hashes is in it. Shards are locked one after the other, and none while anything is written.
    ///
    /// # Errors
    ///
    /// The file cannot be written; the old one is still there.
    pub fn write(&self, store: &MemoryStore) -> Result<(), ServerError> {
        let failed = || format!("--snapshot {}: cannot be written", self.path.display());
        let part = self.beside(".part");
        let mut file = private().create(true).truncate(true).open(&part).explain(failed)?;
        let written = file
            .write_all(&store.snapshot())
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&part, &self.path));
        if written.is_err() {
            // Half a snapshot is of no use, and the disk may be full.
            let _ = fs::remove_file(&part);
        }
        written.explain(failed)?;
        // The name must survive a loss of power too. Not every system can sync a folder.
        #[cfg(unix)]
        let _ = File::open(folder(&self.path)).and_then(|folder| folder.sync_all());
        Ok(())
    }

    /// Writes the store of an engine once per interval, on a thread of its own, until the result is stopped.
    ///
    /// # Errors
    ///
    /// A thread cannot be started.
    pub fn write_every(
        self: &Arc<Self>,
        interval: Duration,
        engine: &Arc<Engine>,
    ) -> Result<PeriodicSnapshot, ServerError> {
        let (stop, told) = mpsc::channel();
        let (snapshot, engine) = (Arc::clone(self), Arc::clone(engine));
        let work = move || {
            // One that follows a success is no news.
            let mut was_written = None;
            while told.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                let Some(store) = engine.memory() else { return };
                let (events, before) = (engine.events(), was_written);
                match snapshot.write(store) {
                    Ok(()) => {
                        tracing::debug!(keys = store.len(), "snapshot: state written");
                        was_written = Some(true);
                        if before != was_written {
                            let text = format!(
                                "state written, {} states; it is written again and again",
                                store.len()
                            );
                            events.note(EventKind::Snapshot, EventLevel::Info, text);
                        }
                    }
                    Err(error) => {
                        tracing::error!(error = format!("{error:#}"), "snapshot: state not written");
                        was_written = Some(false);
                        if before != was_written {
                            let text = format!("state not written: {error:#}");
                            events.note(EventKind::Snapshot, EventLevel::Error, text);
                        }
                    }
                }
            }
        };
        let thread = thread::Builder::new().name("snapshot".into()).spawn(work);
        Ok(PeriodicSnapshot { stop, thread: thread.explain(|| "cannot start a thread")? })
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

/// A thread that writes a snapshot once per interval.
#[derive(Debug)]
pub struct PeriodicSnapshot {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl PeriodicSnapshot {
    /// Stops writing. Waits for a snapshot that is being written.
    pub fn stop(self) {
        drop(self.stop);
        // A panic was reported by its thread.
        let _ = self.thread.join();
    }
}

/// Locks the file against other servers; `None` if the file system has no locks.
fn lock(path: &Path) -> Result<Option<File>, ServerError> {
    let failed = || format!("--snapshot {}: cannot be written", path.display());
    let name = beside(path, ".lock");
    let file = private().create(true).open(&name).explain(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Err(ServerError::new(format!(
            "--snapshot {}: another server uses it ({} is locked); give each server a file of its own",
            path.display(),
            name.display()
        ))),
        Err(TryLockError::Error(error)) => {
            tracing::warn!(%error, path = %name.display(), "snapshot: cannot be locked, let no other server use it");
            Ok(None)
        }
    }
}

/// Milliseconds since the epoch.
fn millis() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_millis()
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}

/// To be written, for this user alone.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
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
                thread::yield_now();
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
