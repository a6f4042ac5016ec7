//! `ratekeeper serve`.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::available_parallelism;

use anyhow::Result;
use clap::{Args, ValueEnum};
use ratekeeper::MemoryStore;
use ratekeeper::store::MemoryStoreBuilder;

use crate::engine::{Engine, Limits};
use crate::secret::Secret;
use crate::server;
use crate::settings::{Bind, Endpoint, Settings};

/// Where the Redis protocol is spoken unless said otherwise.
const DEFAULT_RESP: &str = "127.0.0.1:6380";

/// The flags of `serve`; each has a twin in the environment.
#[derive(Debug, Args)]
pub(super) struct Flags {
    /// Where to speak the Redis protocol [default: 127.0.0.1:6380].
    #[arg(long, value_name = "ADDR|off", env = "RATEKEEPER_RESP")]
    resp: Option<Bind>,
    /// Where state lives.
    #[arg(long, value_name = "STORE", env = "RATEKEEPER_STORE")]
    store: Option<StoreKind>,
    /// States that the store in memory may hold [default: 1000000].
    #[arg(long, value_name = "N", env = "RATEKEEPER_MAX_KEYS")]
    max_keys: Option<NonZeroUsize>,
    /// Connections at once, for each transport [default: 20000].
    #[arg(long, value_name = "N", env = "RATEKEEPER_MAX_CONNECTIONS")]
    max_connections: Option<NonZeroUsize>,
    /// Close connections that are silent for so long; 0 for never [default: 0].
    #[arg(long, value_name = "SECONDS", env = "RATEKEEPER_IDLE_TIMEOUT")]
    idle_timeout: Option<u32>,
    /// Event loops [default: one for each core].
    #[arg(long, value_name = "N", env = "RATEKEEPER_LOOPS")]
    loops: Option<NonZeroUsize>,
    /// What clients must send with AUTH before anything else.
    #[arg(long, value_name = "TOKEN", env = "RATEKEEPER_AUTH_TOKEN", hide_env_values = true)]
    auth_token: Option<String>,
}

/// Where state lives.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum StoreKind {
    /// In this process.
    Memory,
}

pub(super) fn run(flags: &Flags) -> Result<()> {
    let settings = settings(flags)?;
    crate::log::start();
    let store = MemoryStore::builder().max_keys(settings.max_keys).build();
    let engine = Arc::new(Engine::in_memory(store, settings.limits));
    server::serve(&settings, &engine)
}

fn settings(flags: &Flags) -> Result<Settings> {
    let (Some(StoreKind::Memory) | None) = flags.store;
    let max_connections = flags.max_connections.map_or(Endpoint::DEFAULT_MAX_CONNECTIONS, NonZeroUsize::get);
    let idle_timeout = flags.idle_timeout.unwrap_or(0);
    let bind = match flags.resp {
        Some(bind) => bind,
        None => DEFAULT_RESP.parse()?,
    };
    let resp = match bind {
        Bind::Off => None,
        Bind::At(address) => Some(Endpoint { address, max_connections, idle_timeout }),
    };
    let cores = available_parallelism().map_or(1, NonZeroUsize::get);
    Ok(Settings {
        resp,
        loops: flags.loops.map_or(cores, NonZeroUsize::get),
        max_keys: flags.max_keys.map_or(MemoryStoreBuilder::DEFAULT_MAX_KEYS, NonZeroUsize::get),
        limits: Limits::default(),
        secret: flags.auth_token.as_deref().and_then(Secret::new),
    })
}
