//! Finds a Prometheus, or installs Debian's: what the alerts and the metrics are tested with.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::apt;
use crate::run;

const HELP: &str = "install Debian's package prometheus, or set RATEKEEPER_PROMETHEUS to the path of the program, with \
                    promtool beside it";

/// The Prometheus that is there, or one that is installed now; with its version, which proves that it starts on this machine.
pub(crate) fn find_or_install(tools: &Path, directories: &[PathBuf]) -> Result<(PathBuf, String)> {
    let program = match find(directories) {
        Some(program) => program,
        None => {
            install(tools)?;
            find(directories).context(HELP)?
        }
    };
    let version = version(&program)?;
    Ok((program, version))
}

/// What a Prometheus says of itself.
pub(crate) fn version(program: &Path) -> Result<String> {
    let said = run::quiet(Command::new(program).arg("--version"))
        .with_context(|| format!("{} does not run here", program.display()))?;
    // "prometheus, version 2.42.0+ds (branch: …"
    Ok(said.split_whitespace().nth(2).unwrap_or_default().to_owned())
}

fn find(directories: &[PathBuf]) -> Option<PathBuf> {
    let has_both =
        |directory: &&PathBuf| ["prometheus", "promtool"].iter().all(|name| directory.join(name).is_file());
    directories.iter().find(has_both).map(|directory| directory.join("prometheus"))
}

/// Asks apt, once: asking again would cost seconds at each run.
fn install(tools: &Path) -> Result<()> {
    if !apt::is_possible() {
        bail!("{HELP}");
    }
    let asked = tools.join("prometheus.asked");
    if asked.exists() {
        bail!("apt-get was of no help before: {HELP}, or remove {} to ask it again", asked.display());
    }
    fs::create_dir_all(tools)?;
    fs::write(&asked, "")?;
    apt::install(&["prometheus"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_programs_are_needed() {
        let folder = std::env::temp_dir().join(format!("xtask-prometheus-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("prometheus"), "").unwrap();
        let directories = [PathBuf::from("/nowhere"), folder.clone()];
        assert_eq!(find(&directories), None);
        fs::write(folder.join("promtool"), "").unwrap();
        assert_eq!(find(&directories), Some(folder.join("prometheus")));
        fs::remove_dir_all(&folder).unwrap();
    }
}
