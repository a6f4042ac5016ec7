//! One rate for each key.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::acquire::Acquire;
use super::core::LimiterCore;
use super::core_ref::CoreRef;
use super::direct::Limiter;
use super::error::{AcquireError, AcquireErrorKind, LimiterKind, SetQuotaError};
use super::key_table::{KeyTable, STEPS};
use super::returned_keys::{KeyOrigin, ReturnedKeys};
use super::statistics::LimiterStatistics;
use super::supply::{Inherit, check_rate};
use crate::algorithm::peek;
use crate::clock::TimeSource;
use crate::port::Clock;
use crate::store::OnFull;
use crate::sync::Arc;
use crate::{Charged, Cost, Decision, Quota, QuotaError, Reason, Timestamp};

/// How many parts the keys are divided into, each with a lock of its own.
const SHARDS: usize = 16;

/// One rate for each key, made when the key is first used and forgotten when it is as good as fresh. Keys are looked
/// up by anything they can be borrowed as. Clones are handles of the same limits.
///
/// Memory is bounded: there are at most [`max_keys`](KeyedBuilder::max_keys). A flood of new keys changes nothing for
/// those that are limited already: only a key whose state equals a fresh one's is ever forgotten to make room, and
/// when there is none, the new key is [refused, or shares one limit](OnFull) with all others that came too late.
///
/// ```
/// use ratekeeper::limiter::Keyed;
/// let logins: Keyed<String> = Keyed::new("5/h".parse()?)?;
/// assert!(logins.try_acquire("ann", 5).allowed, "looked up as &str, owned as String");
/// assert!(!logins.try_acquire("ann", 1).allowed);
/// assert!(logins.try_acquire("bob", 1).allowed);
/// assert!(logins.statistics("eve").is_none(), "a look makes no entry");
/// assert_eq!(logins.len(), 2);
/// # Ok::<(), ratekeeper::QuotaError>(())
/// ```
pub struct Keyed<K> {
    keys: Arc<KeyedLimits<K>>,
}

/// The quota of each key.
type QuotaOf<K> = Box<dyn Fn(&K) -> Quota + Send + Sync>;

struct KeyedLimits<K> {
    shards: Box<[Mutex<KeyTable<K>>]>,
    returned: Arc<ReturnedKeys>,
    hasher: foldhash::quality::RandomState,
    len: AtomicUsize,
    max_keys: usize,
    quota: Quota,
    quota_of: Option<QuotaOf<K>>,
    overflow: Option<Limiter>,
    queue: usize,
    clock: TimeSource,
    closed: AtomicBool,
}

impl<K: Hash + Eq> Keyed<K> {
    /// Builds limits of the same quota for each key.
    ///
    /// # Errors
    ///
    /// If the quota counts permits.
    pub fn new(quota: Quota) -> Result<Self, QuotaError> {
        Keyed::builder(quota).build()
    }

    /// Returns a builder, for another bound, quotas that depend on the key, a bounded queue or another clock.
    pub fn builder(quota: Quota) -> KeyedBuilder<K> {
        KeyedBuilder {
            quota,
            quota_of: None,
            max_keys: KeyedBuilder::<K>::DEFAULT_MAX_KEYS,
            on_full: OnFull::Refuse,
            queue: usize::MAX,
            clock: TimeSource::default(),
        }
    }

