//! Temporary files for one test.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A temporary folder, removed when dropped.
pub struct Folder(PathBuf);

impl Folder {
    /// Creates a folder. `name` tells which test it belongs to, and is made unique.
    pub fn new(name: &str) -> Self {
        Self::within(&std::env::temp_dir().join("ratekeeper-tests"), name)
    }

    /// Like [`new`](Folder::new), but in memory if the machine has a file system for that: for tests that sync files often.
    pub fn in_memory(name: &str) -> Self {
        let memory = Path::new("/dev/shm");
        match memory.is_dir() {
            true => Self::within(memory, &format!("ratekeeper-{name}")),
            false => Self::new(name),
        }
    }

    fn within(place: &Path, name: &str) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{name}-{}-{number}", std::process::id());
        let path = place.join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// Returns the path of a file in it.
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Writes a file and returns its path.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
