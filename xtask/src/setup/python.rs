//! Stock Python clients for the tests that want them, in an environment below the target directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::run;

/// Pinned: everyone tests with the same clients.
const PACKAGES: [&str; 8] = [
    "grpcio==1.85.1",
    "grpcio-health-checking==1.85.1",
    "grpcio-reflection==1.85.1",
    "grpcio-tools==1.85.1",
    "openapi-spec-validator==0.9.0",
    "protobuf==7.36.2",
    "redis==8.1.0",
    "schemathesis==4.32.5",
];

/// The interpreter that has the packages, installed now unless an earlier run did.
pub(crate) fn find_or_install(tools: &Path) -> Result<PathBuf> {
    let (python, note) = (interpreter(tools), note(tools));
    if is_current(&note) && python.exists() {
        return Ok(python);
    }
    let folder = folder(tools);
    eprintln!("installing Python clients into {}", folder.display());
    fs::create_dir_all(tools)?;
    run::quiet(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))
        .context("python3 cannot make an environment (Debian: apt-get install python3-venv)")?;
    // Wheels only: compiling gRPC takes longer than all tests.
    let flags = ["--quiet", "--only-binary=:all:", "--disable-pip-version-check"];
    run::succeed(
        Command::new(&python)
            .args(["-m", "pip", "install"])
            .args(flags)
            .args(PACKAGES)
            .env("PIP_ROOT_USER_ACTION", "ignore")
            .stdin(Stdio::null()),
    )?;
    // Written last, so that an interrupted run is begun again.
    fs::write(note, PACKAGES.join("\n"))?;
    Ok(python)
}

fn folder(tools: &Path) -> PathBuf {
    tools.join("python")
}

fn interpreter(tools: &Path) -> PathBuf {
    folder(tools).join("bin/python3")
}

/// Says what was installed.
fn note(tools: &Path) -> PathBuf {
    folder(tools).join("installed")
}

fn is_current(note: &Path) -> bool {
    fs::read_to_string(note).is_ok_and(|text| text == PACKAGES.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_versions_are_installed_anew() {
        let tools = std::env::temp_dir().join(format!("xtask-python-{}", std::process::id()));
        fs::create_dir_all(folder(&tools)).unwrap();
        let note = note(&tools);
        assert!(!is_current(&note));
        fs::write(&note, "grpcio==1.0.0").unwrap();
        assert!(!is_current(&note));
        fs::write(&note, PACKAGES.join("\n")).unwrap();
        assert!(is_current(&note));
        fs::remove_dir_all(tools).unwrap();
    }
}
