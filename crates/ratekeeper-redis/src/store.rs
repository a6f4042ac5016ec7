//! The store.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ratekeeper::Decision;
use ratekeeper::port::{Answer, Grant, Request, Store};

use crate::builder::RedisStoreBuilder;
use crate::error::RedisError;
use crate::link::Link;
use crate::scripted::Scripted;

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
