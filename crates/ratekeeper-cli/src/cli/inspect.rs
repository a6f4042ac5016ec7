//! `ratekeeper inspect`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use clap::Args;
use ratekeeper::{Key, Timestamp};
use ratekeeper_redis::RedisStore;

use super::output::{EXIT_NO, print};
use crate::inspect::{HoldsOfKey, InspectedSnapshot, InspectedState};

/// How long a Redis may take: a person has more patience than a request.
const PATIENCE: Duration = Duration::from_secs(5);

/// Decodes states into strategy, version, fields and times.
#[derive(Debug, Args)]
#[command(
    override_usage = "ratekeeper inspect [OPTIONS] STATE…\n       ratekeeper inspect [OPTIONS] --redis URL KEY…\n       ratekeeper inspect [OPTIONS] --redis URL --holds KEY…\n       ratekeeper inspect [OPTIONS] --snapshot FILE",
    after_help = "Example: ratekeeper inspect '12|8.5|1761884055342794596' --quota '10/s bucket'"
)]
pub(super) struct InspectFlags {
    /// States in ASCII form; with --redis, the names of Redis keys.
    #[arg(value_name = "STATE", required_unless_present = "snapshot", conflicts_with = "snapshot")]
    states: Vec<String>,
    /// Read the states from this Redis server, in either encoding.
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// With --redis, print what is held for keys: STATE is a key as requests name it, not the name of a Redis key.
    #[arg(long, requires = "redis", conflicts_with = "quota")]
    holds: bool,
    /// Print what is in this snapshot of a store in memory: how many states, and every live hold.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["redis", "quota"])]
    snapshot: Option<PathBuf>,
    /// Also print what is owed, and what the next request would be answered, under this quota.
    #[arg(long, value_name = "QUOTA")]
    quota: Option<String>,
    /// Time to decide at, in seconds since the epoch [default: now].
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    at: Option<i64>,
    /// Print each state as one JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(flags: &InspectFlags) -> Result<ExitCode> {
    let at = flags.at.map(Timestamp::from_secs);
    if let Some(path) = &flags.snapshot {
        return inspect_snapshot(path, at.unwrap_or_else(|| SystemTime::now().into()), flags.json);
    }
    if let (true, Some(url)) = (flags.holds, &flags.redis) {
        return inspect_holds(url, &flags.states, flags.json);
    }
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
                eprintln!("ratekeeper: {name:?}: no such key; a key without state is a fresh one");
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

fn inspect_snapshot(path: &Path, now: Timestamp, json: bool) -> Result<ExitCode> {
    let name = || format!("--snapshot {}", path.display());
    let bytes = fs::read(path).with_context(name)?;
    let found = InspectedSnapshot::from_bytes(&bytes, now).with_context(name)?;
    if json {
        print(format_args!("{}\n", found.to_json()))?
    } else {
        print(found)?
    }
    Ok(ExitCode::SUCCESS)
}

fn decode(states: &[String], now: Timestamp) -> Result<Vec<Option<InspectedState>>> {
    let read = |text: &String| {
        let state = InspectedState::from_ascii(text, now).with_context(|| format!("state {text:?}"))?;
        Ok(Some(state))
    };
    states.iter().map(read).collect()
}

fn inspect_holds(url: &str, keys: &[String], json: bool) -> Result<ExitCode> {
    let found = with_store(url, async |store| {
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            let named = || format!("--redis: key {key:?}");
            let holds = store.inspect_holds(Key::new(key).with_context(named)?).await.with_context(named)?;
            found.push(HoldsOfKey::new(key, holds));
        }
        Ok(found)
    })?;
    for holds in found {
        if json {
            print(format_args!("{}\n", holds.to_json()))?;
        } else {
            print(holds)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Does something with a Redis, on a runtime of its own.
fn with_store<T>(url: &str, work: impl AsyncFnOnce(&RedisStore) -> Result<T>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let store = RedisStore::builder(url).command_timeout(PATIENCE).connect_timeout(PATIENCE);
        let store = store.connect().await.context("--redis")?;
        work(&store).await
    })
}

/// Reads what lies under each key. The URL is not repeated in messages: there may be a password in it.
fn fetch(url: &str, keys: &[String], at: Option<Timestamp>) -> Result<Vec<Option<InspectedState>>> {
    with_store(url, async |store| {
        let mut states = Vec::with_capacity(keys.len());
        for key in keys {
            let found =
                store.inspect(key.as_bytes()).await.with_context(|| format!("--redis: key {key:?}"))?;
            let state = found.map(|found| InspectedState::from_redis(found, at)).transpose();
            states.push(state.with_context(|| format!("key {key:?}"))?);
        }
        Ok(states)
    })
}