    /// Takes the cost, if it is there now and nobody waits for it; else takes nothing.
    ///
    /// Costs the lock of a shard for the lookup, and then what [`Limiter::try_acquire`] does. A new key is allocated, and
    /// a few old ones are forgotten.
    pub fn try_acquire<Q>(&self, key: &Q, cost: impl Into<Cost>) -> Decision
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        match self.core(key) {
            Ok(core) => core.try_acquire(cost.into()),
            Err(kind) => self.refusal(kind),
        }
    }

    /// Takes the cost, in turn among those with the same key.
    pub fn acquire<Q>(&self, key: &Q, cost: impl Into<Cost>) -> Acquire<'static>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        match self.core(key) {
            Ok(core) => Acquire::new(CoreRef::Shared(core), cost.into()),
            Err(kind) => Acquire::failed(self.error(kind), cost.into()),
        }
    }

    /// Returns the limiter of this key, as a handle. The key is not forgotten while the handle lives.
    ///
    /// # Errors
    ///
    /// If there is no room for the key, whatever [`OnFull`] says: what it does to its own limiter would be done to
    /// everybody's. Or if this was closed.
    pub fn limiter<Q>(&self, key: &Q) -> Result<Limiter, AcquireError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.own(key).map(|core| Limiter { core }).map_err(|kind| self.error(kind))
    }

    /// Decides as if nobody waited. Takes nothing, and makes no entry.
    pub fn peek<Q>(&self, key: &Q, cost: impl Into<Cost>) -> Decision
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let cost = cost.into();
        if let Some(core) = self.find(key) {
            return core.peek(cost);
        }
        if self.is_closed() {
            return self.refusal(AcquireErrorKind::Closed);
        }
        if !self.has_room(key) {
            let refused = || self.refusal(AcquireErrorKind::TooManyKeys);
            return self.keys.overflow.as_ref().map_or_else(refused, |limiter| limiter.peek(cost));
        }
        let quota = self.keys.quota_of.as_ref().map_or(self.keys.quota, |quota_of| quota_of(&key.to_owned()));
        let fresh = peek(&quota, None, cost, self.keys.clock.now());
        fresh.unwrap_or_else(|_| no_room(quota.burst()))
    }

    /// Gives back what the key took just now, never above the capacity; see [`Limiter::refund`]. An unknown key has
    /// taken nothing, unless it [shares](OnFull::Share) with others: then it gives back to them all.
    pub fn refund<Q>(&self, key: &Q, cost: impl Into<Cost>)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.refund_charged(key, cost, Charged::NOW);
    }

    /// Gives back what is left of what the key took then; see [`Limiter::refund_charged`].
    pub fn refund_charged<Q>(&self, key: &Q, cost: impl Into<Cost>, charged: Charged)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        if let Some(core) = self.find(key) {
            let cost = cost.into();
            core.with(|queue, at| queue.refund(cost, charged, at));
        } else if let Some(shared) = &self.keys.overflow
            && !self.has_room(key)
        {
            shared.refund_charged(cost, charged);
        }
    }

    /// Forgets all that the key has taken. What it has taken from a [shared](OnFull::Share) limit stays taken: nobody
    /// knows how much of it was this key's.
    pub fn reset<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        if let Some(core) = self.find(key) {
            core.with(|queue, at| queue.reset(at));
        }
    }

    /// Gives one key a quota of its own, which it keeps: it is not forgotten any more.
    ///
    /// # Errors
    ///
    /// If the quota counts permits, or the key is new and there is no room for it.
    pub fn set_quota<Q>(&self, key: &Q, quota: Quota, inherit: Inherit) -> Result<(), SetQuotaError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        check_rate(&quota).map_err(SetQuotaError::Quota)?;
        let core = self.own(key).map_err(|kind| SetQuotaError::Key(self.error(kind)))?;
        core.set_quota(quota, inherit)
    }

    /// Returns what this key has done; `None` if it is unknown.
    pub fn statistics<Q>(&self, key: &Q) -> Option<LimiterStatistics>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.find(key).map(|core| core.statistics())
    }

    /// Returns how many keys are remembered.
    pub fn len(&self) -> usize {
        self.keys.len.load(Ordering::Relaxed)
    }

    /// Returns true if no key is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Closes it: everybody who waits fails now, and everybody who comes later.
    pub fn close(&self) {
        self.keys.closed.store(true, Ordering::SeqCst);
        let overflow = self.keys.overflow.iter().map(|limiter| Arc::clone(&limiter.core));
        let cores = |shard: &Mutex<KeyTable<K>>| shard.lock().cores().cloned().collect::<Vec<_>>();
        self.keys.shards.iter().flat_map(cores).chain(overflow).for_each(|core| core.close());
    }

    /// Returns true once it was closed.
    pub fn is_closed(&self) -> bool {
        self.keys.closed.load(Ordering::SeqCst)
    }

    fn shard(&self, hash: u64) -> &Mutex<KeyTable<K>> {
        // The table inside uses the low bits and the top ones: these are neither.
        &self.keys.shards[(hash >> 32) as usize % SHARDS]
    }

    fn find<Q>(&self, key: &Q) -> Option<Arc<LimiterCore>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.keys.hasher.hash_one(key);
        self.shard(hash).lock().get(hash, key).cloned()
    }

    fn refusal(&self, kind: AcquireErrorKind) -> Decision {
        let limit = self.keys.quota.burst();
        match kind {
            AcquireErrorKind::Closed => Decision::uninformed(false, limit, Reason::Closed),
            _ => no_room(limit),
        }
    }

    /// Why a key has no limiter. If there is no room for it: there is when the first of the others can be forgotten.
    fn error(&self, kind: AcquireErrorKind) -> AcquireError {
        let error = AcquireError::new(kind, LimiterKind::Keyed);
        if kind != AcquireErrorKind::TooManyKeys {
            return error;
        }
        let now = self.keys.clock.now();
        let due = self.keys.shards.iter().filter_map(|shard| shard.lock().first_due(now)).min();
        let error = error.counted(self.len() as u64, self.keys.max_keys as u64);
        error.retry_in(due.map(|due| due.since(now)))
    }

    /// Where this key is limited: by itself, or with all others that came too late.
    fn core<Q>(&self, key: &Q) -> Result<Arc<LimiterCore>, AcquireErrorKind>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        match (self.own(key), &self.keys.overflow) {
            (Err(AcquireErrorKind::TooManyKeys), Some(shared)) => Ok(Arc::clone(&shared.core)),
            (own, _) => own,
        }
    }

    /// The key's own limiter, made if there is none.
    fn own<Q>(&self, key: &Q) -> Result<Arc<LimiterCore>, AcquireErrorKind>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let hash = self.keys.hasher.hash_one(key);
        if let Some(core) = self.shard(hash).lock().get(hash, key) {
            return Ok(Arc::clone(core));
        }
        if self.is_closed() {
            return Err(AcquireErrorKind::Closed);
        }
        let now = self.keys.clock.now();
        let one_more = |len: usize| (len < self.keys.max_keys).then_some(len + 1);
        let len = &self.keys.len;
        let taken = || len.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok();
        if !self.make_room(hash, now, taken) {
            return Err(AcquireErrorKind::TooManyKeys);
        }
        let room = KeyRoom(len);
        // Made outside of the lock: it is the caller's code, which may panic, or ask for other keys.
        let owned = key.to_owned();
        let made = self.keys.make(&owned, hash, now);
        let mut table = self.shard(hash).lock();
        // Asked under the lock: whoever closes comes for what is in here after having said so.
        match table.get(hash, key) {
            Some(core) => Ok(Arc::clone(core)),
            None if self.is_closed() => Err(AcquireErrorKind::Closed),
            None => {
                table.insert(hash, owned, Arc::clone(&made), now);
                std::mem::forget(room);
                Ok(made)
            }
        }
    }

    /// Returns true if this key, which is new, would be given a limiter.
    fn has_room<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let is_free = || self.len() < self.keys.max_keys;
        is_free() || self.make_room(self.keys.hasher.hash_one(key), self.keys.clock.now(), is_free)
    }

    /// Forgets what can be forgotten until `there_is` room.
    fn make_room(&self, hash: u64, now: Timestamp, there_is: impl Fn() -> bool) -> bool {
        for returned in self.keys.returned.take_some(STEPS) {
            self.shard(returned).lock().revisit(returned, now);
        }
        // Every new key forgets some old ones, so that the table shrinks when the load does.
        let mut forgotten = self.shard(hash).lock().forget_some(now);
        self.keys.len.fetch_sub(forgotten, Ordering::Relaxed);
        let mut shards = self.keys.shards.iter();
        loop {
            if there_is() {
                return true;
            }
            let Some(shard) = shards.next() else { return false };
            forgotten = shard.lock().forget_some(now);
            self.keys.len.fetch_sub(forgotten, Ordering::Relaxed);
        }
    }
}

