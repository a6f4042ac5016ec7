//! `ratekeeper inspect`.

use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context, Result};
use clap::Args;
use ratekeeper::Timestamp;

use super::print;
use crate::inspect::State;

/// Decodes states, strictly: strategy, version, fields, times.
#[derive(Debug, Args)]
#[command(after_help = "Example: ratekeeper inspect '12|8.5|1761884055342794596' --quota '10/s bucket'")]
pub(super) struct Flags {
    /// States in their ASCII form.
    #[arg(value_name = "STATE", required = true)]
    states: Vec<String>,
    /// Also say what the next request would get under this quota.
    #[arg(long, value_name = "QUOTA")]
    quota: Option<String>,
    /// Seconds since the epoch to take for now [default: the clock].
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    at: Option<i64>,
    /// One object a state instead of words.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(flags: &Flags) -> Result<ExitCode> {
    let now = flags.at.map_or_else(|| Timestamp::from(SystemTime::now()), Timestamp::from_secs);
    // All are read before anything is said: one message, or all answers.
    let read = |text: &String| {
        let state = State::from_ascii(text, now).with_context(|| format!("state {text:?}"))?;
        match &flags.quota {
            Some(quota) => Ok(state.under(quota)?),
            None => Ok(state),
        }
    };
    let states: Vec<State> = flags.states.iter().map(read).collect::<Result<_>>()?;
    for state in states {
        if flags.json {
            print(format_args!("{}\n", state.to_json()))?;
        } else {
            print(state)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
