//! What a configuration file may say.

use ratekeeper::FailureMode;
use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

use clap::ValueEnum;
use serde::Deserialize;
use toml::Spanned;

use crate::duration::DurationText;
use crate::log::{Format, Level};
use crate::secret::SecretText;
use crate::units::{ByteSize, Percent};

/// The whole file; every part of it may be missing.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct File {
    /// `[server]`.
    pub server: ServerSection,
    /// `[transports.<name>]`.
    pub transports: Transports,
    /// `[store]`.
    pub store: StoreSection,
    /// `[limits]`.
    pub limits: LimitsSection,
    /// `[plans.<name>]`.
    pub(super) plans: BTreeMap<Spanned<String>, PlanSection>,
}

/// The process as a whole.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerSection {
    /// How much is logged.
    pub log_level: Option<Level>,
    /// In which form.
    pub log_format: Option<Format>,
    /// Event loops.
    pub loops: Option<NonZeroUsize>,
    /// What clients must know.
    pub auth_token: Option<SecretText>,
    /// The same, in a file of its own.
    pub auth_token_file: Option<PathBuf>,
    /// What an administrator must know.
    pub admin_token: Option<SecretText>,
    /// The same, in a file of its own.
    pub admin_token_file: Option<PathBuf>,
    /// What whoever reads the metrics must know.
    pub metrics_token: Option<SecretText>,
    /// The same, in a file of its own.
    pub metrics_token_file: Option<PathBuf>,
    /// How many of the keys that are denied most the metrics tell.
    pub top_denied: Option<usize>,
    /// How long to go on serving after being told to stop.
    pub drain: Option<DurationText>,
    /// A certificate in PEM form.
    pub tls_cert: Option<PathBuf>,
    /// Its private key.
    pub tls_key: Option<PathBuf>,
}

/// The transports by name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Transports {
    /// The Redis protocol.
    pub resp: TransportSection,
    /// HTTP and JSON.
    pub http: TransportSection,
    /// gRPC.
    pub grpc: TransportSection,
    /// MessagePack over TCP.
    pub msgpack: TransportSection,
}

/// One transport.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TransportSection {
    /// Whether it listens at all.
    pub enabled: Option<bool>,
    /// Where: an address or a name.
    pub host: Option<String>,
    /// Where: 0 is any free port.
    pub port: Option<u16>,
    /// Connections at once.
    pub max_connections: Option<NonZeroUsize>,
    /// Seconds after which a silent connection is closed; 0 for never.
    pub idle_timeout: Option<u32>,
    /// Seconds for which a client may take to finish a request, or to read a reply.
    pub request_timeout: Option<NonZeroU32>,
}

/// Where state lives.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StoreSection {
    /// `memory` or `redis`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Where a Redis is, whatever its topology.
    pub url: Option<SecretText>,
    /// States that the store in memory may hold.
    pub max_keys: Option<NonZeroUsize>,
    /// Bytes that the store in memory may allocate.
    pub max_bytes: Option<ByteSize>,
    /// The percentage of both that quotas of requests cannot take, while there are plans.
    pub kept_for_plans: Option<Percent>,
    /// Whether the store in memory remembers keys, so that they can be forgotten by prefix.
    pub keep_keys: Option<bool>,
    /// Where state is written on stop, and read from on start.
    pub snapshot: Option<PathBuf>,
    /// How often it is written besides.
    pub snapshot_every: Option<DurationText>,
    /// How long to wait for an answer of a Redis.
    pub timeout: Option<DurationText>,
    /// How long to wait for a connection to a Redis.
    pub connect_timeout: Option<DurationText>,
    /// What keys in a Redis begin with.
    pub prefix: Option<String>,
    /// `[store.breaker]`.
    pub breaker: BreakerSection,
}

/// When a Redis that fails is left alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BreakerSection {
    /// Whether it ever is.
    pub enabled: Option<bool>,
    /// After so many failures in a row.
    pub failures: Option<NonZeroU32>,
    /// Or when so many of a hundred requests within the window fail.
    pub percent: Option<u8>,
    /// If there were at least so many of them.
    pub least: Option<NonZeroU32>,
    /// What failures are counted over.
    pub window: Option<DurationText>,
    /// For how long.
    pub rest: Option<DurationText>,
}

/// What a request without limits is held to.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsSection {
    /// For `max_burst`.
    pub default_burst: Option<i64>,
    /// For `count_per_period`.
    pub default_rate: Option<i64>,
    /// For `period`, in seconds.
    pub default_period: Option<i64>,
    /// What to answer when the store fails a request that names no plan.
    pub on_store_error: Option<OnStoreError>,
    /// The longest period, and the longest refill, of a quota that comes with a request.
    pub max_period: Option<DurationText>,
    /// Whether a quota that comes with a request may be a `log`.
    pub allow_log: Option<bool>,
    /// The most requests that such a log may remember.
    pub max_log_entries: Option<NonZeroU32>,
    /// Whether requests must name plans: no quotas of their own.
    pub plans_only: Option<bool>,
}

/// One plan.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlanSection {
    pub(super) limits: Spanned<Vec<Spanned<String>>>,
    #[serde(default)]
    pub(super) on_store_error: OnStoreError,
}

/// The words for a [`FailureMode`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum OnStoreError {
    /// Allow.
    #[default]
    Open,
    /// Deny.
    Closed,
    /// Let a store in memory decide.
    Local,
    /// Tell the client of the error.
    Error,
}

impl From<OnStoreError> for FailureMode {
    fn from(word: OnStoreError) -> Self {
        match word {
            OnStoreError::Open => FailureMode::Open,
            OnStoreError::Closed => FailureMode::Closed,
            OnStoreError::Local => FailureMode::Local,
            OnStoreError::Error => FailureMode::Error,
        }
    }
}
