//! Finds a PostgreSQL, or installs Debian's: a server that tests start for themselves.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::apt;
use crate::run;

const HELP: &str = "install Debian's package postgresql, or set RATEKEEPER_POSTGRES_BIN to the folder of initdb and postgres";

/// Where Debian has the programs of each version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// The folder of `initdb` and `postgres` that is there, or is installed now; with what the server says of itself.
pub(crate) fn find_or_install(tools: &Path) -> Result<(PathBuf, String)> {
    let folder = match newest(Path::new(DEBIAN)) {
        Some(found) => found,
        None => {
            install(tools)?;
            newest(Path::new(DEBIAN)).context(HELP)?
        }
    };
    let version = version(&folder)?;
    Ok((folder, version))
}

/// What a server says of itself, which proves that it starts on this machine.
pub(crate) fn version(folder: &Path) -> Result<String> {
    let said = run::quiet(Command::new(folder.join("postgres")).arg("--version"))
        .with_context(|| format!("{} does not run here", folder.join("postgres").display()))?;
    // "postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)"
    let number = said.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    Ok(number.unwrap_or_default().to_owned())
}

/// The programs of the newest version.
fn newest(versions: &Path) -> Option<PathBuf> {
    let numbered = fs::read_dir(versions).ok()?.flatten().filter_map(|version| {
        let number: u32 = version.file_name().to_str()?.parse().ok()?;
        let folder = version.path().join("bin");
        folder.join("initdb").is_file().then_some((number, folder))
    });
    numbered.max().map(|(_, folder)| folder)
}

/// Asks apt, once: asking again would cost seconds at each run.
fn install(tools: &Path) -> Result<()> {
    if !apt::is_possible() {
        bail!("{HELP}");
    }
    let asked = tools.join("postgresql.asked");
    if asked.exists() {
        bail!("apt-get was of no help before: {HELP}, or remove {} to ask it again", asked.display());
    }
    fs::create_dir_all(tools)?;
    fs::write(&asked, "")?;
    apt::install(&["postgresql"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_the_one_of_the_highest_number() {
        let folder = std::env::temp_dir().join(format!("xtask-postgres-{}", std::process::id()));
        for version in ["9", "15", "notes"] {
            let programs = folder.join(version).join("bin");
            fs::create_dir_all(&programs).unwrap();
            fs::write(programs.join("initdb"), "").unwrap();
        }
        fs::create_dir_all(folder.join("17/bin")).unwrap();
        assert_eq!(newest(&folder), Some(folder.join("15/bin")));
        assert_eq!(newest(&folder.join("15")), None);
        fs::remove_dir_all(&folder).unwrap();
    }
}
