//! Files, and where they go.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Files to be packed, by their paths.
#[derive(Debug, Default)]
pub(super) struct FileTree(Vec<PackedFile>);

#[derive(Debug)]
struct PackedFile {
    path: PathBuf,
    content: Content,
    is_program: bool,
}

#[derive(Debug)]
enum Content {
    Text(Vec<u8>),
    File(PathBuf),
}

impl FileTree {
    /// Adds a file with this text.
    pub(super) fn text(&mut self, path: impl Into<PathBuf>, text: impl Into<Vec<u8>>) {
        self.0.push(PackedFile { path: path.into(), content: Content::Text(text.into()), is_program: false });
    }

    /// Adds a script with this text.
    pub(super) fn script(&mut self, path: impl Into<PathBuf>, text: impl Into<Vec<u8>>) {
        self.0.push(PackedFile { path: path.into(), content: Content::Text(text.into()), is_program: true });
    }

    /// Adds a copy of a file.
    pub(super) fn copy(&mut self, path: impl Into<PathBuf>, from: impl Into<PathBuf>) {
        self.0.push(PackedFile { path: path.into(), content: Content::File(from.into()), is_program: false });
    }

    /// Adds a copy of a program.
    pub(super) fn program(&mut self, path: impl Into<PathBuf>, from: impl Into<PathBuf>) {
        self.0.push(PackedFile { path: path.into(), content: Content::File(from.into()), is_program: true });
    }

    /// Writes all files below a folder, with permissions that do not depend on who writes them.
    pub(super) fn write(&self, root: &Path) -> Result<()> {
        fs::create_dir_all(root.parent().unwrap_or(root))?;
        create(root)?;
        for file in &self.0 {
            let path = root.join(&file.path);
            let mut folder = root.to_owned();
            for part in file.path.parent().into_iter().flatten() {
                folder.push(part);
                create(&folder)?;
            }
            let written = match &file.content {
                Content::Text(text) => fs::write(&path, text),
                Content::File(from) => fs::copy(from, &path).map(|_| ()),
            };
            written.with_context(|| format!("cannot write {}", path.display()))?;
            let mode = if file.is_program { 0o755 } else { 0o644 };
            fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        }
        Ok(())
    }
}

fn create(folder: &Path) -> Result<()> {
    if !folder.is_dir() {
        fs::create_dir(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_written_with_their_permissions() {
        let root = std::env::temp_dir().join(format!("xtask-tree-{}", std::process::id()));
        let mut tree = FileTree::default();
        tree.text("etc/a/b.toml", "b");
        tree.script("bin/run", "#!/bin/sh\n");
        tree.write(&root).unwrap();
        let mode = |path: &str| fs::metadata(root.join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!([mode("etc/a/b.toml"), mode("bin/run"), mode("etc/a")], [0o644, 0o755, 0o755]);
        assert_eq!(fs::read_to_string(root.join("etc/a/b.toml")).unwrap(), "b");
        fs::remove_dir_all(root).unwrap();
    }
}
