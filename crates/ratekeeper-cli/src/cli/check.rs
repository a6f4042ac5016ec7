//! `ratekeeper check`.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use ratekeeper::Plan;
use ratekeeper_server::config::{Config, ConfigError, Findings};
use serde_json::{Value, json};

use super::explain::ExplainedPlan;
use super::output::{EXIT_NO, print};
use super::serve::{self, ServeFlags};

/// Prints every mistake with its line, and what every plan means.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: ratekeeper check ratekeeper.toml\nExits with 0 if the file is right, and with 1 if there are mistakes."
)]
pub(super) struct CheckFlags {
    /// Configuration file to check.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(flags: &CheckFlags) -> Result<ExitCode> {
    let Findings { config, plans, errors } = Config::examine(&flags.file)?;
    let mut mistakes: Vec<(Option<usize>, String)> =
        errors.iter().map(|error| (error.line(), error.message().to_owned())).collect();
    // What each part says may be right, and together still mean nothing.
    if mistakes.is_empty()
        && let Err(error) = serve::check(&ServeFlags::default(), &config)
    {
        mistakes.push(match error.downcast_ref::<ConfigError>() {
            Some(mistake) => (mistake.line(), mistake.message().to_owned()),
            None => (None, error.to_string()),
        });
    }
    if flags.json {
        print(format_args!("{}\n", to_json(flags, &mistakes, &plans)))?;
    } else {
        print(words(flags, &mistakes, &plans))?;
    }
    Ok(if mistakes.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_NO) })
}

fn words(flags: &CheckFlags, mistakes: &[(Option<usize>, String)], plans: &[Plan]) -> String {
    let file = flags.file.display();
    let mut out = String::new();
    // Writing to a string cannot fail.
    for (line, message) in mistakes {
        let _ = match line {
            Some(line) => writeln!(out, "{file}:{line}: {message}"),
            None => writeln!(out, "{file}: {message}"),
        };
    }
    for plan in plans {
        let _ = write!(out, "{}", ExplainedPlan(plan));
    }
    let _ = match mistakes.len() {
        0 => writeln!(out, "{file}: ok, {}", counted(plans.len(), "plan")),
        n => writeln!(out, "{file}: {}", counted(n, "mistake")),
    };
    out
}

/// Returns `1 plan`, `2 plans`.
fn counted(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

fn to_json(flags: &CheckFlags, mistakes: &[(Option<usize>, String)], plans: &[Plan]) -> Value {
    let mistake = |(line, message): &(Option<usize>, String)| json!({ "line": line, "message": message });
    json!({
        "file": flags.file.display().to_string(),
        "ok": mistakes.is_empty(),
        "errors": mistakes.iter().map(mistake).collect::<Vec<_>>(),
        "plans": plans.iter().map(|plan| ExplainedPlan(plan).to_json()).collect::<Vec<_>>(),
    })
}
