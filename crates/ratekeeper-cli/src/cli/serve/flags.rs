//! The flags of `ratekeeper serve`.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args};
use ratekeeper::Lease;
use ratekeeper_server::Bind;
use ratekeeper_server::config::{
    ByteSize, DurationText, LogFormat, LogLevel, OnStoreError, Percent, RecordKeys, SampleShare, SecretText,
};

use super::breaker_flag::BreakerFlag;
use super::words;

/// The flags of `serve`. Each has a twin in the environment, and both come before the file.
#[derive(Debug, Default, Args)]
#[command(
    about = "Start the server: Redis protocol, HTTP, gRPC and MessagePack",
    after_help = "Example: ratekeeper serve --config ratekeeper.toml\n\
                  Environment variables RATEKEEPER_<FLAG> set flags too. All flags: ratekeeper serve --help"
)]
pub(in crate::cli) struct ServeFlags {
    /// File of settings and plans; plans are reloaded on change and on SIGHUP.
    #[arg(long, value_name = "FILE", env = "RATEKEEPER_CONFIG")]
    pub(super) config: Option<PathBuf>,
    /// Limits for Envoy, a YAML file or a folder; may be repeated, and is reloaded on change.
    #[arg(long, value_name = "PATH", env = "RATEKEEPER_RLS", value_delimiter = ',')]
    pub(super) rls: Vec<PathBuf>,
    /// Address to serve the Redis protocol on [default: 127.0.0.1:6380].
    #[arg(long, value_name = "ADDR|off", env = "RATEKEEPER_RESP")]
    pub(super) resp: Option<Bind>,
    /// Address to serve HTTP on [default: 127.0.0.1:8080].
    #[arg(long, value_name = "ADDR|off", env = "RATEKEEPER_HTTP")]
    pub(super) http: Option<Bind>,
    /// Address to serve gRPC on [default: 127.0.0.1:8070].
    #[arg(long, value_name = "ADDR|off", env = "RATEKEEPER_GRPC")]
    pub(super) grpc: Option<Bind>,
    /// Address to serve MessagePack on [default: 127.0.0.1:9090].
    #[arg(long, value_name = "ADDR|off", env = "RATEKEEPER_MSGPACK")]
    pub(super) msgpack: Option<Bind>,
    /// Where to keep state: `memory`, redis://host:port/0, rediss://…, redis-cluster://…, redis-sentinel://… or postgres://…
    /// [default: memory].
    #[arg(long, value_name = "STORE", env = "RATEKEEPER_STORE", hide_env_values = true)]
    pub(super) store: Option<SecretText>,
    /// How long to wait for Redis or PostgreSQL to answer a request; then the failure mode answers [default: 100ms].
    #[arg(long, value_name = "DURATION", env = "RATEKEEPER_REDIS_TIMEOUT", hide_short_help = true)]
    pub(super) redis_timeout: Option<DurationText>,
    /// How long to wait for a connection to Redis or PostgreSQL [default: 500ms].
    #[arg(long, value_name = "DURATION", env = "RATEKEEPER_REDIS_CONNECT_TIMEOUT", hide_short_help = true)]
    pub(super) redis_connect_timeout: Option<DurationText>,
    /// Prefix of all keys in Redis [default: rate_limiter].
    #[arg(long, value_name = "PREFIX", env = "RATEKEEPER_REDIS_PREFIX", hide_short_help = true)]
    pub(super) redis_prefix: Option<String>,
    /// Table in PostgreSQL, with its schema before a dot if it has one; created if it is not there [default: ratekeeper].
    #[arg(long, value_name = "TABLE", env = "RATEKEEPER_POSTGRES_TABLE", hide_short_help = true)]
    pub(super) postgres_table: Option<String>,
    /// When to stop asking a Redis or PostgreSQL that fails: `off`, or any of failures=5,percent=50,least=20,window=10s,rest=1s,
    /// which are the defaults. After this many `failures` in a row, or when `percent` of at least `least` requests within
    /// `window` have failed, it is not asked for the time `rest`, and the failure mode answers.
    #[arg(long, value_name = "BREAKER", env = "RATEKEEPER_REDIS_BREAKER", hide_short_help = true)]
    pub(super) redis_breaker: Option<BreakerFlag>,
    /// How long tokens of a Redis may be kept that were taken ahead for requests that bring their own quota: `off`, a share of
    /// the refill time such as 10%, or a time such as 50ms. Plans have a `lease` of their own [default: off].
    #[arg(long, value_name = "LEASE", env = "RATEKEEPER_LEASE", hide_short_help = true)]
    pub(super) lease: Option<Lease>,
    /// Maximum number of keys that tokens are kept for; 0 for none, whatever plans say [default: 4096].
    #[arg(long, value_name = "N", env = "RATEKEEPER_LEASED_KEYS", hide_short_help = true)]
    pub(super) leased_keys: Option<usize>,
    /// Maximum number of states of the store in memory [default: 1000000].
    #[arg(long, value_name = "N", env = "RATEKEEPER_MAX_KEYS", hide_short_help = true)]
    pub(super) max_keys: Option<NonZeroUsize>,
    /// Maximum size of the store in memory, such as 256MB.
    #[arg(long, value_name = "BYTES", env = "RATEKEEPER_MAX_BYTES", hide_short_help = true)]
    pub(super) max_bytes: Option<ByteSize>,
    /// Share of --max-keys and --max-bytes that is reserved for plans: quotas that come with requests cannot use it
    /// [default: 50%].
    #[arg(long, value_name = "PERCENT", env = "RATEKEEPER_KEPT_FOR_PLANS", hide_short_help = true)]
    pub(super) kept_for_plans: Option<Percent>,
    /// Keep the keys themselves in memory, so that they can be forgotten by prefix; takes more memory [default: true if
    /// there is an admin token].
    #[arg(long, value_name = "BOOL", env = "RATEKEEPER_KEEP_KEYS", hide_short_help = true,
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(super) keep_keys: Option<bool>,
    /// Read state from this file on start, and write it on stop.
    #[arg(long, value_name = "FILE", env = "RATEKEEPER_SNAPSHOT")]
    pub(super) snapshot: Option<PathBuf>,
    /// Also write --snapshot at this interval, so that a crash loses no more than that; 0s for never [default: 0s].
    #[arg(long, value_name = "DURATION", env = "RATEKEEPER_SNAPSHOT_EVERY", hide_short_help = true)]
    pub(super) snapshot_every: Option<DurationText>,
    /// Write what is asked to this file, for `ratekeeper simulate`: when, who, how much, which plan.
    #[arg(long, value_name = "FILE", env = "RATEKEEPER_RECORD", hide_short_help = true)]
    pub(super) record: Option<PathBuf>,
    /// Share of the keys whose requests --record writes [default: 100%].
    #[arg(long, value_name = "PERCENT", env = "RATEKEEPER_RECORD_SAMPLE", hide_short_help = true)]
    pub(super) record_sample: Option<SampleShare>,
    /// Size at which --record begins another file [default: 100MB].
    #[arg(long, value_name = "BYTES", env = "RATEKEEPER_RECORD_MAX_BYTES", hide_short_help = true)]
    pub(super) record_max_bytes: Option<ByteSize>,
    /// Number of files of --record that are kept [default: 5].
    #[arg(long, value_name = "N", env = "RATEKEEPER_RECORD_FILES", hide_short_help = true)]
    pub(super) record_files: Option<NonZeroUsize>,
    /// How --record writes keys, which may be personal data [default: hashed].
    #[arg(long, value_parser = words::record_keys(), value_name = "FORM", env = "RATEKEEPER_RECORD_KEYS", hide_short_help = true)]
    pub(super) record_keys: Option<RecordKeys>,
    /// Send spans of traced requests to this collector of OpenTelemetry, such as http://localhost:4318; needs a build with
    /// the feature `otel`.
    #[arg(long, value_name = "URL", env = "RATEKEEPER_OTLP", hide_short_help = true)]
    pub(super) otlp: Option<String>,
    /// Share of the requests without a traceparent that --otlp traces [default: none].
    #[arg(long, value_name = "PERCENT", env = "RATEKEEPER_OTLP_SAMPLE", hide_short_help = true)]
    pub(super) otlp_sample: Option<SampleShare>,
    /// How long to keep serving after SIGTERM, while /ready answers 503; at most 1h [default: 0s].
    #[arg(long, value_name = "DURATION", env = "RATEKEEPER_DRAIN", hide_short_help = true)]
    pub(super) drain: Option<DurationText>,
    /// Maximum number of connections per transport [default: 20000].
    #[arg(long, value_name = "N", env = "RATEKEEPER_MAX_CONNECTIONS", hide_short_help = true)]
    pub(super) max_connections: Option<NonZeroUsize>,
    /// Close connections that have been silent for this many seconds; 0 for never [default: 0].
    #[arg(long, value_name = "SECONDS", env = "RATEKEEPER_IDLE_TIMEOUT", hide_short_help = true)]
    pub(super) idle_timeout: Option<u32>,
    /// Close connections that take longer than this many seconds to finish a request, or to read a reply [default: 30].
    #[arg(long, value_name = "SECONDS", env = "RATEKEEPER_REQUEST_TIMEOUT", hide_short_help = true)]
    pub(super) request_timeout: Option<NonZeroU32>,
    /// Failure mode of requests that name no plan: how to answer when the store fails [default: error].
    #[arg(long, value_parser = words::on_store_error(), value_name = "MODE", env = "RATEKEEPER_ON_STORE_ERROR", hide_short_help = true)]
    pub(super) on_store_error: Option<OnStoreError>,
    /// Longest period, and longest time to refill, of a quota that comes with a request [default: 31d].
    #[arg(long, value_name = "TIME", env = "RATEKEEPER_MAX_PERIOD", hide_short_help = true)]
    pub(super) max_period: Option<DurationText>,
    /// Accept `log` quotas in requests; such a quota stores an entry for every request.
    #[arg(long, value_name = "BOOL", env = "RATEKEEPER_ALLOW_LOG", hide_short_help = true,
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(super) allow_log: Option<bool>,
    /// Largest burst of a `log` quota in a request [default: 1000].
    #[arg(long, value_name = "N", env = "RATEKEEPER_MAX_LOG_ENTRIES", hide_short_help = true)]
    pub(super) max_log_entries: Option<NonZeroU32>,
    /// Refuse quotas in requests: every request must name a plan.
    #[arg(long, value_name = "BOOL", env = "RATEKEEPER_PLANS_ONLY", hide_short_help = true,
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(super) plans_only: Option<bool>,
    /// List this many of the most denied keys in /metrics; keys may be personal data [default: 0].
    #[arg(long, value_name = "N", env = "RATEKEEPER_TOP_DENIED", hide_short_help = true)]
    pub(super) top_denied: Option<usize>,
    /// Log this many denials a second, with their keys; keys may be personal data [default: 0].
    #[arg(long, value_name = "N", env = "RATEKEEPER_LOG_DENIALS", hide_short_help = true)]
    pub(super) log_denials: Option<u32>,
    /// Number of event loops, each on its own thread [default: one per core].
    #[arg(long, value_name = "N", env = "RATEKEEPER_LOOPS", hide_short_help = true)]
    pub(super) loops: Option<NonZeroUsize>,
    /// Token that clients must send, by AUTH or as a bearer token.
    #[arg(long, value_name = "TOKEN", env = "RATEKEEPER_AUTH_TOKEN", hide_env_values = true)]
    pub(super) auth_token: Option<SecretText>,
    /// File that holds the token of --auth-token; read again when it changes, as those of the other tokens.
    #[arg(long, value_name = "FILE", env = "RATEKEEPER_AUTH_TOKEN_FILE", hide_short_help = true)]
    pub(super) auth_token_file: Option<PathBuf>,
    /// Token that is needed to reset, refund, debit and forget keys, and to see which are denied most; also accepted as
    /// --auth-token. Without it these work from this machine only.
    #[arg(
        long,
        value_name = "TOKEN",
        env = "RATEKEEPER_ADMIN_TOKEN",
        hide_env_values = true,
        hide_short_help = true
    )]
    pub(super) admin_token: Option<SecretText>,
    /// File that holds the token of --admin-token.
    #[arg(long, value_name = "FILE", env = "RATEKEEPER_ADMIN_TOKEN_FILE", hide_short_help = true)]
    pub(super) admin_token_file: Option<PathBuf>,
    /// Token that is needed to read /metrics; the other tokens are accepted too.
    #[arg(
        long,
        value_name = "TOKEN",
        env = "RATEKEEPER_METRICS_TOKEN",
        hide_env_values = true,
        hide_short_help = true
    )]
    pub(super) metrics_token: Option<SecretText>,
    /// File that holds the token of --metrics-token.
    #[arg(long, value_name = "FILE", env = "RATEKEEPER_METRICS_TOKEN_FILE", hide_short_help = true)]
    pub(super) metrics_token_file: Option<PathBuf>,
    /// Let anybody read /metrics, also where --auth-token is set.
    #[arg(long, value_name = "BOOL", env = "RATEKEEPER_OPEN_METRICS", hide_short_help = true,
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(super) open_metrics: Option<bool>,
    /// Names of hosts that HTTP is asked by on this machine without a token, besides loopback, addresses and the name of
    /// the machine; separated by commas. Other names are refused: they may be those of a page from elsewhere.
    #[arg(
        long,
        value_name = "NAMES",
        env = "RATEKEEPER_ALLOWED_HOSTS",
        value_delimiter = ',',
        hide_short_help = true
    )]
    pub(super) allowed_hosts: Vec<String>,
    /// Name of this server in its console [default: the name of the machine].
    #[arg(long, value_name = "NAME", env = "RATEKEEPER_INSTANCE", hide_short_help = true)]
    pub(super) instance: Option<String>,
    /// Encrypt all transports with this certificate and its chain, in PEM form.
    #[arg(long, value_name = "FILE", env = "RATEKEEPER_TLS_CERT")]
    pub(super) tls_cert: Option<PathBuf>,
    /// Private key of --tls-cert, in PEM form.
    #[arg(long, value_name = "FILE", env = "RATEKEEPER_TLS_KEY")]
    pub(super) tls_key: Option<PathBuf>,
    /// How much to log [default: info].
    #[arg(long, value_parser = words::log_level(), value_name = "LEVEL", env = "RATEKEEPER_LOG_LEVEL")]
    pub(super) log_level: Option<LogLevel>,
    /// Format of the log, which goes to standard error [default: text].
    #[arg(long, value_parser = words::log_format(), value_name = "FORMAT", env = "RATEKEEPER_LOG_FORMAT", hide_short_help = true)]
    pub(super) log_format: Option<LogFormat>,
}

impl ServeFlags {
    /// Returns flags that name files and folders of limits for Envoy, and nothing else.
    pub(in crate::cli) fn of_rls(paths: &[PathBuf]) -> Self {
        ServeFlags { rls: paths.to_vec(), ..ServeFlags::default() }
    }

    /// Lets a flag come before the environment where two settings mean one thing: a token, or the file that holds it.
    pub(in crate::cli) fn prefer_command_line(&mut self, matches: &ArgMatches) {
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
