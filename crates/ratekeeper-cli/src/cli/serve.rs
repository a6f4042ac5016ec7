//! `ratekeeper serve`.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args};
use ratekeeper::store::MemoryStoreBuilder;
use ratekeeper::{MemoryStore, Registry};

use super::EXIT_NO;
use super::breaker::BreakerFlag;
use super::words;
use crate::log;
use ratekeeper_server::config::{Config, OnStoreError};
use ratekeeper_server::duration::DurationText;
use ratekeeper_server::engine::Engine;
use ratekeeper_server::log::{LogFormat, LogLevel};
use ratekeeper_server::secret::SecretText;
use ratekeeper_server::settings::{Bind, Settings, StorePlace};
use ratekeeper_server::snapshot::Snapshot;
use ratekeeper_server::units::{ByteSize, Percent};
use ratekeeper_server::{reload, server, store_check};

/// The flags of `serve`; each has a twin in the environment, and both come before the file.
#[derive(Debug, Default, Args)]
#[command(
    about = "Answer limit requests over the network until told to stop",
    after_help = "Example: ratekeeper serve --config ratekeeper.toml\n\
                  Every flag can be set by RATEKEEPER_<FLAG> too. More of them: ratekeeper serve --help"
)]
pub(super) struct Flags {
    /// Settings and plans; plans are read again when it changes, and on SIGHUP.
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
    pub(super) store: Option<SecretText>,
    /// How long to wait for an answer of a Redis, before its failure is answered for [default: 100ms].
    #[arg(long, value_name = "DURATION", env = "RATEKEEPER_REDIS_TIMEOUT", hide_short_help = true)]
    pub(super) redis_timeout: Option<DurationText>,
    /// How long to wait for a connection to a Redis [default: 500ms].
    #[arg(long, value_name = "DURATION", env = "RATEKEEPER_REDIS_CONNECT_TIMEOUT", hide_short_help = true)]
    pub(super) redis_connect_timeout: Option<DurationText>,
    /// What keys in a Redis begin with [default: rate_limiter].
    #[arg(long, value_name = "PREFIX", env = "RATEKEEPER_REDIS_PREFIX", hide_short_help = true)]
    pub(super) redis_prefix: Option<String>,
    /// When a Redis that fails is left alone: `off`, or any of
    /// failures=5,percent=50,least=20,window=10s,rest=1s, which are the defaults.
    #[arg(long, value_name = "BREAKER", env = "RATEKEEPER_REDIS_BREAKER", hide_short_help = true)]
    pub(super) redis_breaker: Option<BreakerFlag>,
    /// States that the store in memory may hold [default: 1000000].
    #[arg(long, value_name = "N", env = "RATEKEEPER_MAX_KEYS")]
    pub(super) max_keys: Option<NonZeroUsize>,
    /// Bytes that the store in memory may allocate, such as 256MB or 2GiB.
    #[arg(long, value_name = "BYTES", env = "RATEKEEPER_MAX_BYTES")]
    pub(super) max_bytes: Option<ByteSize>,
    /// How much of both quotas of requests cannot take, while there are plans [default: 50%].
    #[arg(long, value_name = "PERCENT", env = "RATEKEEPER_KEPT_FOR_PLANS", hide_short_help = true)]
    pub(super) kept_for_plans: Option<Percent>,
    /// Remember keys in memory, so that they can be forgotten by prefix; costs their bytes [default: if there is an admin token].
    #[arg(long, value_name = "BOOL", env = "RATEKEEPER_KEEP_KEYS", hide_short_help = true,
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(super) keep_keys: Option<bool>,
    /// Write state to this file on stop, and read it on start.
    #[arg(long, value_name = "FILE", env = "RATEKEEPER_SNAPSHOT")]
    pub(super) snapshot: Option<PathBuf>,
    /// Write --snapshot so often as well, so that a crash forgets no more than that; 0s for never [default: 0s].
    #[arg(long, value_name = "DURATION", env = "RATEKEEPER_SNAPSHOT_EVERY", hide_short_help = true)]
    pub(super) snapshot_every: Option<DurationText>,
    /// After SIGTERM, go on serving for so long while `/ready` says 503, and then close; 1h at most
    /// [default: 0s].
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
    #[arg(long, value_parser = words::on_store_error(), value_name = "MODE", env = "RATEKEEPER_ON_STORE_ERROR", hide_short_help = true)]
    pub(super) on_store_error: Option<OnStoreError>,
    /// The longest period of a quota that comes with a request, and the longest time in which it may refill [default:
    /// 31d].
    #[arg(long, value_name = "TIME", env = "RATEKEEPER_MAX_PERIOD", hide_short_help = true)]
    pub(super) max_period: Option<DurationText>,
    /// Let quotas that come with requests be a `log`, which remembers every request.
    #[arg(long, value_name = "BOOL", env = "RATEKEEPER_ALLOW_LOG", hide_short_help = true,
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(super) allow_log: Option<bool>,
    /// The most requests that such a log may remember [default: 1000].
    #[arg(long, value_name = "N", env = "RATEKEEPER_MAX_LOG_ENTRIES", hide_short_help = true)]
    pub(super) max_log_entries: Option<NonZeroU32>,
    /// Take no quotas from requests: every request must name a plan.
    #[arg(long, value_name = "BOOL", env = "RATEKEEPER_PLANS_ONLY", hide_short_help = true,
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(super) plans_only: Option<bool>,
    /// Tell in the metrics which keys are denied most, up to so many. Keys are personal data [default: 0].
    #[arg(long, value_name = "N", env = "RATEKEEPER_TOP_DENIED", hide_short_help = true)]
    pub(super) top_denied: Option<usize>,
    /// Event loops [default: one for each core].
    #[arg(long, value_name = "N", env = "RATEKEEPER_LOOPS", hide_short_help = true)]
    pub(super) loops: Option<NonZeroUsize>,
    /// What clients must send (AUTH, or a bearer token) before anything else.
    #[arg(long, value_name = "TOKEN", env = "RATEKEEPER_AUTH_TOKEN", hide_env_values = true)]
    pub(super) auth_token: Option<SecretText>,
    /// A file that holds the token of --auth-token.
    #[arg(long, value_name = "FILE", env = "RATEKEEPER_AUTH_TOKEN_FILE", hide_short_help = true)]
    pub(super) auth_token_file: Option<PathBuf>,
    /// What an administrator must send to forget keys by prefix; passes for --auth-token too.
    #[arg(
        long,
        value_name = "TOKEN",
        env = "RATEKEEPER_ADMIN_TOKEN",
        hide_env_values = true,
        hide_short_help = true
    )]
    pub(super) admin_token: Option<SecretText>,
    /// A file that holds the token of --admin-token.
    #[arg(long, value_name = "FILE", env = "RATEKEEPER_ADMIN_TOKEN_FILE", hide_short_help = true)]
    pub(super) admin_token_file: Option<PathBuf>,
    /// What must be sent to read /metrics; the two other tokens pass as well.
    #[arg(
        long,
        value_name = "TOKEN",
        env = "RATEKEEPER_METRICS_TOKEN",
        hide_env_values = true,
        hide_short_help = true
    )]
    pub(super) metrics_token: Option<SecretText>,
    /// A file that holds the token of --metrics-token.
    #[arg(long, value_name = "FILE", env = "RATEKEEPER_METRICS_TOKEN_FILE", hide_short_help = true)]
    pub(super) metrics_token_file: Option<PathBuf>,
    /// Encrypt all transports: a certificate in PEM form, with its chain.
    #[arg(long, value_name = "FILE", env = "RATEKEEPER_TLS_CERT")]
    pub(super) tls_cert: Option<PathBuf>,
    /// The private key of --tls-cert, in PEM form.
    #[arg(long, value_name = "FILE", env = "RATEKEEPER_TLS_KEY")]
    pub(super) tls_key: Option<PathBuf>,
    /// How much is logged [default: info].
    #[arg(long, value_parser = words::log_level(), value_name = "LEVEL", env = "RATEKEEPER_LOG_LEVEL")]
    pub(super) log_level: Option<LogLevel>,
    /// In which form [default: text].
    #[arg(long, value_parser = words::log_format(), value_name = "FORMAT", env = "RATEKEEPER_LOG_FORMAT", hide_short_help = true)]
    pub(super) log_format: Option<LogFormat>,
}