/// The refusal of a new key, when there is no room for it.
fn no_room(limit: u64) -> Decision {
    Decision::uninformed(false, limit, Reason::StoreFull)
}

/// Room for one more key, given back unless it is used.
struct KeyRoom<'a>(&'a AtomicUsize);

impl Drop for KeyRoom<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<K> KeyedLimits<K> {
    fn make(&self, key: &K, hash: u64, now: Timestamp) -> Arc<LimiterCore> {
        let quota = self.quota_of.as_ref().map_or(self.quota, |quota_of| quota_of(key));
        // A quota of permits has no state: the common quota stands in for it, which was checked.
        let quota = check_rate(&quota).map_or(self.quota, |()| quota);
        let origin = KeyOrigin::new(&self.returned, hash, now);
        LimiterCore::with_origin(
            LimiterKind::Keyed,
            quota.into(),
            self.queue,
            self.clock.clone(),
            Some(origin),
        )
    }
}

impl<K> Clone for Keyed<K> {
    fn clone(&self) -> Self {
        Keyed { keys: Arc::clone(&self.keys) }
    }
}

impl<K> fmt::Debug for Keyed<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = self.keys.len.load(Ordering::Relaxed);
        f.debug_struct("Keyed").field("quota", &self.keys.quota).field("len", &len).finish_non_exhaustive()
    }
}

