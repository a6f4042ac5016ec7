//! The settings of a store.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use ratekeeper::port::{Clock, Observer};
use ratekeeper::state::OnUnreadable;
use ratekeeper::store::{BreakerSettings, DenialSettings, LeaseSettings, StoreFront};
use ratekeeper::{Lease, Name, Nanos, Timestamp};

use crate::encoding::{Encoding, Encodings};
use crate::error::{RedisError, RedisErrorKind};
use crate::link::{BreakerFactory, Link, LinkOptions, RedisAddress};
use crate::script::{ScriptLibrary, ScriptTime};
use crate::scripted::{ScriptSettings, ScriptedStore};
use crate::server_clock::ServerClock;
use crate::store::RedisStore;
use crate::tls_files::RedisTls;

/// The start of every name on the server, by default.
const DEFAULT_PREFIX: &str = "rate_limiter";

/// The settings of a [`RedisStore`]; each has a default.
#[must_use = "a builder is not a store yet: call `build` or `connect`"]
pub struct RedisStoreBuilder {
    url: String,
    prefix: String,
    encodings: Encodings,
    on_unreadable: OnUnreadable,
    options: LinkOptions,
    tls: RedisTls,
    breakers: BreakerFactory,
    denials: Option<DenialSettings>,
    leases: LeaseSettings,
    given: Option<Arc<dyn Clock>>,
    wall_clock: Option<Timestamp>,
}

impl RedisStore {
    /// Connects to the server at a URL, such as `redis://127.0.0.1:6379`, with default settings, and makes sure that it
    /// answers.
    ///
    /// # Errors
    ///
    /// As of [`RedisStoreBuilder::connect`].
    pub async fn connect(url: &str) -> Result<Self, RedisError> {
        Self::builder(url).connect().await
    }

    /// Returns a builder, for a store with other settings.
    ///
    /// | URL | where the states are |
    /// |---|---|
    /// | `redis://user:password@host:6379/2` | on one server, in database 2 |
    /// | `rediss://…` | the same with TLS |
    /// | `unix:///run/redis.sock?db=2&user=…&password=…` | on one server, by its socket |
    /// | `redis-cluster://user:password@host1:7000,host2` | in a cluster, given by some of its nodes |
    /// | `redis-sentinel://user:password@host1,host2/mymaster/2` | on the master of that name, wherever it is |
    pub fn builder(url: &str) -> RedisStoreBuilder {
        RedisStoreBuilder {
            url: url.to_owned(),
            prefix: DEFAULT_PREFIX.to_owned(),
            encodings: Encodings::default(),
            on_unreadable: OnUnreadable::default(),
            options: LinkOptions::default(),
            tls: RedisTls::default(),
            breakers: BreakerFactory::default(),
            denials: Some(DenialSettings::default()),
            leases: LeaseSettings::default(),
            given: None,
            wall_clock: None,
        }
    }
}

impl RedisStoreBuilder {
    /// Sets what every name on the server begins with: `rate_limiter` by default. It must not contain braces: they would
    /// decide the slot in a cluster instead of the key.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the encoding of plans that [`encoding_for`](Self::encoding_for) does not name: ASCII by default.
    pub fn encoding(mut self, encoding: Encoding) -> Self {
        self.encodings.usual = encoding;
        self
    }

    /// Sets the encoding of one plan. States that were written in another encoding are not found again: they expire.
    pub fn encoding_for(mut self, plan: Name, encoding: Encoding) -> Self {
        self.encodings.of_plan.insert(plan, encoding);
        self
    }

    /// Sets what happens to a state that cannot be read: by default the request fails.
    pub fn unreadable(mut self, policy: OnUnreadable) -> Self {
        self.on_unreadable = policy;
        self
    }

