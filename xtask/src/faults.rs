//! `cargo xtask faults`: the whole fault matrix, which takes longer than the part of it that `cargo xtask test` runs.

use anyhow::Result;

use crate::run::{self, step, succeed};
use crate::setup::{self, Environment};
use crate::workspace::Workspace;

/// Tells the test to go through all rows of its table, on every server that there is.
const ROWS: (&str, &str) = ("RATEKEEPER_FAULTS", "all");

/// Sets the machine up, and runs the matrix with what it says.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut environment = Environment::default();
    step("set-up", || {
        environment = setup::run(workspace)?;
        Ok(())
    })?;
    step("faults", || {
        let args = "test --workspace --all-features --test guard -- matrix --nocapture";
        succeed(
            run::cargo()
                .current_dir(&workspace.root)
                .envs(environment.vars())
                .env(ROWS.0, ROWS.1)
                .args(args.split(' ')),
        )
    })
}
