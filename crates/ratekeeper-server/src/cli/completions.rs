//! `ratekeeper completions`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use clap_complete::Shell;

/// For bash: put it where bash looks for completions, or source it.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: ratekeeper completions bash > ~/.local/share/bash-completion/completions/ratekeeper"
)]
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
