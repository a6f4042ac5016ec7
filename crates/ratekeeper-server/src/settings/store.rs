//! Where state is kept, and how a Redis or a PostgreSQL is asked.

use std::fmt;
use std::time::Duration;

use ratekeeper::Lease;
use ratekeeper::store::BreakerSettings;
use ratekeeper_redis::{RedisStore, RedisStoreBuilder, RedisTls};

/// Where a server keeps the state of keys.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum StoreLocation {
    /// In the memory of this process.
    #[default]
    Memory,
    /// In the Redis at this URL.
    Redis(String),
    /// In the PostgreSQL at this URL.
    Postgres(String),
}

impl fmt::Debug for StoreLocation {
    /// Without the URL: there may be a password in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StoreLocation::Memory => "Memory",
            StoreLocation::Redis(_) => "Redis(…)",
            StoreLocation::Postgres(_) => "Postgres(…)",
        })
    }
}

/// How a server asks its Redis; all but the prefix and `tls` goes for a PostgreSQL, too.
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
    /// How many refusals are remembered, so that they need not be asked for again; 0: none.
    pub denials: usize,
    /// How long tokens may be kept that were taken ahead for requests that bring their own quota. Plans have their own.
    pub lease: Lease,
    /// How many keys tokens may be kept for; 0: none, whatever plans say.
    pub leased_keys: usize,
    /// What `rediss://` goes by; the default trusts whom the system trusts.
    pub tls: RedisTls,
}

impl Default for RedisSettings {
    fn default() -> Self {
        RedisSettings {
            timeout: Duration::from_millis(100),
            connect_timeout: Duration::from_millis(500),
            prefix: "rate_limiter".to_owned(),
            breaker: Some(BreakerSettings::default()),
            denials: RedisSettings::DEFAULT_DENIALS,
            lease: Lease::OFF,
            leased_keys: RedisSettings::DEFAULT_LEASED_KEYS,
            tls: RedisTls::default(),
        }
    }
}

impl RedisSettings {
    /// Returns the prefix of a service that has one of its own, within the prefix of all: two services with different ones
    /// share no limits. Braces become escapes: they would decide the slot in a cluster instead of the key.
    pub fn prefix_within(prefix: &str, own: &str) -> String {
        match own.is_empty() {
            true => prefix.to_owned(),
            false => format!("{prefix}:{}", own.replace('{', "%7B").replace('}', "%7D")),
        }
    }

    /// How many refusals are remembered unless somebody decides otherwise.
    pub const DEFAULT_DENIALS: usize = 8_192;

    /// How many keys tokens may be kept for unless somebody decides otherwise.
    pub const DEFAULT_LEASED_KEYS: usize = 4_096;
    /// The most keys that tokens may be kept for.
    pub const MOST_LEASED_KEYS: usize = 1 << 20;

    /// Returns a builder of the store at this URL, with these settings.
    pub fn builder(&self, url: &str) -> RedisStoreBuilder {
        let builder = RedisStore::builder(url)
            .command_timeout(self.timeout)
            .connect_timeout(self.connect_timeout)
            .prefix(&self.prefix)
            .leased_keys(self.leased_keys)
            .lease(self.lease)
            .tls(self.tls.clone());
        let builder = match self.breaker {
            Some(breaker) => builder.breaker(breaker),
            None => builder.without_breaker(),
        };
        match self.denials {
            0 => builder.without_denial_cache(),
            refusals => builder.denial_capacity(refusals),
        }
    }
}

/// What is particular to a PostgreSQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresSettings {
    /// The table, with its schema before a dot if it has one.
    pub table: String,
    /// Whether a table that has to be created survives a crash of the server.
    pub is_logged: bool,
}

impl Default for PostgresSettings {
    fn default() -> Self {
        PostgresSettings { table: "ratekeeper".to_owned(), is_logged: false }
    }
}

#[cfg(feature = "postgres")]
impl PostgresSettings {
    /// Returns a builder of the store at this URL, with these settings and those of any shared store.
    pub fn builder(&self, url: &str, shared: &RedisSettings) -> ratekeeper_postgres::PostgresStoreBuilder {
        ratekeeper_postgres::PostgresStore::builder(url)
            .table(&self.table)
            .logged(self.is_logged)
            .timeout(shared.timeout)
            .connect_timeout(shared.connect_timeout)
    }
}
