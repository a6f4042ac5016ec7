//! `cargo xtask soak`: servers on every kind of store under load and faults, for as long as is wanted.
//!
//! The work is done by the test `soak` of ratekeeper-cli, which is told by the environment what to do.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use crate::run::{self, step, succeed};
use crate::setup::{self, Environment};
use crate::workspace::Workspace;

/// How long it takes unless it is told.
const MINUTES: u64 = 5;

/// The stores that it can be kept to.
const STORES: [&str; 4] = ["memory", "redis", "cluster", "sentinel"];

/// What was asked for on the command line.
#[derive(Debug, PartialEq, Eq)]
struct SoakOptions {
    minutes: u64,
    /// None for one of its own, which is printed.
    seed: Option<u64>,
    on: Option<String>,
    binary: Option<String>,
}

impl SoakOptions {
    fn parse(options: &[&str]) -> Result<Self> {
        let mut parsed = SoakOptions { minutes: MINUTES, seed: None, on: None, binary: None };
        let mut options = options.iter();
        while let Some(option) = options.next() {
            let value = *options.next().with_context(|| format!("{option}: its value is missing"))?;
            let number = || value.parse().with_context(|| format!("{option}: `{value}`; a whole number"));
            match *option {
                "--minutes" => parsed.minutes = number()?,
                "--seed" => parsed.seed = Some(number()?),
                "--on" if STORES.contains(&value) => parsed.on = Some(value.to_owned()),
                "--on" => bail!("--on: `{value}`; one of {}", STORES.join(", ")),
                "--binary" => parsed.binary = Some(value.to_owned()),
                _ => bail!("soak: unknown option {option}"),
            }
        }
        if parsed.minutes == 0 {
            bail!("--minutes: `0`; at least 1");
        }
        Ok(parsed)
    }
}

/// Sets the machine up, and soaks.
pub(crate) fn run(workspace: &Workspace, options: &[&str]) -> Result<()> {
    let options = SoakOptions::parse(options)?;
    let mut environment = Environment::default();
    step("set-up", || {
        environment = setup::run(workspace)?;
        Ok(())
    })?;
    let seed = match options.seed {
        Some(seed) => seed,
        None => SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() % 1_000_000,
    };
    // A release build if there is one: it is what users run, and leaves more of the machine to the others.
    let release = workspace.target_dir.join("release/ratekeeper");
    let release = release.exists().then(|| release.to_string_lossy().into_owned());
    let binary = options.binary.or(release).unwrap_or_default();
    step("soak", || {
        eprintln!("seed {seed}, {} minutes; the same again: --seed {seed}", options.minutes);
        let args = "test --workspace --all-features --test soak -- --exact soak --nocapture";
        succeed(
            run::cargo()
                .current_dir(&workspace.root)
                .envs(environment.vars())
                .env("RATEKEEPER_SOAK_MINUTES", options.minutes.to_string())
                .env("RATEKEEPER_SOAK_SEED", seed.to_string())
                .env("RATEKEEPER_SOAK_ON", options.on.unwrap_or_default())
                .env("RATEKEEPER_SOAK_BINARY", binary)
                .args(args.split(' ')),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let parsed = SoakOptions::parse(&["--minutes", "60", "--seed", "7", "--on", "cluster"]).unwrap();
        assert_eq!((parsed.minutes, parsed.seed, parsed.on.as_deref()), (60, Some(7), Some("cluster")));
        assert_eq!(SoakOptions::parse(&[]).unwrap().minutes, MINUTES);
    }

    #[test]
    fn mistakes_are_named() {
        for (options, expected) in [
            (&["--minutes"][..], "--minutes: its value is missing"),
            (&["--minutes", "0"], "--minutes: `0`; at least 1"),
            (&["--seed", "x"], "--seed: `x`; a whole number"),
            (&["--on", "tape"], "--on: `tape`; one of memory, redis, cluster, sentinel"),
            (&["--for", "1"], "soak: unknown option --for"),
        ] {
            assert_eq!(SoakOptions::parse(options).unwrap_err().to_string(), expected);
        }
    }
}
