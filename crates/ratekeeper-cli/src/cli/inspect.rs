//! `ratekeeper inspect`.

use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context, Result};
use clap::Args;
use ratekeeper::Timestamp;
use ratekeeper_redis::RedisStore;

use super::{EXIT_NO, print};
use crate::inspect::State;

/// Decodes states, strictly: strategy, version, fields, times.
#[derive(Debug, Args)]
#[command(
    override_usage = "ratekeeper inspect [OPTIONS] STATE…\n       ratekeeper inspect [OPTIONS] --redis URL KEY…",
    after_help = "Example: ratekeeper inspect '12|8.5|1761884055342794596' --quota '10/s bucket'"
)]
pub(super) struct Flags {
    /// States in their ASCII form; with --redis the names of keys.
    #[arg(value_name = "STATE", required = true)]
    states: Vec<String>,
    /// Read what lies under these keys of a Redis server, in either encoding.
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
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
    let at = flags.at.map(Timestamp::from_secs);
    // All are read before anything is said: one message, or all answers.
    let found = match &flags.redis {
        Some(url) => fetch(url, &flags.states, at)?,
        None => decode(&flags.states, at.unwrap_or_else(|| SystemTime::now().into()))?,
    };
    let mut missing = false;
    let mut states = Vec::new();
    for (name, state) in flags.states.iter().zip(found) {
        match (state, &flags.quota) {
            (Some(state), Some(quota)) => {
                states.push(state.under(quota).with_context(|| format!("{name:?}"))?)
            }
            (Some(state), None) => states.push(state),
            (None, _) => {
                missing = true;
                eprintln!(
                    "ratekeeper: {name:?}: nothing is there; a key that is not there is as good as fresh"
                );
            }
        }
    }
    for state in states {
        if flags.json {
            print(format_args!("{}\n", state.to_json()))?;
        } else {
            print(state)?;
        }
    }
    Ok(if missing { ExitCode::from(EXIT_NO) } else { ExitCode::SUCCESS })
}

fn decode(states: &[String], now: Timestamp) -> Result<Vec<Option<State>>> {
    let read = |text: &String| {
        let state = State::from_ascii(text, now).with_context(|| format!("state {text:?}"))?;
        Ok(Some(state))
    };
    states.iter().map(read).collect()
}

/// What lies under each key. The URL is not repeated in messages: there may be a password in it.
fn fetch(url: &str, keys: &[String], at: Option<Timestamp>) -> Result<Vec<Option<State>>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let store = RedisStore::connect(url).await.context("--redis")?;
        let mut states = Vec::with_capacity(keys.len());
        for key in keys {
            let found =
                store.inspect(key.as_bytes()).await.with_context(|| format!("--redis: key {key:?}"))?;
            let state = found.map(|found| State::from_redis(found, at)).transpose();
            states.push(state.with_context(|| format!("key {key:?}"))?);
        }
        Ok(states)
    })
}
