//! Stock Python clients for the tests that want them, in an environment below the target directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::pip;
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

/// The interpreter that has the packages, installed now unless an earlier run did, or could not.
pub(crate) fn find_or_install(tools: &Path) -> Result<PathBuf> {
    let (python, note) = (interpreter(tools), note(tools));
    if is_current(&note) && python.exists() {
        return Ok(python);
    }
    // Trying in vain would cost half a minute at each run.
    let tried = tools.join("python.tried");
    if is_current(&tried) {
        bail!("pip could not fetch them before: remove {} to ask it again", tried.display());
    }
    let folder = folder(tools);
    eprintln!("installing Python clients into {}", folder.display());
    fs::create_dir_all(tools)?;
    run::quiet(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))
        .context("python3 cannot make an environment (Debian: apt-get install python3-venv)")?;
    // Wheels only: compiling gRPC takes longer than all tests.
    let flags = ["--quiet", "--only-binary=:all:", "--disable-pip-version-check"];
    let fetched = run::succeed(
        Command::new(&python)
            .args(["-m", "pip", "install"])
            .args(flags)
            .args(pip::PATIENCE)
            .args(PACKAGES)
            .env("PIP_ROOT_USER_ACTION", "ignore")
            .stdin(Stdio::null()),
    );
    if fetched.is_err() {
        fs::write(&tried, PACKAGES.join("\n"))?;
    }
    fetched?;
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
        fs::write(tools.join("python.tried"), PACKAGES.join("\n")).unwrap();
        let error = find_or_install(&tools).unwrap_err().to_string();
        assert!(error.starts_with("pip could not fetch them before: remove "), "{error}");
        fs::remove_dir_all(tools).unwrap();
    }
}
