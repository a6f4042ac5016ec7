//! `ratekeeper serve`.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use ratekeeper::{MemoryStore, Registry};
use ratekeeper_redis::RedisStore;

use super::EXIT_NO;
use crate::config::{Config, OnStoreError};
use crate::duration::DurationText;
use crate::engine::Engine;
use crate::log::{self, Format, Level};
use crate::reload::Reload;
use crate::server;
use crate::settings::{Bind, StorePlace};
use crate::snapshot::Snapshot;

/// The flags of `serve`; each has a twin in the environment, and both come before the file.
#[derive(Debug, Default, Args)]
#[command(
    about = "Answer limit requests over the network until told to stop",
    after_help = "Example: ratekeeper serve --config ratekeeper.toml\n\
                  Every flag can be set by RATEKEEPER_<FLAG> too. More of them: ratekeeper serve --help"
)]
pub(super) struct Flags {
    /// A file of settings and plans. Plans are read again when it changes, and on SIGHUP.
    #[arg(long, value_name = "FILE", env = "RATEKEEPER_CONFIG")]
    pub(super) config: Option<PathBuf>,
    /// Where to speak the Redis protocol [default: 127.0.0.1:6380].
    #[arg(long, value_name = "ADDR|off", env = "RATEKEEPER_RESP")]
    pub(super) resp: Option<Bind>,
    /// Where to speak HTTP [default: 127.0.0.1:8080].
    #[arg(long, value_name = "ADDR|off", env = "RATEKEEPER_HTTP")]
    pub(super) http: Option<Bind>,
    /// Where to speak gRPC [default: 127.0.0.1:8070].
    #[arg(long, value_name = "ADDR|off", env = "RATEKEEPER_GRPC")]
    pub(super) grpc: Option<Bind>,
    /// Where to speak MessagePack [default: 127.0.0.1:9090].
    #[arg(long, value_name = "ADDR|off", env = "RATEKEEPER_MSGPACK")]
    pub(super) msgpack: Option<Bind>,
    /// Where state lives: `memory`, redis://host:port/0, rediss://…, redis-cluster://h1,h2 or
    /// redis-sentinel://h1,h2/name [default: memory].
    #[arg(long, value_name = "STORE", env = "RATEKEEPER_STORE", hide_env_values = true)]
    pub(super) store: Option<String>,
    /// States that the store in memory may hold [default: 1000000].
    #[arg(long, value_name = "N", env = "RATEKEEPER_MAX_KEYS")]
    pub(super) max_keys: Option<NonZeroUsize>,
    /// Write state to this file on stop, and read it on start.
    #[arg(long, value_name = "FILE", env = "RATEKEEPER_SNAPSHOT")]
    pub(super) snapshot: Option<PathBuf>,
    /// Write --snapshot so often as well, so that a crash forgets no more than that; 0s for never [default: 0s].
    #[arg(long, value_name = "DURATION", env = "RATEKEEPER_SNAPSHOT_EVERY", hide_short_help = true)]
    pub(super) snapshot_every: Option<DurationText>,
    /// After SIGTERM, go on serving for so long while `/ready` says 503, and then close [default: 0s].
    #[arg(long, value_name = "DURATION", env = "RATEKEEPER_DRAIN", hide_short_help = true)]
    pub(super) drain: Option<DurationText>,
    /// Connections at once, for each transport [default: 20000].
    #[arg(long, value_name = "N", env = "RATEKEEPER_MAX_CONNECTIONS", hide_short_help = true)]
    pub(super) max_connections: Option<NonZeroUsize>,
    /// Close connections that are silent for so long; 0 for never [default: 0].
    #[arg(long, value_name = "SECONDS", env = "RATEKEEPER_IDLE_TIMEOUT", hide_short_help = true)]
    pub(super) idle_timeout: Option<u32>,
    /// Close connections that take longer to finish a request, or to read a reply [default: 30].
    #[arg(long, value_name = "SECONDS", env = "RATEKEEPER_REQUEST_TIMEOUT", hide_short_help = true)]
    pub(super) request_timeout: Option<NonZeroU32>,
    /// What to answer when the store fails a request that names no plan [default: error].
    #[arg(long, value_name = "MODE", env = "RATEKEEPER_ON_STORE_ERROR", hide_short_help = true)]
    pub(super) on_store_error: Option<OnStoreError>,
    /// Tell in the metrics which keys are denied most, up to so many. Keys are personal data [default: 0].
    #[arg(long, value_name = "N", env = "RATEKEEPER_TOP_DENIED", hide_short_help = true)]
    pub(super) top_denied: Option<usize>,
    /// Event loops [default: one for each core].
    #[arg(long, value_name = "N", env = "RATEKEEPER_LOOPS", hide_short_help = true)]
    pub(super) loops: Option<NonZeroUsize>,
    /// What clients must send (AUTH, or a bearer token) before anything else.
    #[arg(long, value_name = "TOKEN", env = "RATEKEEPER_AUTH_TOKEN", hide_env_values = true)]
    pub(super) auth_token: Option<String>,
    /// Encrypt all transports: a certificate in PEM form, with its chain.
    #[arg(long, value_name = "FILE", env = "RATEKEEPER_TLS_CERT")]
    pub(super) tls_cert: Option<PathBuf>,
    /// The private key of --tls-cert, in PEM form.
    #[arg(long, value_name = "FILE", env = "RATEKEEPER_TLS_KEY")]
    pub(super) tls_key: Option<PathBuf>,
    /// How much is logged [default: info].
    #[arg(long, value_name = "LEVEL", env = "RATEKEEPER_LOG_LEVEL")]
    pub(super) log_level: Option<Level>,
    /// In which form [default: text].
    #[arg(long, value_name = "FORMAT", env = "RATEKEEPER_LOG_FORMAT", hide_short_help = true)]
    pub(super) log_format: Option<Format>,
}

