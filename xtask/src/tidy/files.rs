//! The files of the workspace, without asking git: a source archive has none.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// All files below `root`, relative to it and sorted, except what git and builds keep for themselves.
pub(crate) fn list(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(root.join(&directory))? {
            let entry = entry?;
            let path = directory.join(entry.file_name());
            let kind = entry.file_type()?;
            if kind.is_dir() && !is_foreign(&entry.path()) {
                open.push(path);
            } else if kind.is_file() {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Cargo tags its target directories, whatever their name, as caches.
fn is_foreign(directory: &Path) -> bool {
    let name = directory.file_name().unwrap_or_default();
    name == ".git" || name == "target" || directory.join("CACHEDIR.TAG").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_listed_and_build_output_is_not() {
        let root = std::env::temp_dir().join(format!("xtask-files-{}", std::process::id()));
        for file in ["src/deep/a.rs", "README.md", "target/x.rs", "out/CACHEDIR.TAG", "out/y.rs", ".git/z.md"]
        {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        assert_eq!(list(&root).unwrap(), [Path::new("README.md"), Path::new("src/deep/a.rs")]);
        fs::remove_dir_all(root).unwrap();
    }
}
