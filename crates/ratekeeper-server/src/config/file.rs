//! What a configuration file may say, section by section.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

use ratekeeper::OnLapse;
use serde::Deserialize;
use toml::Spanned;

use super::duration::DurationText;
use super::lease_text::LeaseText;
use super::logging::{LogFormat, LogLevel};
use super::on_store_error::OnStoreError;
use super::record_section::RecordSection;
use super::rls_section::RlsSection;
use super::secret_text::SecretText;
use super::units::{ByteSize, Percent, SampleShare};

/// A whole configuration file. Every part of it may be missing.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct ConfigFile {
    /// The section `[server]`: the process as a whole.
    pub server: ServerSection,
    /// The sections `[transports.<name>]`: where to listen.
    pub transports: TransportSections,
    /// The section `[store]`: where state is kept.
    pub store: StoreSection,
    /// The section `[limits]`: requests that name no plan.
    pub limits: LimitsSection,
    /// The section `[record]`: requests that are recorded.
    pub record: RecordSection,
    /// The section `[otlp]`: requests that are traced.
    pub otlp: OtlpSection,
    /// The section `[rls]`: the service that Envoy asks. It is off without it.
    pub rls: Option<RlsSection>,
    /// The sections `[plans.<name>]`: the plans, by name.
    pub(super) plans: BTreeMap<Spanned<String>, PlanSection>,
}

/// `[server]`: the process as a whole.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct ServerSection {
    /// How much to log; `info` unless set.
    pub log_level: Option<LogLevel>,
    /// In which form to log.
    pub log_format: Option<LogFormat>,
    /// How many event loops to run.
    pub loops: Option<NonZeroUsize>,
    /// The token that clients must send.
    pub auth_token: Option<SecretText>,
    /// A file that holds `auth_token`.
    pub auth_token_file: Option<PathBuf>,
    /// The token that allows keys to be reset, refunded, debited and forgotten.
    pub admin_token: Option<SecretText>,
    /// A file that holds `admin_token`.
    pub admin_token_file: Option<PathBuf>,
    /// The token to read `/metrics`.
    pub metrics_token: Option<SecretText>,
    /// A file that holds `metrics_token`.
    pub metrics_token_file: Option<PathBuf>,
    /// Whether anybody may read `/metrics`.
    pub open_metrics: Option<bool>,
    /// Names of hosts that HTTP is asked by on this machine without a token.
    pub allowed_hosts: Option<Vec<String>>,
    /// The name of this server in its console.
    pub instance: Option<String>,
    /// How many of the most denied keys `/metrics` lists.
    pub top_denied: Option<usize>,
    /// How many denials to log a second.
    pub log_denials: Option<u32>,
    /// How long to keep serving after SIGTERM.
    pub drain: Option<DurationText>,
    /// A certificate and its chain, in PEM form.
    pub tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM form.
    pub tls_key: Option<PathBuf>,
}

/// `[otlp]`: requests that are traced, and where their spans are sent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct OtlpSection {
    /// The collector: `http://host:4318`.
    pub url: Option<String>,
    /// The share of requests without a `traceparent` that are traced; none unless set.
    pub sample: Option<SampleShare>,
    /// The name of this service in traces.
    pub service: Option<String>,
}

/// `[transports]`: the transports by name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct TransportSections {
    /// The Redis protocol, on port 6380 unless set.
    pub resp: TransportSection,
    /// HTTP and JSON, on port 8080 unless set.
    pub http: TransportSection,
    /// gRPC, on port 8070 unless set.
    pub grpc: TransportSection,
    /// MessagePack over TCP, on port 9090 unless set.
    pub msgpack: TransportSection,
}

/// `[transports.<name>]`: where one transport listens, and its bounds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct TransportSection {
    /// Whether to listen; true unless set.
    pub enabled: Option<bool>,
    /// The host to listen on: an address or a name.
    pub host: Option<String>,
    /// The port to listen on; 0 for any free one.
    pub port: Option<u16>,
    /// How many connections to accept at once.
    pub max_connections: Option<NonZeroUsize>,
    /// Seconds after which a silent connection is closed; 0 for never.
    pub idle_timeout: Option<u32>,
    /// Seconds that a client may take to finish a request, or to read a reply.
    pub request_timeout: Option<NonZeroU32>,
}

