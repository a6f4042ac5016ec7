//! The settings of a store.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use ratekeeper::port::{Clock, Observer};
use ratekeeper::state::OnUnreadable;
use ratekeeper::store::BreakerSettings;
use ratekeeper::{Name, Nanos, Timestamp};

use crate::clock::ServerClock;
use crate::encoding::{Encoding, Encodings};
use crate::error::{RedisError, RedisErrorKind};
use crate::front::{DenialSettings, Front};
use crate::library::{Library, TimePart};
use crate::link::{Address, Breakers, Link, Options};
use crate::scripted::{Scripted, Settings};
use crate::store::RedisStore;

/// What keys begin with unless said otherwise.
pub(crate) const DEFAULT_PREFIX: &str = "rate_limiter";

/// Settings of a [`RedisStore`], all of which have defaults.
pub struct RedisStoreBuilder {
    url: String,
    prefix: String,
    encodings: Encodings,
    on_unreadable: OnUnreadable,
    options: Options,
    breakers: Breakers,
    denials: Option<DenialSettings>,
    given: Option<Arc<dyn Clock>>,
    wall_clock: Option<Timestamp>,
}

impl RedisStoreBuilder {
    pub(crate) fn new(url: &str) -> Self {
        RedisStoreBuilder {
            url: url.to_owned(),
            prefix: DEFAULT_PREFIX.to_owned(),
            encodings: Encodings::default(),
            on_unreadable: OnUnreadable::default(),
            options: Options::default(),
            breakers: Breakers::default(),
            denials: Some(DenialSettings::default()),
            given: None,
            wall_clock: None,
        }
    }

    /// What keys begin with; `rate_limiter` unless said otherwise. A prefix without braces, which would decide the
    /// slot in a cluster instead of the key.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// How plans are written that [`encoding_for`](Self::encoding_for) does not name.
    #[must_use]
    pub fn encoding(mut self, encoding: Encoding) -> Self {
        self.encodings.usual = encoding;
        self
    }

    /// How one plan is written. States of a plan that were written otherwise are not found again: they expire.
    #[must_use]
    pub fn encoding_for(mut self, plan: Name, encoding: Encoding) -> Self {
        self.encodings.of_plan.insert(plan, encoding);
        self
    }

    /// What to do about state that cannot be read; an error unless said otherwise.
    #[must_use]
    pub fn unreadable(mut self, policy: OnUnreadable) -> Self {
        self.on_unreadable = policy;
        self
    }

    /// How long to wait for an answer; 100 ms unless said otherwise.
    #[must_use]
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.options.command_timeout = timeout;
        self
    }

    /// How long to wait for a connection; half a second unless said otherwise. Requests wait for it no longer than
    /// for an answer.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.options.connect_timeout = timeout;
        self
    }

    /// How many connections each tokio runtime opens to each server at the most; one unless said otherwise. Each thread
    /// keeps to one of them.
    ///
    /// Runtimes never share a connection: it is driven by the runtime that opened it, and ends with it. So this is
    /// worth raising only where one runtime has many threads and one connection is not enough for them.
    #[must_use]
    pub fn connections(mut self, connections: NonZeroUsize) -> Self {
        self.options.connections = connections;
        self
    }

    /// When the breaker of a server opens, and for how long it rests. Each node of a cluster has one of its own.
    #[must_use]
    pub fn breaker(mut self, settings: BreakerSettings) -> Self {
        self.breakers.settings = Some(settings);
        self
    }

    /// No breakers: a server that fails is asked all the same.
    #[must_use]
    pub fn without_breaker(mut self) -> Self {
        self.breakers.settings = None;
        self
    }

    /// Somebody to be told when a breaker changes, and [which](ratekeeper::store::BreakerChange::name).
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.breakers.observers.push(observer);
        self
    }

    /// How long a refusal is trusted without asking, and so how long a reset or refund by another instance may go
    /// unnoticed; a second unless said otherwise.
    #[must_use]
    pub fn denial_trust(mut self, trust: impl Into<Nanos>) -> Self {
        self.denials.get_or_insert_default().trust = trust.into();
        self
    }

    /// How many refusals are remembered; 8192 unless said otherwise.
    #[must_use]
    pub fn denial_capacity(mut self, refusals: usize) -> Self {
        self.denials.get_or_insert_default().capacity = refusals;
        self
    }

    /// No memory of refusals: the server is asked every time.
    #[must_use]
    pub fn without_denial_cache(mut self) -> Self {
        self.denials = None;
        self
    }

    /// Decides by this clock instead of the server's, and asks every time. For tests: a limit that several share needs
    /// one clock.
    #[cfg(feature = "testkit")]
    #[must_use]
    pub fn time_from(mut self, clock: impl Clock + 'static) -> Self {
        self.given = Some(Arc::new(clock));
        self.denials = None;
        self
    }

    /// What this process's own clock shows now, however wrong. For tests that nothing depends on it.
    #[cfg(feature = "testkit")]
    #[must_use]
    pub fn wall_clock_at(mut self, now: Timestamp) -> Self {
        self.wall_clock = Some(now);
        self
    }

    /// The store, after making sure that the server answers.
    pub async fn connect(self) -> Result<RedisStore, RedisError> {
        let store = self.build()?;
        store.check().await?;
        Ok(store)
    }

    /// The store. Nothing is sent: the server may be down for now, and is found when it is there.
    pub fn build(self) -> Result<RedisStore, RedisError> {
        if self.prefix.contains(['{', '}']) {
            let message = format!("prefix: `{}`; a prefix has no braces", self.prefix);
            return Err(RedisError::new(RedisErrorKind::Address, message));
        }
        let link = Link::open(&Address::parse(&self.url)?, &self.options, self.breakers);
        let time = if self.given.is_some() { TimePart::Given } else { TimePart::Server };
        let settings = Settings {
            prefix: self.prefix,
            encodings: self.encodings,
            on_unreadable: self.on_unreadable,
            given: self.given,
        };
        let mut scripted = Scripted::new(link, Library::new(time), settings);
        if let Some(now) = self.wall_clock {
            scripted.clock = ServerClock::starting_at(now);
        }
        let scripted = Arc::new(scripted);
        Ok(RedisStore::new(Arc::clone(&scripted), Front::new(scripted, self.denials)))
    }
}

impl fmt::Debug for RedisStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may hold a password.
        f.debug_struct("RedisStoreBuilder").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}