    /// Sets how long a request waits for its answer, with everything it takes to get it: 100 ms by default.
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.options.command_timeout = timeout;
        self
    }

    /// Sets how long an attempt to connect may take: 500 ms by default. A request does not wait for it any longer than for
    /// an answer.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.options.connect_timeout = timeout;
        self
    }

    /// Sets how many connections each tokio runtime opens to each server at most: one by default. Each thread keeps to one
    /// of them.
    ///
    /// Runtimes never share a connection: it is driven by the runtime that opened it, and ends with it. So this is
    /// worth raising only where one runtime has many threads and one connection is not enough for them.
    pub fn connections(mut self, connections: NonZeroUsize) -> Self {
        self.options.connections = connections;
        self
    }

    /// Sets the certificates of `rediss://`: those of the system by default. Files are read by [`build`](Self::build), once.
    pub fn tls(mut self, tls: RedisTls) -> Self {
        self.tls = tls;
        self
    }

    /// Sets when the breaker of a server opens, and for how long. Each node of a cluster has a breaker of its own.
    pub fn breaker(mut self, settings: BreakerSettings) -> Self {
        self.breakers.settings = Some(settings);
        self
    }

    /// Leaves the breakers out: a server that fails is asked all the same.
    pub fn without_breaker(mut self) -> Self {
        self.breakers.settings = None;
        self
    }

    /// Adds an observer, which is called once per state change of any breaker, with the breaker's
    /// [name](ratekeeper::store::BreakerChange::name).
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.breakers.observers.push(observer);
        self
    }

    /// Sets how long the denial cache trusts a refusal, and so how long a reset or refund by another instance may go
    /// unnoticed: one second by default.
    pub fn denial_trust(mut self, trust: impl Into<Nanos>) -> Self {
        self.denials.get_or_insert_default().trust = trust.into();
        self
    }

    /// Sets how many refusals the denial cache remembers: 8192 by default.
    pub fn denial_capacity(mut self, refusals: usize) -> Self {
        self.denials.get_or_insert_default().capacity = refusals;
        self
    }

    /// Leaves the denial cache out: the server is asked about every request.
    pub fn without_denial_cache(mut self) -> Self {
        self.denials = None;
        self
    }

    /// Sets how many keys are leased at most, of plans with a [lease](ratekeeper::Plan::lease). 4,096, unless said otherwise;
    /// with 0 every request asks the server.
    pub fn leased_keys(mut self, keys: usize) -> Self {
        self.leases.keys = keys;
        self
    }

    /// Sets the lease of requests that bring their own quota. [`Lease::OFF`], unless said otherwise.
    pub fn lease(mut self, lease: Lease) -> Self {
        self.leases.own = lease;
        self
    }

    /// Decides by this clock instead of the server's, without a denial cache and without leases. For tests: a limit that several instances
    /// share needs one clock.
    #[cfg(feature = "testkit")]
    pub fn time_from(mut self, clock: impl Clock + 'static) -> Self {
        self.given = Some(Arc::new(clock));
        self.denials = None;
        self.leases.keys = 0;
        self
    }

    /// Sets what this process's own clock shows now, however wrong. For tests that nothing depends on it.
    #[cfg(feature = "testkit")]
    pub fn wall_clock_at(mut self, now: Timestamp) -> Self {
        self.wall_clock = Some(now);
        self
    }

    /// Builds the store, and makes sure that the server answers.
    ///
    /// # Errors
    ///
    /// As of [`build`](Self::build) and of [`RedisStore::check`].
    pub async fn connect(self) -> Result<RedisStore, RedisError> {
        let store = self.build()?;
        store.check().await?;
        Ok(store)
    }

    /// Builds the store. Sends nothing: the server may be down for now, and is found when it is up.
    ///
    /// # Errors
    ///
    /// [`Address`](RedisErrorKind::Address) if a part of the URL is wrong, a file of [`tls`](Self::tls) cannot be used, or
    /// the prefix contains braces.
    pub fn build(self) -> Result<RedisStore, RedisError> {
        if self.prefix.contains(['{', '}']) {
            let message = format!("prefix: `{}`; a prefix must not contain braces", self.prefix);
            return Err(RedisError::new(RedisErrorKind::Address, message));
        }
        let address = RedisAddress::parse(&self.url)?;
        #[cfg(feature = "tls")]
        let address = if self.tls == RedisTls::default() { address } else { address.with_tls(&self.tls)? };
        let link = Link::open(&address, &self.options, self.breakers);
        let time = if self.given.is_some() { ScriptTime::Given } else { ScriptTime::Server };
        let settings = ScriptSettings {
            prefix: self.prefix,
            encodings: self.encodings,
            on_unreadable: self.on_unreadable,
            given: self.given,
        };
        let mut scripted = ScriptedStore::new(link, ScriptLibrary::new(time), settings);
        if let Some(now) = self.wall_clock {
            scripted.clock = ServerClock::starting_at(now);
        }
        let scripted = scripted.shared();
        let front = StoreFront::new(Arc::clone(&scripted), self.denials, self.leases);
        Ok(RedisStore::new(scripted, front))
    }
}

impl fmt::Debug for RedisStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may hold a password.
        f.debug_struct("RedisStoreBuilder").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}
