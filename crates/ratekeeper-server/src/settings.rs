//! What the server was told to do, after flags, environment, file and defaults were laid over each other.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use ratekeeper::FailureMode;
use ratekeeper::store::{BreakerSettings, MemoryStoreBuilder};
use ratekeeper_redis::{RedisStore, RedisStoreBuilder};

use crate::request::Limits;
use crate::secret::Tokens;

/// Everything that `serve` needs to know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the Redis protocol is spoken, if anywhere.
    pub resp: Option<Endpoint>,
    /// Where HTTP is spoken, if anywhere.
    pub http: Option<Endpoint>,
    /// Where gRPC is spoken, if anywhere.
    pub grpc: Option<Endpoint>,
    /// Where MessagePack is spoken, if anywhere.
    pub msgpack: Option<Endpoint>,
    /// Event loops.
    pub loops: usize,
    /// Where state lives.
    pub store: StorePlace,
    /// How a Redis is asked, if state lives in one.
    pub redis: RedisSettings,
    /// States that the store in memory may hold.
    pub max_keys: usize,
    /// Bytes that the store in memory may allocate; as many as the engine finds right, if none.
    pub max_bytes: Option<usize>,
    /// The percentage of both that quotas of requests cannot take, while there are plans.
    pub kept_for_plans: u8,
    /// Whether the store in memory remembers keys, so that they can be forgotten by prefix.
    pub keep_keys: bool,
    /// What a request without limits is held to, and what quotas requests may bring.
    pub limits: Limits,
    /// What clients must know, if anything.
    pub tokens: Tokens,
    /// What to encrypt all transports with, if they are to be.
    pub tls: Option<TlsFiles>,
    /// How long the server goes on serving after it was told to stop, while it says that it is not ready.
    pub drain: Duration,
    /// Where state is written on stop, and read from on start.
    pub snapshot: Option<PathBuf>,
    /// How often state is written besides; zero for never.
    pub snapshot_every: Duration,
    /// What to answer when the store fails a request that is held to no plan.
    pub on_store_error: FailureMode,
    /// How many of the keys that are denied most the metrics tell; 0 for none.
    pub top_denied: usize,
}

impl Settings {
    /// Half: whoever sends requests cannot take more than that from those whom the operator gave a plan.
    pub const DEFAULT_KEPT_FOR_PLANS: u8 = 50;
    /// The most keys that [`top_denied`](Settings::top_denied) may list: each is a line that Prometheus keeps.
    pub const MOST_TOP_DENIED: usize = 1_000;
}

impl Default for Settings {
    /// One event loop, and nobody listens.
    fn default() -> Self {
        Settings {
            resp: None,
            http: None,
            grpc: None,
            msgpack: None,
            loops: 1,
            store: StorePlace::Memory,
            redis: RedisSettings::default(),
            max_keys: MemoryStoreBuilder::DEFAULT_MAX_KEYS,
            max_bytes: None,
            kept_for_plans: Settings::DEFAULT_KEPT_FOR_PLANS,
            keep_keys: false,
            limits: Limits::default(),
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
    /// The certificate, and those that vouch for it.
    pub cert: PathBuf,
    /// The key of the first certificate.
    pub key: PathBuf,
}

/// Where state lives.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum StorePlace {
    /// In this process.
    #[default]
    Memory,
    /// In a Redis, by its URL.
    Redis(String),
}

impl fmt::Debug for StorePlace {
    /// Without the URL: there may be a password in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StorePlace::Memory => "Memory",
            StorePlace::Redis(_) => "Redis(…)",
        })
    }
}

/// How a Redis is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisSettings {
    /// How long to wait for an answer.
    pub timeout: Duration,
    /// How long to wait for a connection.
    pub connect_timeout: Duration,
    /// What keys begin with.
    pub prefix: String,
    /// When a server that fails is left alone; none for never.
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

/// Where a transport listens, and for how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The address; port 0 is any free one.
    pub address: SocketAddr,
    /// Connections at once.
    pub max_connections: usize,
    /// Seconds after which a silent connection is closed; 0 for never.
    pub idle_timeout: u32,
    /// Seconds for which a client may take to finish a request, or to read a reply.
    pub request_timeout: u32,
}

impl Endpoint {
    /// Connections at once, unless said otherwise.
    pub const DEFAULT_MAX_CONNECTIONS: usize = 20_000;
    /// Seconds for a request, unless said otherwise.
    pub const DEFAULT_REQUEST_TIMEOUT: u32 = 30;

    /// An endpoint with the usual bounds.
    pub fn at(address: SocketAddr) -> Self {
        Endpoint {
            address,
            max_connections: Self::DEFAULT_MAX_CONNECTIONS,
            idle_timeout: 0,
            request_timeout: Self::DEFAULT_REQUEST_TIMEOUT,
        }
    }
}

/// An address, or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bind {
    /// Not at all.
    Off,
    /// There.
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

/// The text is no address.
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
