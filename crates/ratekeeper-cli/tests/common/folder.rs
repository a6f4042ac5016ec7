//! Files of a test's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A folder of a test's own, gone when it ends.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// The name says whose it is; no two are the same.
    pub(crate) fn new(name: &str) -> Self {
        Self::within(Path::new(env!("CARGO_TARGET_TMPDIR")), name)
    }

    /// Like [`new`](Folder::new), but in memory if the machine has a place for that: for what is synced to the disk against
    /// the clock, while others write to the same disk.
    #[allow(dead_code, reason = "not every test measures its disk")]
    pub(crate) fn in_memory(name: &str) -> Self {
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

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Writes a file and returns its path.
    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
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
