//! `ratekeeper completions`.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Command};
use clap_complete::Shell;

use super::output::print;

/// Prints a completion script for a shell.
#[derive(Debug, Args)]
#[command(after_help = "Example: ratekeeper completions bash > ratekeeper.bash")]
pub(super) struct CompletionsFlags {
    /// Shell to print the script for.
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn run(flags: &CompletionsFlags, command: &mut Command) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, command, "ratekeeper", &mut script);
    print(String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
