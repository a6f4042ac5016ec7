//! All settings of a server.

use std::path::PathBuf;
use std::time::Duration;

use ratekeeper::FailureMode;
use ratekeeper::store::MemoryStoreBuilder;

use super::endpoint::{PrometheusEndpoint, TransportEndpoint};
use super::names::SettingNames;
use super::otlp::OtlpSettings;
use super::record::RecordSettings;
use super::rls::RlsSettings;
use super::statsd::StatsdSettings;
use super::store::{PostgresSettings, RedisSettings, StoreLocation};
use super::tls::{GrpcTls, TlsFiles};
use crate::request::RequestLimits;
use crate::secret::Tokens;
use crate::token_files::TokenFiles;

/// The settings of a server. The default listens nowhere and has one event loop.
///
/// [`Server::start`](crate::Server::start) says which of them it uses. The others describe the engine and the process:
/// `ratekeeper serve` builds its [`Engine`](crate::Engine) by them, and an embedding program builds its own.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to listen for the Redis protocol; `None`: nowhere.
    pub resp: Option<TransportEndpoint>,
    /// Where to listen for HTTP; `None`: nowhere.
    pub http: Option<TransportEndpoint>,
    /// Where to listen for gRPC; `None`: nowhere.
    pub grpc: Option<TransportEndpoint>,
    /// Where to listen for MessagePack; `None`: nowhere.
    pub msgpack: Option<TransportEndpoint>,
    /// Where to listen for those who look at the service of Envoy: its rules and its counters; `None`: nowhere.
    pub debug: Option<TransportEndpoint>,
    /// Where to listen for Prometheus alone; `None`: nowhere. `/metrics` of HTTP is there all the same.
    pub prometheus: Option<PrometheusEndpoint>,
    /// A Unix socket to listen for gRPC on; `None`: none.
    pub grpc_socket: Option<PathBuf>,
    /// The certificate that encrypts gRPC, instead of `tls`.
    pub grpc_tls: Option<GrpcTls>,
    /// When connections of gRPC are told to come back as new ones; `None`: never.
    pub grpc_age: Option<ConnectionAge>,
    /// The service that Envoy asks, in place of envoyproxy/ratelimit; `None`: it is off.
    pub rls: Option<RlsSettings>,
    /// Where the counters of that service are sent; `None`: nowhere.
    pub statsd: Option<StatsdSettings>,
    /// How many event loops to run, each on a thread of its own; 0 counts as 1.
    pub loops: usize,
    /// Where the state of keys is kept.
    pub store: StoreLocation,
    /// How to ask Redis, if state is kept there; most of it goes for PostgreSQL, too.
    pub redis: RedisSettings,
    /// What is particular to PostgreSQL, if state is kept there.
    pub postgres: PostgresSettings,
    /// The most states of the store in memory.
    pub max_keys: usize,
    /// The most bytes of the store in memory; `None`: as many as its states need.
    pub max_bytes: Option<usize>,
    /// The percentage of both that is kept for plans, while there are any.
    pub kept_for_plans: u8,
    /// Whether the store in memory keeps the bytes of keys, so that they can be forgotten by prefix.
    pub keep_keys: bool,
    /// Defaults and bounds for quotas that come with requests.
    pub limits: RequestLimits,
    /// The tokens that clients must show.
    pub tokens: Tokens,
    /// The files that those tokens were read from. [`serve`](crate::serve) reads them again when they change.
    pub token_files: TokenFiles,
    /// Names that HTTP is asked by on this machine, besides loopback, addresses and the name of the machine.
    pub allowed_hosts: Vec<String>,
    /// What the server calls itself in the console; `None`: as the machine is called.
    pub instance: Option<String>,
    /// The certificate that encrypts all transports; `None`: they are not encrypted.
    pub tls: Option<TlsFiles>,
    /// How long to go on serving, as not ready, after a signal to stop.
    pub drain: Duration,
    /// The file that state is written to on stop, and read from on start.
    pub snapshot: Option<PathBuf>,
    /// How often state is written besides; zero: never.
    pub snapshot_every: Duration,
    /// How requests are recorded; `None`: they are not.
    pub record: Option<RecordSettings>,
    /// Where spans of requests are sent; `None`: there are none.
    pub otlp: Option<OtlpSettings>,
    /// What to answer when the store fails a request that is held to no plan.
    pub on_store_error: FailureMode,
    /// How many of the keys that are denied most the metrics list; 0: none.
    pub top_denied: usize,
    /// How many denials are logged a second; 0: none.
    pub log_denials: u32,
    /// How messages name these settings.
    pub names: SettingNames,
}

impl Settings {
    /// Half: quotas of requests cannot take more than the other half from keys that are held to plans.
    pub const DEFAULT_KEPT_FOR_PLANS: u8 = 50;
    /// The most keys that [`top_denied`](Settings::top_denied) may list: each is a line that Prometheus keeps.
    pub const MOST_TOP_DENIED: usize = 1_000;
    /// The most that [`log_denials`](Settings::log_denials) may be: nobody reads more.
    pub const MOST_LOG_DENIALS: u32 = 1_000;
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            resp: None,
            http: None,
            grpc: None,
            msgpack: None,
            debug: None,
            prometheus: None,
            grpc_socket: None,
            grpc_tls: None,
            grpc_age: None,
            rls: None,
            statsd: None,
            loops: 1,
            store: StoreLocation::Memory,
            redis: RedisSettings::default(),
            postgres: PostgresSettings::default(),
            max_keys: MemoryStoreBuilder::DEFAULT_MAX_KEYS,
            max_bytes: None,
            kept_for_plans: Settings::DEFAULT_KEPT_FOR_PLANS,
            keep_keys: false,
            limits: RequestLimits::default(),
            tokens: Tokens::default(),
            token_files: TokenFiles::default(),
            allowed_hosts: Vec::new(),
            instance: None,
            tls: None,
            drain: Duration::ZERO,
            snapshot: None,
            snapshot_every: Duration::ZERO,
            record: None,
            otlp: None,
            on_store_error: FailureMode::Error,
            top_denied: 0,
            log_denials: 0,
            names: SettingNames::default(),
        }
    }
}

/// How old a connection may become. Clients that keep theirs for ever would never find a server that came later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionAge {
    /// After this time, give or take a tenth, the client is asked to open another connection.
    pub age: Duration,
    /// How much longer calls on the old one are waited for.
    pub grace: Duration,
}
