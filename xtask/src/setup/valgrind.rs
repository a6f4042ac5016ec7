//! Finds valgrind, or installs Debian's.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::apt;
use crate::run;

const HELP: &str = "install Debian's package valgrind, or set RATEKEEPER_VALGRIND to its path";

/// Returns the valgrind on `PATH`, or the one that is installed now, with its version.
pub(crate) fn find_or_install(tools: &Path) -> Result<(PathBuf, String)> {
    let valgrind = PathBuf::from("valgrind");
    if let Ok(version) = version(&valgrind) {
        return Ok((valgrind, version));
    }
    let asked = tools.join("valgrind.asked");
    if asked.exists() || !apt::is_possible() {
        bail!("{HELP}");
    }
    std::fs::create_dir_all(tools)?;
    std::fs::write(&asked, "")?;
    apt::install(&["valgrind", "libc6-dbg"])?;
    let version = version(&valgrind)?;
    Ok((valgrind, version))
}

/// Returns its version.
pub(crate) fn version(program: &Path) -> Result<String> {
    let said = run::quiet(Command::new(program).arg("--version"));
    Ok(said.with_context(|| format!("{} does not run here: {HELP}", program.display()))?.trim().to_owned())
}
