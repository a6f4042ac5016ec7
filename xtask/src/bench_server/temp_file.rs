//! A file that a server reads, and that ends with this.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

/// A file in a folder of its own.
pub(super) struct TempFile {
    folder: PathBuf,
    file: PathBuf,
}

impl TempFile {
    pub(super) fn new(name: &str, text: &str) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("ratekeeper-bench-{}", std::process::id()));
        let file = folder.join(name);
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(&file, text))
            .context("no file can be written")?;
        Ok(TempFile { folder, file })
    }

    pub(super) fn path(&self) -> String {
        self.file.display().to_string()
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
