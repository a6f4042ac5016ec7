//! `ratekeeper bench`.

use std::io::{IsTerminal, Write};
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;

use super::print;
use crate::load::report::{self, Ratio};
use crate::load::{Pace, Run, Target, Work, measure};

/// How fast a server answers, or the engine in this process.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: ratekeeper bench --target resp://127.0.0.1:6380 --connections 50 --pipeline 16"
)]
pub(super) struct Flags {
    /// inproc, or resp://HOST:PORT, http://…, grpc://…, msgpack://….
    #[arg(long, value_name = "TARGET", default_value = "inproc")]
    target: Target,
    /// Measure this address too, in turns, and print the ratio.
    #[arg(long, value_name = "ADDR")]
    compare: Option<String>,
    /// Requests a second, whatever happens [default: as fast as answers come].
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Connections.
    #[arg(long, value_name = "N", default_value = "50")]
    connections: NonZeroUsize,
    /// Requests in flight on each connection.
    #[arg(long, value_name = "N", default_value = "1")]
    pipeline: NonZeroUsize,
    /// Different keys.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    keys: u32,
    /// The share of requests that are all for one key.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    hot: f64,
    /// Seconds to measure, of each target.
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    duration: f64,
    /// Seconds before that, of each round.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.5)]
    warm_up: f64,
    /// Rounds that the duration is divided into when comparing.
    #[arg(long, value_name = "N", default_value = "5")]
    rounds: NonZeroUsize,
    /// Threads that put on the load [default: half the cores].
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// What every key is held to.
    #[arg(long, value_name = "QUOTA", default_value = "1000/m burst 100")]
    quota: String,
    /// One object instead of words.
    #[arg(long)]
    json: bool,
}

/// The longest that one may wish to measure: a day.
const LONGEST: f64 = 86_400.0;

pub(super) fn run(flags: &Flags) -> Result<ExitCode> {
    let work = Work::new(&flags.quota, flags.keys, flags.hot)?;
    let targets = match &flags.compare {
        Some(text) => vec![flags.target.clone(), flags.target.like(text)?],
        None => vec![flags.target.clone()],
    };
    let rounds = if targets.len() > 1 { flags.rounds.get() } else { 1 };
    let run = settings(flags, rounds)?;
    let mut results: Vec<report::Outcome> = targets.into_iter().map(report::Outcome::new).collect();
    for round in 1..=rounds {
        for result in &mut results {
            progress(&format!("round {round} of {rounds}: {}", result.target()));
            let tally = measure(result.target(), &run, &work);
            progress("");
            result.add(&tally?);
        }
    }
    tell(flags, &results)?;
    Ok(ExitCode::SUCCESS)
}

fn settings(flags: &Flags, rounds: usize) -> Result<Run> {
    let seconds = |flag: &str, seconds: f64, least: f64| {
        if (least..=LONGEST).contains(&seconds) {
            return Ok(Duration::from_secs_f64(seconds));
        }
        bail!("{flag} {seconds}: seconds, from {least} to {LONGEST}");
    };
    let pace = match flags.rate {
        None => Pace::Closed,
        Some(rate) if (0.001..=1e9).contains(&rate) => Pace::Open(rate),
        Some(rate) => bail!("--rate {rate}: requests a second, from 0.001 to 1000000000"),
    };
    let rounds = u32::try_from(rounds).unwrap_or(u32::MAX);
    let half = available_parallelism().map_or(1, |cores| cores.get().div_ceil(2));
    Ok(Run {
        connections: flags.connections,
        depth: flags.pipeline,
        threads: flags.threads.or(NonZeroUsize::new(half)).unwrap_or(NonZeroUsize::MIN),
        duration: seconds("--duration", flags.duration, 0.001)? / rounds,
        warm_up: seconds("--warm-up", flags.warm_up, 0.0)?,
        pace,
    })
}

/// On standard error, and only if somebody is there to see it.
fn progress(text: &str) {
    let mut err = std::io::stderr();
    if err.is_terminal() {
        let _ = write!(err, "\r\x1b[K{text}");
    }
}

fn tell(flags: &Flags, results: &[report::Outcome]) -> Result<()> {
    if !flags.json {
        results.iter().try_for_each(print)?;
        return match results {
            [first, second] => print(Ratio::of(first, second)),
            _ => Ok(()),
        };
    }
    let object = match results {
        [first, second] => json!({
            "targets": [first.to_json(), second.to_json()],
            "ratio": Ratio::of(first, second).to_json(),
        }),
        _ => results.first().map(report::Outcome::to_json).unwrap_or_default(),
    };
    print(format_args!("{object}\n"))
}
