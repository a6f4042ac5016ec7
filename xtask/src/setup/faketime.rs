//! Finds the library that fakes the clock of a process, or installs Debian's: clocks are stepped by it in soak runs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::apt;

const HELP: &str =
    "install Debian's package faketime, or set RATEKEEPER_FAKETIME to the path of libfaketimeMT.so.1";

/// Where Debian has libraries, each in a folder of the architecture.
const LIBRARIES: &str = "/usr/lib";

/// The library that is there, or one that is installed now.
pub(crate) fn find_or_install(tools: &Path) -> Result<PathBuf> {
    if let Some(library) = find(Path::new(LIBRARIES)) {
        return Ok(library);
    }
    install(tools)?;
    find(Path::new(LIBRARIES)).context(HELP)
}

/// The one for programs of many threads.
fn find(libraries: &Path) -> Option<PathBuf> {
    let folders = fs::read_dir(libraries).ok()?.flatten().map(|folder| folder.path());
    let mut libraries = folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1"));
    libraries.find(|library| library.is_file())
}

/// Asks apt, once: asking again would cost seconds at each run.
fn install(tools: &Path) -> Result<()> {
    if !apt::is_possible() {
        bail!("{HELP}");
    }
    let asked = tools.join("faketime.asked");
    if asked.exists() {
        bail!("apt-get was of no help before: {HELP}, or remove {} to ask it again", asked.display());
    }
    fs::create_dir_all(tools)?;
    fs::write(&asked, "")?;
    apt::install(&["faketime"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_in_the_folder_of_the_architecture() {
        let folder = std::env::temp_dir().join(format!("xtask-faketime-{}", std::process::id()));
        let library = folder.join("some-linux-gnu/faketime/libfaketimeMT.so.1");
        fs::create_dir_all(library.parent().unwrap()).unwrap();
        assert_eq!(find(&folder), None);
        fs::write(&library, "").unwrap();
        assert_eq!(find(&folder), Some(library));
        fs::remove_dir_all(&folder).unwrap();
    }
}
