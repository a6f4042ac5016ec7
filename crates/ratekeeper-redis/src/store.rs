//! The store as a program uses it: scripts behind a denial cache, servers behind their breakers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ratekeeper::port::{
    Answer, Charge, Grant, HoldChange, HoldOutcome, HoldRequest, Judgment, Request, Standing, Store, Whole,
};
use ratekeeper::state::StorageKey;
use ratekeeper::store::{Breaker, DenialStatistics, LeaseStatistics, StoreFront};
use ratekeeper::{Charged, Cost, Decision, Key, Name, StoreError};

use crate::error::RedisError;
use crate::exchange::HOLDS;
use crate::held_key::{self, InspectedHolds};
use crate::inspect::{self, Inspection};
use crate::link::Link;
use crate::losses::Losses;
use crate::permits::RedisPermits;
use crate::script::{Script, ScriptCall};
use crate::scripted::ScriptedStore;
use crate::values::RedisValues;

/// A [`Store`] on Redis or Valkey. Clones share the connections, the breakers and the denial cache.
///
/// One script call, and so one round trip, decides a request with all rules of all its plans, by the server's clock. While
/// a server fails, its [breaker](Breaker) is open: the server is not asked, and the plan's failure mode answers; other
/// nodes of a cluster go on. What the server has refused is refused for up to a second
/// [without asking](ratekeeper::store::DenialCache). Must be used within a tokio runtime.
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
    scripted: Arc<ScriptedStore<Link>>,
    front: StoreFront<ScriptedStore<Link>>,
}

impl RedisStore {
    pub(crate) fn new(scripted: Arc<ScriptedStore<Link>>, front: StoreFront<ScriptedStore<Link>>) -> Self {
        RedisStore { scripted, front }
    }

    /// Returns the way to the servers.
    pub(crate) fn link(&self) -> &Link {
        &self.scripted.runner
    }

    /// Returns the script that counts as envoyproxy/ratelimit does.
    pub(crate) fn counter_script(&self) -> &Script {
        &self.scripted.library.counter
    }

    /// Asks the server whether it serves, whatever its breaker says; a cluster is asked for its map. May take as long as
    /// four attempts to connect.
    ///
    /// # Errors
    ///
    /// What is wrong with the server or its address, and what to do about it.
    pub async fn check(&self) -> Result<(), RedisError> {
        self.scripted.runner.check().await
    }

    /// Returns a concurrency limit that all instances share: at most `limit` permits of this name for this key at once.
    /// Each is leased for `lease`, which is brought within a millisecond and a hundred years. Sends nothing.
    pub fn permits(&self, key: Key<'_>, name: &Name, limit: u64, lease: Duration) -> RedisPermits {
        RedisPermits::new(Arc::clone(&self.scripted), key, name, limit, lease)
    }

    /// Returns the server's strings, to keep states by compare-and-set. Sends nothing.
    pub fn values(&self) -> RedisValues {
        RedisValues::new(Arc::clone(&self.scripted))
    }

    /// Explains what is under a key of the server, given by its whole name there; none if nothing is. One round trip.
    ///
    /// # Errors
    ///
    /// `Unreadable` if the key holds neither a string nor a hash; otherwise what keeps the server from answering.
    pub async fn inspect(&self, key: &[u8]) -> Result<Option<Inspection>, StoreError> {
        let mut call = ScriptCall::with_capacity(1, key.len());
        call.key(key);
        inspect::read(self.scripted.runner.run(&self.scripted.library.inspect, &call).await?)
    }

    /// Explains what is held for a key, and what has ended lately. One round trip, which takes the longer the more holds
    /// there are: for an administrator.
    ///
    /// # Errors
    ///
    /// What keeps the server from answering, or a record that cannot be read.
    pub async fn inspect_holds(&self, key: Key<'_>) -> Result<InspectedHolds, StoreError> {
        let mut name = StorageKey::new(&self.scripted.settings.prefix, key).to_bytes();
        name.extend_from_slice(HOLDS);
        let mut call = ScriptCall::with_capacity(1, name.len());
        call.key(&name);
        held_key::read(self.scripted.runner.run(&self.scripted.library.inspect, &call).await?)
    }

