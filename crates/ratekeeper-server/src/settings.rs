//! What a server is started with. The command makes it of flags, environment, file and defaults.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use ratekeeper::FailureMode;
use ratekeeper::store::{BreakerSettings, MemoryStoreBuilder};
use ratekeeper_redis::{RedisStore, RedisStoreBuilder};

use crate::request::RequestLimits;
use crate::secret::Tokens;

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
    /// How many event loops to run, each on a thread of its own; 0 counts as 1.
    pub loops: usize,
    /// Where the state of keys is kept.
    pub store: StoreLocation,
    /// How to ask Redis, if state is kept there.
    pub redis: RedisSettings,
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
    /// The certificate that encrypts all transports; `None`: they are not encrypted.
    pub tls: Option<TlsFiles>,
    /// How long to go on serving, as not ready, after a signal to stop.
    pub drain: Duration,
    /// The file that state is written to on stop, and read from on start.
    pub snapshot: Option<PathBuf>,
    /// How often state is written besides; zero: never.
    pub snapshot_every: Duration,
    /// What to answer when the store fails a request that is held to no plan.
    pub on_store_error: FailureMode,
    /// How many of the keys that are denied most the metrics list; 0: none.
    pub top_denied: usize,
}

impl Settings {
    /// Half: quotas of requests cannot take more than the other half from keys that are held to plans.
    pub const DEFAULT_KEPT_FOR_PLANS: u8 = 50;
    /// The most keys that [`top_denied`](Settings::top_denied) may list: each is a line that Prometheus keeps.
    pub const MOST_TOP_DENIED: usize = 1_000;
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            resp: None,
            http: None,
            grpc: None,
            msgpack: None,
            loops: 1,
            store: StoreLocation::Memory,
            redis: RedisSettings::default(),
            max_keys: MemoryStoreBuilder::DEFAULT_MAX_KEYS,
            max_bytes: None,
            kept_for_plans: Settings::DEFAULT_KEPT_FOR_PLANS,
            keep_keys: false,
            limits: RequestLimits::default(),
            tokens: Tokens::default(),
            tls: None,
            drain: Duration::ZERO,
            snapshot: None,
            snapshot_every: Duration::ZERO,
            on_store_error: FailureMode::Error,
            top_denied: 0,
        }
    }
}

/// A certificate and its private key, in PEM form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by its chain.
    pub cert: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
}

/// Where a server keeps the state of keys.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum StoreLocation {
    /// In the memory of this process.
    #[default]
    Memory,
    /// In the Redis at this URL.
    Redis(String),
}

impl fmt::Debug for StoreLocation {
    /// Without the URL: there may be a password in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StoreLocation::Memory => "Memory",
            StoreLocation::Redis(_) => "Redis(…)",
        })
    }
}

/// How a server asks its Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisSettings {
    /// The timeout of one request.
    pub timeout: Duration,
    /// The timeout of one connection attempt.
    pub connect_timeout: Duration,
    /// The prefix of every key.
    pub prefix: String,
    /// When a failing server is not asked for a while; `None`: it always is.
    pub breaker: Option<BreakerSettings>,
}

impl Default for RedisSettings {
    fn default() -> Self {
        RedisSettings {
            timeout: Duration::from_millis(100),
            connect_timeout: Duration::from_millis(500),
            prefix: "rate_limiter".to_owned(),
            breaker: Some(BreakerSettings::default()),
        }
    }
}

impl RedisSettings {
    /// Returns a builder of the store at this URL, with these settings.
    pub fn builder(&self, url: &str) -> RedisStoreBuilder {
        let builder = RedisStore::builder(url)
            .command_timeout(self.timeout)
            .connect_timeout(self.connect_timeout)
            .prefix(&self.prefix);
        match self.breaker {
            Some(breaker) => builder.breaker(breaker),
            None => builder.without_breaker(),
        }
    }
}

/// Where a transport listens, and its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportEndpoint {
    /// The address; port 0 binds a free port.
    pub address: SocketAddr,
    /// The most connections at once.
    pub max_connections: usize,
    /// Seconds after which a silent connection is closed; 0: never.
    pub idle_timeout: u32,
    /// Seconds that a client may take to finish a request, or to read a reply.
    pub request_timeout: u32,
}

impl TransportEndpoint {
    /// The `max_connections` of [`at`](TransportEndpoint::at).
    pub const DEFAULT_MAX_CONNECTIONS: usize = 20_000;
    /// The `request_timeout` of [`at`](TransportEndpoint::at), in seconds.
    pub const DEFAULT_REQUEST_TIMEOUT: u32 = 30;

    /// Returns an endpoint with the default bounds.
    pub fn at(address: SocketAddr) -> Self {
        TransportEndpoint {
            address,
            max_connections: Self::DEFAULT_MAX_CONNECTIONS,
            idle_timeout: 0,
            request_timeout: Self::DEFAULT_REQUEST_TIMEOUT,
        }
    }
}

/// An address to listen on, or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bind {
    /// Do not listen on any address.
    Off,
    /// Listen on this address.
    At(SocketAddr),
}

impl FromStr for Bind {
    type Err = BindError;

    fn from_str(text: &str) -> Result<Self, BindError> {
        if text.eq_ignore_ascii_case("off") {
            return Ok(Bind::Off);
        }
        // A name is looked up once, now: what it means later is not what was asked for.
        let mut found = text.to_socket_addrs().map_err(|_| BindError)?;
        found.next().map(Bind::At).ok_or(BindError)
    }
}

/// A text that is neither an address nor `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindError;

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no address; write `127.0.0.1:6380`, `[::1]:6380`, port 0 for a free one, or `off`")
    }
}

impl std::error::Error for BindError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!("off".parse(), Ok(Bind::Off));
        assert_eq!("127.0.0.1:0".parse(), Ok(Bind::At(SocketAddr::from(([127, 0, 0, 1], 0)))));
        assert_eq!("[::1]:6380".parse(), Ok(Bind::At("[::1]:6380".parse().unwrap())));
        for wrong in ["", "6380", "127.0.0.1", "127.0.0.1:99999", "no host:1"] {
            assert_eq!(wrong.parse::<Bind>(), Err(BindError), "{wrong}");
        }
    }
}
