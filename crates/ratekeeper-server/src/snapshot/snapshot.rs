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
use crate::files::{beside, folder, followed, is_unsynced, private, remove, sync_folder};
use crate::watch::{EventKind, EventLevel, EventLog, LogThrottle, SnapshotCounts};
use crate::watcher::is_no_file;

/// How a snapshot begins, of whatever version.
const MAGIC: &[u8] = b"RKMEM\0";
/// How many files that could not be read are kept, of each kind.
const KEPT: usize = 5;
/// What a system says if the disk cannot give back what was written.
const EIO: i32 = 5;

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
        // Two names of one file have one lock, and a link stays one.
        let path = &*followed(path);
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
        if is_unsynced(path) {
            let path = folder(path).display();
            tracing::warn!(%path, "snapshot: the folder cannot be synced, because it cannot be read; a loss of power may bring an older file back");
        }
        Ok(snapshot)
    }

    /// Returns what is counted of this file, to be given to the [engine](crate::Engine::with_snapshot) of the server.
    pub fn counts(&self) -> &SnapshotCounts {
        &self.counts
    }

    /// Builds the store that the file holds, or an empty one if there is no file yet. A file whose bytes are wrong is moved
    /// aside, and the one before it takes its place, so that the next start finds it whatever becomes of this one. If that is
    /// of no use either, limits start afresh; the service starts in any case. Operators are told by `events`.
    ///
    /// # Errors
    ///
    /// The file cannot be opened or moved, or one of the two holds more than the store may. Nothing was moved then.
    pub fn restore(
        &self,
        builder: impl Fn() -> MemoryStoreBuilder,
        events: &EventLog,
    ) -> Result<MemoryStore, ServerError> {
        let (path, before) = (self.path.display(), self.beside(".before"));
        let note = |level, text: String| events.note(EventKind::Snapshot, level, text);
        let (error, is_whole) = match self.read(&self.path, &builder)? {
            Restored::Store(store, written) => {
                self.counts.restored(written);
                let (keys, age) = (store.len(), age(written));
                tracing::info!(keys, ?age, %path, "snapshot: restored");
                note(EventLevel::Info, format!("state restored: {keys} keys, {age:.1?} old"));
                return Ok(*store);
            }
            Restored::Nothing => {
                if before.exists() {
                    // Somebody has removed the file, or neither could be read at the last start.
                    let before = before.display();
                    tracing::warn!(%path, "snapshot: there is none; rename {before} to use the one before");
                    note(EventLevel::Warn, "there is no file of state, only the one before it".to_owned());
                }
                return Ok(builder().build());
            }
            Restored::Unreadable(error, is_whole) => (error, is_whole),
        };
        // Before anything is moved: a setting may be wrong, which is the file's fault no more than this one's.
        let kept = self.read(&before, &builder)?;
        let unused = || format!("--snapshot {path}: {} cannot take its place", before.display());
        let part = match kept {
            // Nothing is moved if there is no room for it.
            Restored::Store(..) => Some(self.stage(&before).explain(unused)?),
            _ => None,
        };
        let aside = self.set_aside(if is_whole { ".version-" } else { ".damaged-" })?;
        let (aside, before_path) = (aside.display(), before.display());
        match kept {
            Restored::Store(store, written) => {
                part.map_or(Ok(()), |part| self.put(&part)).explain(unused)?;
                self.counts.restored(written);
                let (keys, age) = (store.len(), age(written));
                tracing::warn!(
                    %error, %path, %aside, before = %before_path, keys, ?age,
                    "snapshot: cannot be read, moved aside; the one before is used"
                );
                note(
                    EventLevel::Warn,
                    format!(
                        "state cannot be read: {error}; the one before is used: {keys} keys, {age:.1?} old"
                    ),
                );
                return Ok(*store);
            }
            Restored::Unreadable(error, _) => {
                // It stays, until two others have been written.
                tracing::error!(%error, path = %before_path, "snapshot: the one before cannot be read either");
            }
            Restored::Nothing => {}
        }
        // Nobody may take it for a file of state.
        remove(&self.path).explain(|| format!("--snapshot {path}: cannot be read, nor moved aside"))?;
        tracing::error!(%error, %path, %aside, "snapshot: cannot be read, moved aside; limits start afresh");
        note(EventLevel::Error, format!("state cannot be read: {error}; limits start afresh"));
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
            // The disk has lost it.
            Err(error) if error.raw_os_error() == Some(EIO) => return unreadable(error.into(), false),
            // Nothing is known of its bytes: a right is missing, or memory. It may be whole.
            Err(error) => {
                let problem = "cannot be read; make it readable, or move it away to start afresh";
                return Err(error).explain(|| format!("--snapshot {}: {problem}", path.display()));
            }
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
        let (began, as_of) = (Instant::now(), SystemTime::now());
        let written = lock.keep().and_then(|()| {
            let bytes = store.snapshot();
            let written = self.replace(&bytes, as_of).map(|()| bytes.len());
            written.explain(|| format!("--snapshot {}: cannot be written", self.path.display()))
        });
        match &written {
            Ok(bytes) => self.counts.succeeded(*bytes, began.elapsed()),
            Err(_) => self.counts.failed(),
        }
        written
    }

    /// Writes another file, and puts it in the place of the old one. Its time is the one that its state is of.
    fn replace(&self, bytes: &[u8], as_of: SystemTime) -> io::Result<()> {
        let part = self.beside(".part");
        let mut file = private().create(true).truncate(true).open(&part)?;
        let written = file.write_all(bytes).and_then(|()| {
            // It is only told: not every file system can.
            let _ = file.set_modified(as_of);
            file.sync_all()
        });
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

    /// Keeps the file under another name, before it is replaced. If there is none, the one before stays: at no time there is
    /// neither.
    fn keep_before(&self) {
        let (before, next) = (self.beside(".before"), self.beside(".before.part"));
        let kept = match two_names(&self.path, &next) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            kept => kept.and_then(|()| fs::rename(&next, &before)),
        };
        // Also if all went well: two names of one file are not renamed.
        let _ = remove(&next);
        if let Err(error) = kept
            && self.before_lines.is_due().is_some()
        {
            let path = before.display();
            tracing::warn!(%error, %path, "snapshot: the one before is not kept");
        }
    }

    /// Makes the one before ready to take the place of the file.
    fn stage(&self, before: &Path) -> io::Result<PathBuf> {
        let part = self.beside(".part");
        two_names(before, &part).inspect_err(|_| drop(remove(&part)))?;
        Ok(part)
    }

    /// Puts what is ready in the place of the file.
    fn put(&self, part: &Path) -> io::Result<()> {
        fs::rename(part, &self.path)?;
        // Two names of one file are not renamed.
        remove(part)?;
        sync_folder(&self.path)
    }

    /// Gives the file another name besides, by which it can be looked at, and removes the oldest such file if there are many.
    /// Who calls this puts another in its place, or removes it: in between, a crash leaves all as it was.
    fn set_aside(&self, kind: &str) -> Result<PathBuf, ServerError> {
        // The same number of digits for centuries to come, so that names sort by time.
        let aside = self.beside(&format!("{kind}{:014}", millis()));
        let failed = || format!("--snapshot {}: cannot be read, nor moved aside", self.path.display());
        // What cannot be copied either can be renamed.
        fs::hard_link(&self.path, &aside).or_else(|_| fs::rename(&self.path, &aside)).explain(failed)?;
        let prefix = self.beside(kind);
        // One file too many does no harm.
        let Ok(entries) = fs::read_dir(folder(&self.path)) else { return Ok(aside) };
        let mut found: Vec<PathBuf> = entries
            .filter_map(|entry| Some(self.path.with_file_name(entry.ok()?.file_name())))
            .filter(|path| {
                path.as_os_str().as_encoded_bytes().starts_with(prefix.as_os_str().as_encoded_bytes())
            })
            .collect();
        found.sort();
        for oldest in found.iter().rev().skip(KEPT) {
            let _ = fs::remove_file(oldest);
        }
        Ok(aside)
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        beside(&self.path, suffix)
    }
}

