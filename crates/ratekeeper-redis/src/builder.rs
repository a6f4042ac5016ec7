//! The settings of a store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ratekeeper::Name;
use ratekeeper::port::Clock;
use ratekeeper::state::OnUnreadable;

use crate::encoding::{Encoding, Encodings};
use crate::error::{RedisError, RedisErrorKind};
use crate::library::{Library, TimePart};
use crate::link::{Address, Link, Options};
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
    given: Option<Arc<dyn Clock>>,
}

impl RedisStoreBuilder {
    pub(crate) fn new(url: &str) -> Self {
        RedisStoreBuilder {
            url: url.to_owned(),
            prefix: DEFAULT_PREFIX.to_owned(),
            encodings: Encodings::default(),
            on_unreadable: OnUnreadable::default(),
            options: Options::default(),
            given: None,
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

    /// Decides by this clock instead of the server's. For tests: a limit that several share needs one clock.
    #[cfg(feature = "testkit")]
    #[must_use]
    pub fn time_from(mut self, clock: impl Clock + 'static) -> Self {
        self.given = Some(Arc::new(clock));
        self
    }

    /// Connects.
    pub async fn connect(self) -> Result<RedisStore, RedisError> {
        if self.prefix.contains(['{', '}']) {
            let message = format!("prefix: `{}`; a prefix has no braces", self.prefix);
            return Err(RedisError::new(RedisErrorKind::Address, message));
        }
        let link = Link::connect(&Address::parse(&self.url)?, &self.options).await?;
        let time = if self.given.is_some() { TimePart::Given } else { TimePart::Server };
        let ad_hoc = Name::new("default")
            .map_err(|error| RedisError::new(RedisErrorKind::Other, error.to_string()))?;
        let settings = Settings {
            prefix: self.prefix,
            encodings: self.encodings,
            on_unreadable: self.on_unreadable,
            ad_hoc,
            given: self.given,
        };
        Ok(RedisStore::new(Scripted::new(link, Library::new(time), settings)))
    }
}

impl fmt::Debug for RedisStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may hold a password.
        f.debug_struct("RedisStoreBuilder").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}
