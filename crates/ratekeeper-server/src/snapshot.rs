//! State across a restart: a file that is written on stop and read on start.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use ratekeeper::MemoryStore;
use ratekeeper::store::MemoryStoreBuilder;

/// The store that a snapshot holds, or an empty one if there is no such file yet.
pub fn restore(builder: MemoryStoreBuilder, path: &Path) -> Result<MemoryStore> {
    match fs::read(path) {
        Ok(bytes) => {
            let store = builder.restore(&bytes).with_context(|| format!("--snapshot {}", path.display()))?;
            tracing::info!(keys = store.len(), path = %path.display(), "restored");
            Ok(store)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(builder.build()),
        Err(error) => Err(error).with_context(|| format!("--snapshot {}: cannot be read", path.display())),
    }
}

/// Writes the store to a file: whole or not at all, and for nobody else's eyes, because the seed of the hashes is
/// in it.
pub fn write(store: &MemoryStore, path: &Path) -> Result<()> {
    let failed = || format!("--snapshot {}: cannot be written", path.display());
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&part).with_context(failed)?;
    file.write_all(&store.snapshot()).and_then(|()| file.sync_all()).with_context(failed)?;
    fs::rename(&part, path).with_context(failed)?;
    tracing::info!(keys = store.len(), path = %path.display(), "state written");
    Ok(())
}