/// A builder of a [`Keyed`].
#[must_use = "a builder is not a limiter yet: call `build`"]
pub struct KeyedBuilder<K> {
    quota: Quota,
    quota_of: Option<QuotaOf<K>>,
    max_keys: usize,
    on_full: OnFull,
    queue: usize,
    clock: TimeSource,
}

impl<K: Hash + Eq> KeyedBuilder<K> {
    /// How many keys are remembered unless [`max_keys`](KeyedBuilder::max_keys) is called.
    pub const DEFAULT_MAX_KEYS: usize = 100_000;

    /// Sets how many keys are remembered at most; at least one.
    pub fn max_keys(mut self, keys: usize) -> Self {
        self.max_keys = keys.max(1);
        self
    }

    /// Sets what a new key gets when there is no room for it. It is refused by default.
    pub fn on_full(mut self, policy: OnFull) -> Self {
        self.on_full = policy;
        self
    }

    /// Sets the quota of each key, which is asked for whenever the key is made anew. One of permits counts as the common
    /// one.
    pub fn quota_of(mut self, quota_of: impl Fn(&K) -> Quota + Send + Sync + 'static) -> Self {
        self.quota_of = Some(Box::new(quota_of));
        self
    }

    /// Sets how many may wait for one key; the next one fails at once. Unbounded by default.
    pub fn queue(mut self, bound: usize) -> Self {
        self.queue = bound;
        self
    }

    /// Sets the clock. By default the process's, or tokio's time if this is built in a runtime that has paused it.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = TimeSource::new(clock);
        self
    }

    /// Builds the limits.
    ///
    /// # Errors
    ///
    /// If the common quota counts permits.
    pub fn build(self) -> Result<Keyed<K>, QuotaError> {
        check_rate(&self.quota)?;
        let shared =
            || LimiterCore::new(LimiterKind::Keyed, self.quota.into(), self.queue, self.clock.clone());
        let keys = KeyedLimits {
            shards: (0..SHARDS).map(|_| Mutex::new(KeyTable::default())).collect(),
            returned: Arc::default(),
            hasher: foldhash::quality::RandomState::default(),
            len: AtomicUsize::new(0),
            max_keys: self.max_keys,
            quota: self.quota,
            overflow: (self.on_full == OnFull::Share).then(|| Limiter { core: shared() }),
            quota_of: self.quota_of,
            queue: self.queue,
            clock: self.clock,
            closed: AtomicBool::new(false),
        };
        Ok(Keyed { keys: Arc::new(keys) })
    }
}

impl<K> fmt::Debug for KeyedBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("KeyedBuilder");
        debug.field("quota", &self.quota).field("max_keys", &self.max_keys).field("on_full", &self.on_full);
        debug.finish_non_exhaustive()
    }
}
