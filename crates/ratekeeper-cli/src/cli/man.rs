//! `ratekeeper man`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use clap_mangen::Man;

/// The manual page in roff, from the same source as `--help`.
#[derive(Debug, Args)]
#[command(after_help = "Example: ratekeeper man simulate > ratekeeper-simulate.1")]
pub(super) struct Flags {
    /// The page of one command [default: the overview].
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

pub(super) fn run(flags: &Flags) -> Result<ExitCode> {
    let mut all = super::command();
    // Names of subcommands are known only then.
    all.build();
    let man = match &flags.command {
        None => Man::new(all),
        Some(name) => match all.find_subcommand(name) {
            Some(command) => Man::new(command.clone()).title(format!("ratekeeper-{name}")),
            None => bail!("{name:?}: no command; `ratekeeper --help` lists them"),
        },
    };
    let mut roff = Vec::new();
    man.render(&mut roff)?;
    super::print(String::from_utf8_lossy(&roff))?;
    Ok(ExitCode::SUCCESS)
}
