//! Finds a Chromium and its WebDriver, or installs Debian's: what the console is tested with.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::apt;
use crate::run;

const HELP: &str = "install Debian's packages chromium and chromium-driver, or set RATEKEEPER_CHROMIUM and \
                    RATEKEEPER_CHROMEDRIVER to the paths of the programs";
/// What Debian's package is called, what others call it.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const DRIVER: &str = "chromedriver";
/// Without a font there is nothing to see. The page asks for the first, and the pictures in `docs/` were made with it.
const FONTS: [&str; 2] = ["fonts-inter", "fonts-dejavu-core"];

/// A browser, and what drives it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Chromium {
    pub(crate) browser: PathBuf,
    pub(crate) driver: PathBuf,
}

impl Chromium {
    /// Returns those that are there, or installs them now.
    pub(crate) fn find_or_install(tools: &Path, directories: &[PathBuf]) -> Result<Self> {
        if let Some(found) = Self::find(directories) {
            return Ok(found);
        }
        install(tools)?;
        Self::find(directories).context(HELP)
    }

    /// Returns what they say of themselves, which proves that both start on this machine.
    pub(crate) fn version(&self) -> Result<String> {
        let said = |program: &Path| {
            run::quiet(Command::new(program).arg("--version"))
                .with_context(|| format!("{} does not run here", program.display()))
        };
        let (browser, driver) = (said(&self.browser)?, said(&self.driver)?);
        // "Chromium 140.0.7339.80 built on Debian …", "ChromeDriver 140.0.7339.80 (…"
        let number = |said: &str| {
            let mut words = said.split_whitespace();
            words
                .find(|word| word.starts_with(|first: char| first.is_ascii_digit()))
                .unwrap_or_default()
                .to_owned()
        };
        let major = |version: &str| version.split('.').next().unwrap_or_default().to_owned();
        let (browser, driver) = (number(&browser), number(&driver));
        if major(&browser) != major(&driver) {
            bail!("the browser is of version {browser}, the driver of {driver}: {HELP}");
        }
        Ok(browser)
    }

    fn find(directories: &[PathBuf]) -> Option<Self> {
        let named = |name: &str| directories.iter().map(|one| one.join(name)).find(|path| path.is_file());
        let browser = BROWSERS.into_iter().find_map(named)?;
        Some(Chromium { browser, driver: named(DRIVER)? })
    }
}

/// Asks apt, once: asking again would cost seconds at each run.
fn install(tools: &Path) -> Result<()> {
    if !apt::is_possible() {
        bail!("{HELP}");
    }
    let asked = tools.join("chromium.asked");
    if asked.exists() {
        bail!("apt-get was of no help before: {HELP}, or remove {} to ask it again", asked.display());
    }
    fs::create_dir_all(tools)?;
    fs::write(&asked, "")?;
    apt::install(&["chromium", "chromium-driver"])?;
    // The tests do without them where a release of Debian has another name for them.
    if let Err(error) = apt::install(&FONTS) {
        eprintln!("no fonts of our choice: {error:#}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_programs_are_needed_and_may_be_anywhere() {
        let folder = std::env::temp_dir().join(format!("xtask-chromium-{}", std::process::id()));
        let (one, other) = (folder.join("one"), folder.join("other"));
        for folder in [&one, &other] {
            fs::create_dir_all(folder).unwrap();
        }
        let directories = [one.clone(), other.clone()];
        fs::write(other.join("chromium-browser"), "").unwrap();
        assert_eq!(Chromium::find(&directories), None);
        fs::write(one.join("chromedriver"), "").unwrap();
        let found = Chromium { browser: other.join("chromium-browser"), driver: one.join("chromedriver") };
        assert_eq!(Chromium::find(&directories), Some(found));
        fs::remove_dir_all(&folder).unwrap();
    }
}
