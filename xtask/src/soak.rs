//! `cargo xtask soak`: servers on every kind of store under load and faults, for as long as is wanted.
//!
//! The work is done by the test `soak` of ratekeeper-cli, which is told by the environment what to do.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use crate::run::{self, UsageError, step, succeed};
use crate::setup::{self, Environment, Need};
use crate::workspace::Workspace;

/// How long it takes unless it is told.
const MINUTES: u64 = 5;

/// How long one store is used at most before it is another's turn, unless it is told.
const TURN_MINUTES: u64 = 5;

/// Some months, so that no sum of seconds overflows.
const MOST_MINUTES: u64 = 1_000_000;

/// A turn of less has hardly a fault.
const LEAST_TURN_SECONDS: u64 = 30;

/// The stores that it can be kept to.
const STORES: [&str; 4] = ["memory", "redis", "cluster", "sentinel"];

/// What was asked for on the command line.
#[derive(Debug, PartialEq, Eq)]
struct SoakOptions {
    /// None for the short run with a fixed seed that is part of the tests.
    minutes: Option<u64>,
    turn_minutes: u64,
    /// None for one of its own, which is printed.
    seed: Option<u64>,
    on: Option<String>,
    /// Of the run, only this turn; they count from 0.
    turn: Option<u64>,
    binary: Option<PathBuf>,
}

impl SoakOptions {
    fn parse(options: &[&str]) -> Result<Self> {
        let mut parsed = SoakOptions {
            minutes: Some(MINUTES),
            turn_minutes: TURN_MINUTES,
            seed: None,
            on: None,
            turn: None,
            binary: None,
        };
        let (mut is_short, mut is_long) = (false, false);
        let mut options = options.iter();
        while let Some(option) = options.next() {
            if *option == "--short" {
                is_short = true;
                continue;
            }
            let value = *options.next().with_context(|| format!("{option}: its value is missing"))?;
            let number = || -> Result<u64> {
                value.parse().ok().with_context(|| format!("{option}: `{value}`; a whole number"))
            };
            let minutes = || -> Result<u64> {
                match number()? {
                    0 => bail!("{option}: `0`; at least 1"),
                    minutes if minutes > MOST_MINUTES => bail!("{option}: `{value}`; at most {MOST_MINUTES}"),
                    minutes => Ok(minutes),
                }
            };
            match *option {
                "--minutes" => {
                    parsed.minutes = Some(minutes()?);
                    is_long = true;
                }
                "--turn-minutes" => {
                    parsed.turn_minutes = minutes()?;
                    is_long = true;
                }
                "--seed" => parsed.seed = Some(number()?),
                "--turn" => parsed.turn = Some(number()?),
                "--on" if STORES.contains(&value) => parsed.on = Some(value.to_owned()),
                "--on" => bail!("--on: `{value}`; one of {}", STORES.join(", ")),
                "--binary" => parsed.binary = Some(found(value)?),
                _ => bail!("soak: unknown option {option}"),
            }
        }
        if is_short && is_long {
            bail!("--short: its turns have a length of their own; leave --minutes and --turn-minutes out");
        }
        if is_short {
            parsed.minutes = None;
        }
        let stores = if parsed.on.is_some() { 1 } else { STORES.len() as u64 };
        if let Some(minutes) = parsed.minutes
            && minutes * 60 < stores * LEAST_TURN_SECONDS
        {
            let least = (stores * LEAST_TURN_SECONDS).div_ceil(60);
            bail!("--minutes: `{minutes}`; at least {least} for {stores} stores, or one of them by --on");
        }
        Ok(parsed)
    }
}

/// The server's program, wherever the test is run from.
fn found(path: &str) -> Result<PathBuf> {
    let absolute = std::path::absolute(path).with_context(|| format!("--binary: `{path}`"))?;
    if !absolute.is_file() {
        bail!("--binary: `{path}`; no such file");
    }
    Ok(absolute)
}