/// Gives a file another name besides.
fn two_names(path: &Path, other: &Path) -> io::Result<()> {
    remove(other)?;
    match fs::hard_link(path, other) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            // Not every file system can have two names for a file.
            fs::copy(path, other).map(drop).and_then(|()| fs::File::open(other)?.sync_all())
        }
        linked => linked,
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
            fs::remove_file(&path).unwrap();
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

    /// The first write after a start without a file removed the only one that there was.
    #[test]
    fn the_one_before_stays_until_there_is_another() {
        let folder = std::env::temp_dir().join(format!("ratekeeper-kept-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("state");
        fs::write(beside(&path, ".before"), "of a newer version").unwrap();
        let snapshot = Snapshot::open(&path).unwrap();
        for _ in 0..2 {
            assert_eq!(fs::read_to_string(beside(&path, ".before")).unwrap(), "of a newer version");
            snapshot.write(&MemoryStore::default()).unwrap();
        }
        assert_eq!(files(&folder), ["state", "state.before", "state.lock"]);
        assert!(fs::read(beside(&path, ".before")).unwrap().starts_with(MAGIC));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_one_before_takes_the_place_of_a_damaged_one_and_is_kept() {
        let folder = std::env::temp_dir().join(format!("ratekeeper-back-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("state");
        let snapshot = Snapshot::open(&path).unwrap();
        (0..2).for_each(|_| assert!(snapshot.write(&MemoryStore::default()).is_ok()));
        let good = fs::read(beside(&path, ".before")).unwrap();
        fs::write(&path, "mumble").unwrap();
        let events = EventLog::default();
        snapshot.restore(MemoryStore::builder, &events).unwrap();
        assert_eq!(events.after(0).len(), 1);
        let is_good = |path: &Path| fs::read(path).unwrap() == good;
        assert!(is_good(&path) && is_good(&beside(&path, ".before")));
        assert_eq!(files(&folder).len(), 4, "and the lock and the damaged one: {:?}", files(&folder));
        // The two are one file now, and two again after the next.
        snapshot.write(&MemoryStore::default()).unwrap();
        assert!(!is_good(&path) && is_good(&beside(&path, ".before")));
        assert_eq!(files(&folder).len(), 4, "{:?}", files(&folder));
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