impl Flags {
    /// Lets a flag come before the environment where two settings mean one thing: a token, or the file that holds it.
    pub(super) fn prefer_command_line(&mut self, matches: &ArgMatches) {
        let is_given = |id| matches.value_source(id) == Some(ValueSource::CommandLine);
        for (token, id, file, file_id) in [
            (&mut self.auth_token, "auth_token", &mut self.auth_token_file, "auth_token_file"),
            (&mut self.admin_token, "admin_token", &mut self.admin_token_file, "admin_token_file"),
            (&mut self.metrics_token, "metrics_token", &mut self.metrics_token_file, "metrics_token_file"),
        ] {
            match (is_given(id), is_given(file_id)) {
                (true, false) => *file = None,
                (false, true) => *token = None,
                _ => {}
            }
        }
    }
}

pub(super) fn run(flags: Flags) -> Result<ExitCode> {
    let config = flags.config.as_deref().map(Config::read).transpose()?;
    let settings = super::layers::settings(&flags, config.as_ref())?;
    let plans = config.as_ref().map(Config::plans).transpose()?;
    let registry = Registry::new(plans.unwrap_or_default());
    log::start(settings.log_level, settings.log_format);
    let limits = &settings.limits;
    if limits.bounds.plans_only && (limits.burst.or(limits.rate).or(limits.period)).is_some() {
        tracing::warn!(
            "[limits] default_burst, default_rate and default_period are not used: plans_only is set"
        );
    }
    let snapshot = settings.snapshot.as_deref().map(Snapshot::open).transpose()?.map(Arc::new);
    let engine = match &settings.store {
        StorePlace::Memory => {
            let store = match &snapshot {
                Some(snapshot) => snapshot.restore(|| memory(&settings))?,
                None => memory(&settings).build(),
            };
            Engine::in_memory(store, registry.clone(), settings.limits)
        }
        StorePlace::Redis(url) => {
            // A Redis that is down is found when it is up, and until then the plans say what to answer.
            // Every loop is a runtime, and so has a connection of its own. A way to it of its own besides, so that no
            // loop waits for another to find its connection.
            let connections = NonZeroUsize::new(settings.loops).unwrap_or(NonZeroUsize::MIN);
            let store = settings.redis.builder(url).connections(connections).build().context("--store")?;
            store_check::start(store.clone(), settings.redis.timeout)?;
            let breakers = {
                let store = store.clone();
                move || store.breakers()
            };
            Engine::over(Arc::new(store), registry.clone(), settings.limits)
                .guarded_by(breakers, memory(&settings).build())
        }
    };
    let engine = engine
        .kept_for_plans(settings.kept_for_plans)
        .on_store_error(settings.on_store_error)
        .top_denied(settings.top_denied);
    let engine = Arc::new(engine);
    let reload = config.map(|config| {
        // Everything that the file says, as at a start: but what needs a restart is not fetched from elsewhere.
        let understand = Box::new(move |config: &Config| {
            super::layers::check(&flags, config)?;
            Ok(config.plans()?)
        });
        reload::watch(&config, registry, engine.reloads().clone(), understand)
    });
    let reload = reload.transpose().context("cannot watch --config")?;
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

/// A store in memory, within its bounds.
fn memory(settings: &Settings) -> MemoryStoreBuilder {
    let builder = MemoryStore::builder().max_keys(settings.max_keys).keep_keys(settings.keep_keys);
    // The engine keeps room for plans as soon as there are any, and not by the store's own rule.
    let builder = builder.kept_for_plans(0);
    match settings.max_bytes {
        Some(max_bytes) => builder.max_bytes(max_bytes),
        None => builder,
    }
}