/// Sets the machine up, builds the server as users have it, and soaks.
pub(crate) fn run(workspace: &Workspace, options: &[&str]) -> Result<()> {
    let options = SoakOptions::parse(options).context(UsageError)?;
    let mut environment = Environment::default();
    step("set-up", || {
        environment = setup::run(workspace, Need::All)?;
        Ok(())
    })?;
    let seed = match (options.seed, options.minutes) {
        // The short run has a seed of its own.
        (None, None) => String::new(),
        (Some(seed), _) => seed.to_string(),
        (None, Some(_)) => (SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() % 1_000_000).to_string(),
    };
    let mut binary = options.binary.clone();
    if binary.is_none() && options.minutes.is_some() {
        // Built every time: what lies there may be of last week, or have no TLS, and would be another program than the
        // sources that a finding is looked for in.
        step("build", || build(workspace))?;
        binary = Some(workspace.target_dir.join("release/ratekeeper"));
    }
    step("soak", || {
        let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        let chosen = options.binary.is_some();
        let args =
            "test --package ratekeeper-cli --all-features --test slow -- --exact soak::soak --nocapture";
        succeed(
            run::cargo()
                .current_dir(&workspace.root)
                .envs(environment.vars())
                .env("RATEKEEPER_SOAK_MINUTES", number(options.minutes))
                .env("RATEKEEPER_SOAK_TURN_MINUTES", options.turn_minutes.to_string())
                .env("RATEKEEPER_SOAK_SEED", seed)
                .env("RATEKEEPER_SOAK_ON", options.on.unwrap_or_default())
                .env("RATEKEEPER_SOAK_TURN", number(options.turn))
                .env("RATEKEEPER_SOAK_BINARY", binary.as_deref().unwrap_or(Path::new("")))
                // Who runs it again has to choose the same, or else has it built as we do.
                .env("RATEKEEPER_SOAK_BINARY_IS_CHOSEN", if chosen { "1" } else { "" })
                .args(args.split(' ')),
        )
    })
}

fn build(workspace: &Workspace) -> Result<()> {
    let args = "build --release --all-features --package ratekeeper-cli";
    succeed(run::cargo().current_dir(&workspace.root).args(args.split(' ')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let parsed = SoakOptions::parse(&["--minutes", "60", "--seed", "7", "--on", "cluster"]).unwrap();
        assert_eq!((parsed.minutes, parsed.seed, parsed.on.as_deref()), (Some(60), Some(7), Some("cluster")));
        assert_eq!((parsed.turn_minutes, parsed.turn), (TURN_MINUTES, None));
        assert_eq!(SoakOptions::parse(&[]).unwrap().minutes, Some(MINUTES));
        let again = SoakOptions::parse(&["--minutes", "60", "--turn-minutes", "10", "--turn", "20"]).unwrap();
        assert_eq!((again.turn_minutes, again.turn), (10, Some(20)));
        let short = SoakOptions::parse(&["--short", "--turn", "2"]).unwrap();
        assert_eq!((short.minutes, short.turn), (None, Some(2)));
        assert_eq!(SoakOptions::parse(&["--minutes", "1", "--on", "memory"]).unwrap().minutes, Some(1));
    }

    #[test]
    fn a_program_is_found_from_wherever_the_test_runs() {
        let parsed = SoakOptions::parse(&["--binary", "Cargo.toml"]).unwrap();
        assert!(parsed.binary.unwrap().is_absolute());
    }

    #[test]
    fn mistakes_are_named() {
        for (options, expected) in [
            (&["--minutes"][..], "--minutes: its value is missing"),
            (&["--minutes", "0"], "--minutes: `0`; at least 1"),
            (&["--minutes", "1"], "--minutes: `1`; at least 2 for 4 stores, or one of them by --on"),
            (&["--turn-minutes", "0"], "--turn-minutes: `0`; at least 1"),
            (&["--seed", "x"], "--seed: `x`; a whole number"),
            (&["--turn", "-1"], "--turn: `-1`; a whole number"),
            (&["--on", "tape"], "--on: `tape`; one of memory, redis, cluster, sentinel"),
            (&["--binary", "no/such"], "--binary: `no/such`; no such file"),
            (
                &["--short", "--minutes", "3"],
                "--short: its turns have a length of their own; leave --minutes and --turn-minutes out",
            ),
            (&["--for", "1"], "soak: unknown option --for"),
        ] {
            assert_eq!(SoakOptions::parse(options).unwrap_err().to_string(), expected);
        }
    }
}
