//! Unpacks wheels from PyPI into folders, without an environment for them.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::run;

/// Without a network pip is to fail, and soon.
pub(crate) const PATIENCE: [&str; 2] = ["--retries=1", "--timeout=15"];

/// Unpacks one wheel, and none that it depends on, into a folder. The folder `tools` is for what that takes.
///
/// `pip install --target` needs no environment; where only `venv` can provide pip, one is made for it.
pub(crate) fn unpack(wheel: &str, tools: &Path, folder: &Path) -> Result<()> {
    let venv = tools.join("venv");
    let venv_python = venv.join("bin/python3");
    let system_python = Path::new("python3");
    let has_pip = |python: &Path| run::quiet(Command::new(python).args(["-m", "pip", "--version"])).is_some();

    let python = if has_pip(system_python) {
        system_python
    } else {
        let made = run::quiet(Command::new(system_python).args(["-m", "venv"]).arg(&venv));
        if made.is_none() || !has_pip(&venv_python) {
            bail!("python3 with pip or venv is needed to fetch it");
        }
        &venv_python
    };
    let flags = ["--quiet", "--upgrade", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check"];
    run::succeed(
        Command::new(python)
            .args(["-m", "pip", "install"])
            .args(flags)
            .args(PATIENCE)
            .arg("--target")
            .arg(folder)
            .arg(wheel)
            // A variable and not a flag, which older pips would refuse.
            .env("PIP_ROOT_USER_ACTION", "ignore")
            .stdin(Stdio::null()),
    )
}
