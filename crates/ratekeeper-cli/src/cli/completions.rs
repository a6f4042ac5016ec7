//! `ratekeeper completions`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use clap_complete::Shell;

/// A script that a shell reads to complete commands; bash and others by `source`.
#[derive(Debug, Args)]
#[command(after_help = "Example: ratekeeper completions bash > ratekeeper.bash")]
pub(super) struct Flags {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn run(flags: &Flags) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut super::command(), "ratekeeper", &mut script);
    super::print(String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
