//! Finds or installs cargo-fuzz, which builds the targets in `fuzz/`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::run;

/// Pinned: everyone builds targets the same way.
const VERSION: &str = "0.13.2";

/// The cargo-fuzz of an earlier run, that on `PATH` if it is of the same version, or one built now.
pub(crate) fn find_or_install(tools: &Path) -> Result<PathBuf> {
    let (root, common) = (tools.join(format!("cargo-fuzz-{VERSION}")), PathBuf::from("cargo-fuzz"));
    let own = root.join("bin/cargo-fuzz");
    let is_right = |tool: &&PathBuf| version(tool).as_deref() == Some(VERSION);
    if let Some(found) = [&own, &common].into_iter().find(is_right) {
        return Ok(found.clone());
    }
    eprintln!("installing cargo-fuzz {VERSION} into {}", root.display());
    let package = format!("cargo-fuzz@{VERSION}");
    run::succeed(run::cargo().args(["install", "--locked", &package, "--root"]).arg(&root))?;
    version(&own).with_context(|| format!("{} does not run here", own.display()))?;
    Ok(own)
}

/// What a cargo-fuzz says of itself: `cargo-fuzz 0.13.2`.
fn version(tool: &Path) -> Option<String> {
    let said = run::quiet(Command::new(tool).args(["fuzz", "--version"]))?;
    said.split_whitespace().nth(1).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_else_is_no_cargo_fuzz() {
        assert_eq!(version(Path::new("/bin/false")), None);
        assert_eq!(version(Path::new("/nowhere/cargo-fuzz")), None);
        // It repeats its arguments, and the second of them is no version.
        assert_ne!(version(Path::new("echo")).as_deref(), Some(VERSION));
    }
}
