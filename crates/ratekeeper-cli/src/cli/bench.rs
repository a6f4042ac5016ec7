//! `ratekeeper bench`.

use std::io::{IsTerminal, Write};
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;

use super::output::print;
use crate::load::{LoadPace, LoadRun, LoadTarget, Ratio, RlsTemplate, TargetReport, Work, measure};

/// Measures throughput and latency of a server, or of the engine in this process.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: ratekeeper bench --target resp://127.0.0.1:6380 --connections 50 --pipeline 16"
)]
pub(super) struct BenchFlags {
    /// What to measure: inproc, resp://HOST:PORT, http://…, grpc://…, msgpack://… or rls://….
    #[arg(long, value_name = "TARGET", default_value = "inproc")]
    target: LoadTarget,
    /// Measure this address too, in alternating rounds, and print the ratio.
    #[arg(long, value_name = "ADDR")]
    compare: Option<String>,
    /// Send this many requests a second, regardless of answers [default: as fast as answers come].
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Number of connections to open.
    #[arg(long, value_name = "N", default_value = "50")]
    connections: NonZeroUsize,
    /// Requests in flight on each connection.
    #[arg(long, value_name = "N", default_value = "1")]
    pipeline: NonZeroUsize,
    /// Number of different keys to use.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    keys: u32,
    /// Share of all requests that go to one key, from 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    hot: f64,
    /// Seconds to measure each target.
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    duration: f64,
    /// Seconds to run before each round without measuring.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.5)]
    warm_up: f64,
    /// Rounds to divide the duration into, with --compare.
    #[arg(long, value_name = "N", default_value = "5")]
    rounds: NonZeroUsize,
    /// Threads that send the requests [default: half the cores].
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Limit for each key.
    #[arg(long, value_name = "QUOTA", default_value = "1000/m burst 100")]
    quota: String,
    /// What rls:// asks for, with % for the key: a domain and descriptors.
    #[arg(long, value_name = "REQUEST", default_value = "bench user=%")]
    request: RlsTemplate,
    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

/// The longest measurement, in seconds: a day.
const LONGEST: f64 = 86_400.0;

pub(super) fn run(flags: &BenchFlags) -> Result<ExitCode> {
    let work = Work::new(&flags.quota, &flags.request, flags.keys, flags.hot)?;
    let targets = match &flags.compare {
        Some(text) => vec![flags.target.clone(), flags.target.like(text)?],
        None => vec![flags.target.clone()],
    };
    let rounds = if targets.len() > 1 { flags.rounds.get() } else { 1 };
    let run = settings(flags, rounds)?;
    let mut results: Vec<TargetReport> = targets.into_iter().map(TargetReport::new).collect();
    for round in 1..=rounds {
        for result in &mut results {
            progress(&format!("round {round} of {rounds}: {}", result.target()));
            let measurement = measure(result.target(), &run, &work);
            progress("");
            result.add(&measurement?);
        }
    }
    report(flags, &results)?;
    Ok(ExitCode::SUCCESS)
}

fn settings(flags: &BenchFlags, rounds: usize) -> Result<LoadRun> {
    let seconds = |flag: &str, seconds: f64, least: f64| {
        if (least..=LONGEST).contains(&seconds) {
            return Ok(Duration::from_secs_f64(seconds));
        }
        bail!("{flag} {seconds}: must be from {least} to {LONGEST} seconds");
    };
    let pace = match flags.rate {
        None => LoadPace::Closed,
        Some(rate) if (0.001..=1e9).contains(&rate) => LoadPace::Open(rate),
        Some(rate) => bail!("--rate {rate}: must be from 0.001 to 1000000000 requests a second"),
    };
    let rounds = u32::try_from(rounds).unwrap_or(u32::MAX);
    let half = available_parallelism().map_or(1, |cores| cores.get().div_ceil(2));
    Ok(LoadRun {
        connections: flags.connections,
        depth: flags.pipeline,
        threads: flags.threads.or(NonZeroUsize::new(half)).unwrap_or(NonZeroUsize::MIN),
        duration: seconds("--duration", flags.duration, 0.001)? / rounds,
        warm_up: seconds("--warm-up", flags.warm_up, 0.0)?,
        pace,
    })
}

/// Shows progress on standard error, if that is a terminal.
fn progress(text: &str) {
    let mut err = std::io::stderr();
    if err.is_terminal() {
        let _ = write!(err, "\r\x1b[K{text}");
    }
}

fn report(flags: &BenchFlags, results: &[TargetReport]) -> Result<()> {
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
        _ => results.first().map(TargetReport::to_json).unwrap_or_default(),
    };
    print(format_args!("{object}\n"))
}
