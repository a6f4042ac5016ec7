//! The store as a program uses it: scripts behind a memory of refusals, servers behind their breakers.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ratekeeper::port::{Answer, Grant, Request, Store};
use ratekeeper::store::{Breaker, DenialStatistics};
use ratekeeper::{Charged, Decision, Key, Name, StoreError};

use crate::builder::RedisStoreBuilder;
use crate::call::Call;
use crate::error::RedisError;
use crate::front::Front;
use crate::inspect::{self, Inspection};
use crate::library::Library;
use crate::link::Link;
use crate::permits::Permits;
use crate::scripted::Scripted;
use crate::values::RedisValues;

/// A [`Store`] on Redis or Valkey. Clones share the connections, the breakers and the memory of refusals.
///
/// One script call decides a request, all rules of all its plans, by the server's clock. While a server fails, its
/// [breaker](Breaker) leaves it alone, and the plan's failure mode answers; other nodes of a cluster go on. What the
/// server has refused is refused
/// for up to a second [without asking](ratekeeper::store::DenialCache). Must be used within a tokio runtime.
///
/// ```
/// use ratekeeper::{FailureMode, Keeper, Plan, Registry};
/// use ratekeeper_redis::RedisStore;
///
/// // Nothing is sent yet: the server may be down, and will be found when it is up.
/// let store = RedisStore::builder("redis://127.0.0.1:6379").build()?;
/// let plan = Plan::parse("free", "10/s burst 20")?.on_store_error(FailureMode::Local);
/// let keeper = Keeper::new(store, Registry::new([plan]));
/// # let _ = keeper;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct RedisStore {
    scripted: Arc<Scripted<Link>>,
    front: Front,
}

/// What a store has had to give up so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Losses {
    /// Hashes of another schema version that were discarded.
    pub versions_discarded: u64,
    /// States that could not be read and were reset, as the policy says.
    pub states_reset: u64,
    /// States given up because their rule is decided by another algorithm now.
    pub algorithms_changed: u64,
}

impl RedisStore {
    /// Connects to the server at a URL, such as `redis://127.0.0.1:6379`, and makes sure that it answers.
    pub async fn connect(url: &str) -> Result<Self, RedisError> {
        Self::builder(url).connect().await
    }

    /// A store of other settings.
    pub fn builder(url: &str) -> RedisStoreBuilder {
        RedisStoreBuilder::new(url)
    }

    pub(crate) fn new(scripted: Arc<Scripted<Link>>, front: Front) -> Self {
        RedisStore { scripted, front }
    }

    /// Makes sure that the server answers, and tells what is wrong if it does not.
    pub async fn check(&self) -> Result<(), RedisError> {
        self.link().check().await
    }

    /// The way to the server.
    pub(crate) fn link(&self) -> &Link {
        &self.scripted.runner
    }

    pub(crate) fn library(&self) -> &Library {
        &self.scripted.library
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.scripted.settings.prefix
    }

    /// A concurrency limit that all instances share: at most `limit` permits of this name for this key at once, each
    /// leased for a time from a millisecond to a hundred years.
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
        let places = self.scripted.places(request)?;
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
            versions_discarded: self.scripted.versions_discarded.load(Ordering::Relaxed),
            states_reset: self.scripted.states_reset.load(Ordering::Relaxed),
            algorithms_changed: self.scripted.algorithms_changed.load(Ordering::Relaxed),
        }
    }

    /// Returns the breaker of each server, in the order of their names; none if the store was built
    /// [without](RedisStoreBuilder::without_breaker).
    ///
    /// A server is named by its address, a master that sentinels watch by its name there. A cluster has one breaker for
    /// each node that is part of it now, and one called `topology` before the question who they are.
    pub fn breakers(&self) -> Vec<Arc<Breaker>> {
        self.link().breakers()
    }

    /// What was refused without asking, unless every request is asked.
    pub fn denials(&self) -> Option<DenialStatistics> {
        self.front.denials()
    }
}

impl Store for RedisStore {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        self.front.store().acquire(request)
    }

    fn acquire_up_to<'a>(&'a self, request: Request<'a>) -> Answer<'a, Grant> {
        self.front.store().acquire_up_to(request)
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        self.front.store().peek(request)
    }

    fn refund<'a>(&'a self, request: Request<'a>, charged: Charged) -> Answer<'a, Decision> {
        self.front.store().refund(request, charged)
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, u64> {
        self.front.store().reset(request)
    }

    /// Asks the server, or every master of a cluster, for the names of the keys, a thousand at a time, and deletes each
    /// by itself: hundreds of thousands take some ten seconds. No command is long, each has its own time limit, and
    /// dropping the future stops it; what was forgotten by then stays so. Counts names, under which the rules of a plan
    /// lie together. [`Permits`] stay. A key whose slot moves at this moment may be missed.
    ///
    /// All memory of the keys is freed, with what was noted of their resets: a full server takes new keys again. So
    /// nobody knows afterwards which charges are older. A name or a server that fails does not keep the others: the
    /// error tells how many states were forgotten nevertheless.
    fn forget<'a>(&'a self, prefix: &'a [u8]) -> Answer<'a, u64> {
        self.front.store().forget(prefix)
    }

    fn acquire_many<'a>(
        &'a self,
        requests: &'a [Request<'a>],
        into: &'a mut Vec<Result<Decision, StoreError>>,
    ) -> Answer<'a, ()> {
        self.front.store().acquire_many(requests, into)
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("front", &self.front).finish_non_exhaustive()
    }
}