/// `[store]`: where state is kept.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct StoreSection {
    /// The kind of store: `memory`, `redis` or `postgres`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The URL of a Redis, of any topology, or of a PostgreSQL.
    pub url: Option<SecretText>,
    /// How many states the store in memory may hold.
    pub max_keys: Option<NonZeroUsize>,
    /// How many bytes the store in memory may allocate.
    pub max_bytes: Option<ByteSize>,
    /// The percentage of both that quotas of requests cannot take while there are plans.
    pub kept_for_plans: Option<Percent>,
    /// Whether the store in memory remembers keys, so that they can be forgotten by prefix.
    pub keep_keys: Option<bool>,
    /// The file that state is read from on start, and written to on stop.
    pub snapshot: Option<PathBuf>,
    /// The interval at which it is written as well.
    pub snapshot_every: Option<DurationText>,
    /// How long to wait for Redis or PostgreSQL to answer a request.
    pub timeout: Option<DurationText>,
    /// How long to wait for a connection to Redis or PostgreSQL.
    pub connect_timeout: Option<DurationText>,
    /// The prefix of all keys in Redis.
    pub prefix: Option<String>,
    /// The table in PostgreSQL.
    pub table: Option<String>,
    /// Whether a table that has to be created in PostgreSQL survives a crash of the server.
    pub logged: Option<bool>,
    /// How long tokens may be kept that were taken ahead for requests that bring their own quota.
    pub lease: Option<LeaseText>,
    /// How many keys tokens may be kept for.
    pub leased_keys: Option<usize>,
    /// The section `[store.breaker]`: when to stop asking a Redis or PostgreSQL that fails.
    pub breaker: BreakerSection,
}

/// `[store.breaker]`: when to stop asking a Redis or PostgreSQL that fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct BreakerSection {
    /// Whether to ever stop asking it.
    pub enabled: Option<bool>,
    /// Stop after so many failures in a row.
    pub failures: Option<NonZeroU32>,
    /// Stop when this percentage of requests within `window` has failed.
    pub percent: Option<u8>,
    /// How many requests within `window` it takes for `percent` to count.
    pub least: Option<NonZeroU32>,
    /// The time that `percent` and `least` are counted over.
    pub window: Option<DurationText>,
    /// How long to leave it alone.
    pub rest: Option<DurationText>,
}

/// `[limits]`: requests that name no plan.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct LimitsSection {
    /// The `max_burst` of requests that have none.
    pub default_burst: Option<i64>,
    /// The `count_per_period` of requests that have none.
    pub default_rate: Option<i64>,
    /// The `period` of requests that have none, in seconds.
    pub default_period: Option<i64>,
    /// How to answer when the store fails.
    pub on_store_error: Option<OnStoreError>,
    /// The longest period, and the longest time to refill, of a quota that comes with a request.
    pub max_period: Option<DurationText>,
    /// Whether a quota that comes with a request may be a `log`.
    pub allow_log: Option<bool>,
    /// The largest burst of such a `log`.
    pub max_log_entries: Option<NonZeroU32>,
    /// Whether every request must name a plan.
    pub plans_only: Option<bool>,
}

/// `[plans.<name>]`: the rules of one plan, and what it answers when there is no answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table with `limits = [\"10/s\", …]`")]
pub(super) struct PlanSection {
    pub(super) limits: Spanned<Vec<Spanned<String>>>,
    /// Rules that are decided and counted beside `limits`, and never deny.
    #[serde(default)]
    pub(super) shadow: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) mode: PlanMode,
    /// How much of a unit a request takes that does not say it. Signed, because that is what TOML has: checked later.
    #[serde(default)]
    pub(super) assume: BTreeMap<Spanned<String>, Spanned<i64>>,
    #[serde(default)]
    pub(super) on_lapse: LapseWord,
    /// How long tokens may be kept that were taken from a Redis ahead of the requests.
    pub(super) lease: Option<Spanned<LeaseText>>,
    #[serde(default)]
    pub(super) on_store_error: OnStoreError,
}

/// Whether the limits of a plan deny.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PlanMode {
    /// They do.
    #[default]
    Enforce,
    /// All of them are in shadow: the plan always allows, and counts what it would have denied.
    Shadow,
}

/// What becomes of an estimate whose hold nobody ends: an [`OnLapse`] as the file writes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum LapseWord {
    #[default]
    Keep,
    Refund,
}

impl From<LapseWord> for OnLapse {
    fn from(word: LapseWord) -> Self {
        match word {
            LapseWord::Keep => OnLapse::Keep,
            LapseWord::Refund => OnLapse::Refund,
        }
    }
}