pub(super) fn run(flags: &Flags) -> Result<ExitCode> {
    let config = flags.config.as_deref().map(Config::read).transpose()?;
    let settings = super::layers::settings(flags, config.as_ref())?;
    let registry = Registry::new(config.as_ref().map(Config::plans).transpose()?.unwrap_or_default());
    log::start(settings.log_level, settings.log_format);
    let snapshot = settings.snapshot.as_deref().map(Snapshot::open).transpose()?.map(Arc::new);
    let engine = match &settings.store {
        StorePlace::Memory => {
            let builder = || MemoryStore::builder().max_keys(settings.max_keys);
            let store = match &snapshot {
                Some(snapshot) => snapshot.restore(builder)?,
                None => builder().build(),
            };
            Engine::in_memory(store, registry.clone(), settings.limits)
        }
        StorePlace::Redis(url) => {
            // Nothing is sent yet: a Redis that is down is found when it is up, and until then the plans say what to
            // answer.
            // Every loop is a runtime, and so has a connection of its own. A way to it of its own besides, so that no
            // loop waits for another to find its connection.
            let connections = NonZeroUsize::new(settings.loops).unwrap_or(NonZeroUsize::MIN);
            let store = RedisStore::builder(url).connections(connections).build().context("--store")?;
            let breaker = store.breaker();
            let local = MemoryStore::builder().max_keys(settings.max_keys).build();
            Engine::over(Arc::new(store), registry.clone(), settings.limits).guarded_by(breaker, local)
        }
    };
    let engine = engine.on_store_error(settings.on_store_error).top_denied(settings.top_denied);
    let reload = config.map(|config| Reload::new(config.path(), registry));
    let engine = Arc::new(engine);
    let periodic = match &snapshot {
        Some(snapshot) if !settings.snapshot_every.is_zero() => {
            Some(snapshot.write_every(settings.snapshot_every, &engine)?)
        }
        _ => None,
    };
    server::serve(&settings, &engine, reload)?;
    if let Some(periodic) = periodic {
        periodic.stop();
    }
    let (Some(snapshot), Some(store)) = (&snapshot, engine.memory()) else { return Ok(ExitCode::SUCCESS) };
    match snapshot.write(store) {
        Ok(()) => {
            tracing::info!(keys = store.len(), "state written");
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "state not written: the next start forgets it");
            Ok(ExitCode::from(EXIT_NO))
        }
    }
}
