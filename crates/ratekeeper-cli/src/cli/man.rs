//! `ratekeeper man`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Command};
use clap_mangen::Man;

use super::output::print;

/// Prints a manual page in roff, from the same source as `--help`.
#[derive(Debug, Args)]
#[command(after_help = "Example: ratekeeper man simulate > ratekeeper-simulate.1")]
pub(super) struct ManFlags {
    /// Command to describe [default: all, in an overview].
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

pub(super) fn run(flags: &ManFlags, mut all: Command) -> Result<ExitCode> {
    // Only building fills in the full names of subcommands.
    all.build();
    let man = match &flags.command {
        None => Man::new(all),
        Some(name) => match all.find_subcommand(name) {
            Some(command) => Man::new(command.clone()).title(format!("ratekeeper-{name}")),
            None => bail!("{name:?}: no command of this name; `ratekeeper --help` lists all"),
        },
    };
    let mut roff = Vec::new();
    man.render(&mut roff)?;
    print(String::from_utf8_lossy(&roff))?;
    Ok(ExitCode::SUCCESS)
}
