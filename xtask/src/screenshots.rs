//! `cargo xtask screenshots`: the pictures in `docs/`, taken by the test of the console.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::run;
use crate::setup;
use crate::workspace::Workspace;

/// How long there is traffic before: as long as the chart of the page is.
const SECONDS: &str = "900";
/// The pictures that the documentation shows.
const PICTURES: [&str; 4] = ["console.png", "console-dark.png", "console-phone.png", "console-key.png"];

/// Takes the pictures and puts them where the documentation has them.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let environment = setup::run(workspace, setup::Need::All)?;
    if !environment.vars().any(|(name, _)| name == setup::CHROMIUM) {
        bail!("pictures are taken by a browser");
    }
    let taken = workspace.target_dir.join("screenshots");
    for picture in PICTURES {
        // Yesterday's must not be taken for today's.
        let _ = fs::remove_file(taken.join(picture));
    }
    run::succeed(
        run::cargo()
            .current_dir(&workspace.root)
            .envs(environment.vars())
            .env("RATEKEEPER_PICTURE_SECONDS", SECONDS)
            .args([
                "test",
                "--package",
                "ratekeeper-cli",
                "--all-features",
                "--test",
                "slow",
                "pictures_are_taken",
            ]),
    )?;
    for picture in PICTURES {
        let (from, to) = (taken.join(picture), workspace.root.join("docs").join(picture));
        fs::copy(&from, &to).with_context(|| format!("{} to {}", from.display(), to.display()))?;
    }
    Ok(())
}