    /// Returns the name on the server of each state of a request, in the order of its rules: what
    /// [`inspect`](RedisStore::inspect) takes. Sends nothing.
    ///
    /// # Errors
    ///
    /// `Unsupported` if a rule is a concurrency limit, which has no state here.
    pub fn keys(&self, request: &Request<'_>) -> Result<Vec<Vec<u8>>, StoreError> {
        let groups = self.scripted.groups(request)?;
        let prefix = &self.scripted.settings.prefix;
        Ok(groups.iter().map(|group| group.storage_key(prefix, request.key).to_bytes()).collect())
    }

    /// Returns how many states this store and its clones have had to discard so far.
    pub fn losses(&self) -> Losses {
        self.scripted.losses.read()
    }

    /// Returns the breaker of each server, in the order of their names; empty if the store was built
    /// [without](crate::RedisStoreBuilder::without_breaker).
    ///
    /// A server is named by its address, a master that sentinels watch by its name there. A cluster has one breaker for
    /// each node that is part of it now, and one called `topology` before the question which nodes there are.
    pub fn breakers(&self) -> Vec<Arc<Breaker>> {
        self.scripted.runner.breakers()
    }

    /// Returns the counts of the denial cache; none if the store was built
    /// [without](crate::RedisStoreBuilder::without_denial_cache).
    pub fn denials(&self) -> Option<DenialStatistics> {
        self.front.denials()
    }

    /// Returns what is leased, and what became of it; none if leases were left out.
    pub fn leases(&self) -> Option<LeaseStatistics> {
        self.front.leases()
    }

    /// Gives back what is left of all leases: for a program that stops.
    pub async fn close(&self) {
        self.front.close().await;
    }
}

impl Store for RedisStore {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        self.front.store().acquire(request)
    }

    fn acquire_up_to<'a>(&'a self, request: Request<'a>, most: Cost) -> Answer<'a, Grant> {
        self.front.store().acquire_up_to(request, most)
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        self.front.store().peek(request)
    }

    fn acquire_each<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        self.front.store().acquire_each(request)
    }

    fn peek_each<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        self.front.store().peek_each(request)
    }

    fn debit<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        self.front.store().debit(request)
    }

    /// Judges charges of several keys together. One script call, and so one round trip and one instant, for up to eight
    /// charges of different keys. More of them, or keys that lie in several slots of a cluster, are several calls, which go
    /// out together; charges of the same key take one round trip after another. If any of several calls
    /// [ignores](ratekeeper::port::ChargeAction::Ignore) what does not pass, while it is open whether the whole does, then
    /// all of them look first, which is one more round trip: nothing is taken for a whole that is refused. What was taken is
    /// given back if another caller was faster in between: never is more admitted than allowed. All calls together have
    /// the time of [one command](crate::RedisStoreBuilder::command_timeout).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future of a single call leaves it open whether it was made. Several calls are made by a task of their
    /// own, which goes on to its end, and then gives back what it has charged, because nobody was told.
    fn charge<'a>(&'a self, charges: &'a [Charge<'a>], whole: Whole) -> Answer<'a, Judgment> {
        self.front.store().charge(charges, whole)
    }

    fn hold<'a>(&'a self, hold: HoldRequest<'a>) -> Answer<'a, Standing> {
        self.front.store().hold(hold)
    }

    fn change_hold<'a>(&'a self, change: HoldChange<'a>) -> Answer<'a, HoldOutcome> {
        self.front.store().change_hold(change)
    }

    fn refund<'a>(&'a self, request: Request<'a>, charged: Charged) -> Answer<'a, Decision> {
        self.front.store().refund(request, charged)
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, u64> {
        self.front.store().reset(request)
    }

    /// Forgets every state of every key that starts with `prefix`. Asks the server, or every master of a cluster, for the
    /// names of the keys, a thousand at a time, and deletes each by itself: hundreds of thousands take some ten seconds. No
    /// command is long, and each has its own time limit. Counts names, under which the rules of a plan lie together.
    /// [`RedisPermits`] stay. A key whose slot moves at this moment may be missed.
    ///
    /// All memory of the keys is freed, also the notes of when they were reset: a full server takes new keys again. So a
    /// refund of an older charge is not recognised as such afterwards.
    ///
    /// # Errors
    ///
    /// The first failure, with how many states were forgotten all the same: a name or a server that fails does not keep
    /// the others from being forgotten.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops it; what was forgotten by then stays so.
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
