//! The store.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ratekeeper::port::{Answer, Grant, Request, Store};
use ratekeeper::{Decision, Key, Name, StoreError};

use crate::builder::RedisStoreBuilder;
use crate::call::Call;
use crate::error::RedisError;
use crate::inspect::{self, Inspection};
use crate::library::Library;
use crate::link::Link;
use crate::permits::Permits;
use crate::scripted::Scripted;
use crate::values::RedisValues;

/// A [`Store`] on Redis or Valkey. Clones share the connection.
///
/// One script call decides a request, all rules of all its plans, by the server's clock.
#[derive(Clone)]
pub struct RedisStore(Arc<Scripted<Link>>);

/// What a store has had to give up so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Losses {
    /// Hashes of another schema version that were discarded.
    pub versions_discarded: u64,
    /// States that could not be read and were reset, as the policy says.
    pub states_reset: u64,
}

impl RedisStore {
    /// Connects to the server at a URL, such as `redis://127.0.0.1:6379`.
    pub async fn connect(url: &str) -> Result<Self, RedisError> {
        Self::builder(url).connect().await
    }

    /// A store of other settings.
    pub fn builder(url: &str) -> RedisStoreBuilder {
        RedisStoreBuilder::new(url)
    }

    pub(crate) fn new(scripted: Scripted<Link>) -> Self {
        RedisStore(Arc::new(scripted))
    }

    /// The way to the server.
    pub(crate) fn link(&self) -> &Link {
        &self.0.runner
    }

    pub(crate) fn library(&self) -> &Library {
        &self.0.library
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.0.settings.prefix
    }

    /// A concurrency limit that all instances share: at most `limit` permits of this name for this key at once, each
    /// leased for a time of at least a millisecond.
    pub fn permits(&self, key: Key<'_>, name: &Name, limit: u64, lease: Duration) -> Permits {
        Permits::new(self.clone(), key, name, limit, lease)
    }

    /// The server's strings, to keep states by compare-and-set.
    pub fn values(&self) -> RedisValues {
        RedisValues::new(self.clone())
    }

    /// Explains what is under a key of the server, given by its whole name there; none if nothing is.
    pub async fn inspect(&self, key: &[u8]) -> Result<Option<Inspection>, StoreError> {
        let mut call = Call::with_capacity(1, key.len());
        call.key(key);
        inspect::read(self.link().run(self.library().inspect(), &call).await?)
    }

    /// The name on the server of each state of a request, in the order of its rules: what
    /// [`inspect`](RedisStore::inspect) takes.
    pub fn keys(&self, request: &Request<'_>) -> Result<Vec<Vec<u8>>, StoreError> {
        let places = self.0.places(request)?;
        let keys = places.iter().map(|place| {
            let mut key = Vec::new();
            place.write_key(self.prefix(), request.key, &mut key);
            key
        });
        Ok(keys.collect())
    }

    /// What this store has had to give up so far.
    pub fn losses(&self) -> Losses {
        Losses {
            versions_discarded: self.0.versions_discarded.load(Ordering::Relaxed),
            states_reset: self.0.states_reset.load(Ordering::Relaxed),
        }
    }
}

impl Store for RedisStore {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        self.0.acquire(request)
    }

    fn acquire_up_to<'a>(&'a self, request: Request<'a>) -> Answer<'a, Grant> {
        self.0.acquire_up_to(request)
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        self.0.peek(request)
    }

    fn refund<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        self.0.refund(request)
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, u64> {
        self.0.reset(request)
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("prefix", &self.0.settings.prefix).finish_non_exhaustive()
    }
}
