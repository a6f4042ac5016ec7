//! One limit for each key.

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc as StdArc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::acquire::{Acquire, Held};
use super::core::{Core, no_room};
use super::error::{AcquireError, AcquireErrorKind, LimiterKind};
use super::statistics::Statistics;
use super::table::{Origin, Returns, Table, hash_of};
use super::tank::Tank;
use super::{Inherit, Limiter};
use crate::algorithm;
use crate::clock::TimeSource;
use crate::port::Clock;
use crate::quota::QuotaError;
use crate::sync::Arc;
use crate::{Charged, Cost, Decision, Quota, Reason, Timestamp};

/// How many parts the keys are divided into, each with a lock of its own.
const SHARDS: usize = 16;

/// One limit for each key, made when the key is first used and forgotten when it is as good as fresh. Keys are looked
/// up by anything they can be borrowed as. Clones are handles of the same limits.
///
/// Memory is bounded: there are at most [`max_keys`](KeyedBuilder::max_keys). A flood of new keys changes nothing for
/// those that are limited already: only a key whose state equals a fresh one's is ever forgotten to make room, and
/// when there is none, the new key is [refused, or shares one limit](Flood) with all others that came too late.
///
/// ```
/// use ratekeeper::limiter::Keyed;
/// let logins: Keyed<String> = Keyed::new("5/m".parse()?)?;
/// assert!(logins.try_acquire("ann", 5).allowed, "looked up as &str, owned as String");
/// assert!(!logins.try_acquire("ann", 1).allowed);
/// assert!(logins.try_acquire("bob", 1).allowed);
/// assert!(logins.statistics("eve").is_none(), "a look makes no entry");
/// assert_eq!(logins.len(), 2);
/// # Ok::<(), ratekeeper::QuotaError>(())
/// ```
pub struct Keyed<K> {
    inner: StdArc<Inner<K>>,
}

/// The quota of each key.
type QuotaOf<K> = Box<dyn Fn(&K) -> Quota + Send + Sync>;

struct Inner<K> {
    shards: Box<[Mutex<Table<K>>]>,
    returns: Arc<Returns>,
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

/// What becomes of a new key when there is no room for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Flood {
    /// It is refused.
    #[default]
    Refuse,
    /// It shares one limit, of the common quota, with all others there is no room for.
    Share,
}

impl<K: Hash + Eq> Keyed<K> {
    /// The same quota for each key.
    pub fn new(quota: Quota) -> Result<Self, QuotaError> {
        Keyed::builder(quota).build()
    }

    /// With another bound, a quota of its own for some keys, a bounded queue or another clock.
    pub fn builder(quota: Quota) -> KeyedBuilder<K> {
        KeyedBuilder {
            quota,
            quota_of: None,
            max_keys: KeyedBuilder::<K>::DEFAULT_MAX_KEYS,
            flood: Flood::Refuse,
            queue: usize::MAX,
            clock: TimeSource::default(),
        }
    }

    /// Takes, if it can be taken now and nobody waits for it.
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

    /// Takes, in turn among those with the same key.
    pub fn acquire<Q>(&self, key: &Q, cost: impl Into<Cost>) -> Acquire<'static>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        match self.core(key) {
            Ok(core) => Acquire::new(Held::Owned(core), cost.into()),
            Err(kind) => Acquire::failed(self.error(kind), cost.into()),
        }
    }

    /// The limiter of this key, as a handle. The key is not forgotten while the handle lives. A key that there is no
    /// room for has none, whatever the [`Flood`]: what it does to its own limiter would be done to everybody's.
    pub fn limiter<Q>(&self, key: &Q) -> Result<Limiter, AcquireError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.own(key).map(|core| Limiter { core }).map_err(|kind| self.error(kind))
    }

    /// What is there, whoever waits for it: where it would be taken, or refused. Takes nothing, and makes no entry.
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
            return self.inner.overflow.as_ref().map_or_else(refused, |limiter| limiter.peek(cost));
        }
        let quota = match &self.inner.quota_of {
            Some(quota_of) => quota_of(&key.to_owned()),
            None => self.inner.quota,
        };
        let fresh = algorithm::peek(&quota, None, cost, self.inner.clock.now());
        fresh.unwrap_or_else(|_| no_room(quota.burst()))
    }

    /// Gives back what the key took just now, never above the capacity; see [`Limiter::refund`]. An unknown key has
    /// taken nothing, unless it [shares](Flood::Share) with others: then it gives back to them all.
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
            core.with(|desk, now, wakes| desk.refund(cost, charged, now, wakes));
        } else if let Some(shared) = &self.inner.overflow
            && !self.has_room(key)
        {
            shared.refund_charged(cost, charged);
        }
    }

    /// Forgets all that the key has taken. What it has taken from a [shared](Flood::Share) limit stays taken: nobody
    /// knows how much of it was this key's.
    pub fn reset<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        if let Some(core) = self.find(key) {
            core.with(|desk, now, wakes| desk.reset(now, wakes));
        }
    }

    /// Gives one key a quota of its own, which it keeps: it is not forgotten any more.
    pub fn set_quota<Q>(&self, key: &Q, quota: Quota, inherit: Inherit) -> Result<(), SetQuotaError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        super::direct::check(&quota).map_err(SetQuotaError::Quota)?;
        let core = self.own(key).map_err(|kind| SetQuotaError::Key(self.error(kind)))?;
        core.set_quota(quota, inherit).map_err(SetQuotaError::Quota)
    }

    /// What this key has done; none if it is unknown.
    pub fn statistics<Q>(&self, key: &Q) -> Option<Statistics>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.find(key).map(|core| core.statistics())
    }

    /// How many keys are remembered.
    pub fn len(&self) -> usize {
        self.inner.len.load(Ordering::Relaxed)
    }

    /// True if no key is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Everybody who waits fails now, and everybody who comes later.
    pub fn close(&self) {
        self.inner.closed.store(true, Ordering::SeqCst);
        let overflow = self.inner.overflow.iter().map(|limiter| Arc::clone(&limiter.core));
        let cores = |shard: &Mutex<Table<K>>| shard.lock().cores().cloned().collect::<Vec<_>>();
        for core in self.inner.shards.iter().flat_map(cores).chain(overflow) {
            core.with(|desk, _, wakes| desk.close(wakes));
        }
    }

    fn shard(&self, hash: u64) -> &Mutex<Table<K>> {
        // The table inside uses the low bits and the top ones: these are neither.
        &self.inner.shards[(hash >> 32) as usize % SHARDS]
    }

    fn find<Q>(&self, key: &Q) -> Option<Arc<Core>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = hash_of(&self.inner.hasher, key);
        self.shard(hash).lock().get(hash, key).cloned()
    }

    /// Returns true once it was closed.
    pub fn is_closed(&self) -> bool {
        self.inner.closed.load(Ordering::SeqCst)
    }

    fn refusal(&self, kind: AcquireErrorKind) -> Decision {
        let limit = self.inner.quota.burst();
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
        let now = self.inner.clock.now();
        let due = self.inner.shards.iter().filter_map(|shard| shard.lock().first_due(now)).min();
        error.retry_in(due.map(|due| due.since(now)))
    }

    /// Where this key is limited: by itself, or with all others that came too late.
    fn core<Q>(&self, key: &Q) -> Result<Arc<Core>, AcquireErrorKind>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        match (self.own(key), &self.inner.overflow) {
            (Err(AcquireErrorKind::TooManyKeys), Some(shared)) => Ok(Arc::clone(&shared.core)),
            (own, _) => own,
        }
    }

    /// The key's own limiter, made if there is none.
    fn own<Q>(&self, key: &Q) -> Result<Arc<Core>, AcquireErrorKind>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let hash = hash_of(&self.inner.hasher, key);
        if let Some(core) = self.shard(hash).lock().get(hash, key) {
            return Ok(Arc::clone(core));
        }
        if self.is_closed() {
            return Err(AcquireErrorKind::Closed);
        }
        let now = self.inner.clock.now();
        let room = |len: usize| (len < self.inner.max_keys).then_some(len + 1);
        let len = &self.inner.len;
        let taken = || len.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_ok();
        if !self.make_room(hash, now, taken) {
            return Err(AcquireErrorKind::TooManyKeys);
        }
        let room = Room(len);
        // Made outside of the lock: it is the caller's code, which may panic, or ask for other keys.
        let owned = key.to_owned();
        let made = self.inner.make(&owned, hash, now);
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

    /// True if this key, which is new, would be given a limiter.
    fn has_room<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let is_free = || self.len() < self.inner.max_keys;
        is_free() || self.make_room(hash_of(&self.inner.hasher, key), self.inner.clock.now(), is_free)
    }

    /// Forgets what can be forgotten until `there_is` room.
    fn make_room(&self, hash: u64, now: Timestamp, there_is: impl Fn() -> bool) -> bool {
        for returned in self.inner.returns.take_some() {
            self.shard(returned).lock().revisit(returned, now);
        }
        // Every new key forgets some old ones, so that the table shrinks when the load does.
        let mut forgotten = self.shard(hash).lock().forget_some(now);
        self.inner.len.fetch_sub(forgotten, Ordering::Relaxed);
        let mut shards = self.inner.shards.iter();
        loop {
            if there_is() {
                return true;
            }
            let Some(shard) = shards.next() else { return false };
            forgotten = shard.lock().forget_some(now);
            self.inner.len.fetch_sub(forgotten, Ordering::Relaxed);
        }
    }
}

/// Room for one more key, given back unless it is used.
struct Room<'a>(&'a AtomicUsize);

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<K> Inner<K> {
    fn make(&self, key: &K, hash: u64, now: Timestamp) -> Arc<Core> {
        let quota = self.quota_of.as_ref().map_or(self.quota, |quota_of| quota_of(key));
        // A quota of permits has no state: the common quota stands in for it, which was checked.
        let quota = super::direct::check(&quota).map_or(self.quota, |()| quota);
        let origin = Origin::new(&self.returns, hash, now);
        let (tank, clock) = (Tank::of_quota(quota), self.clock.clone());
        Core::with_origin(LimiterKind::Keyed, tank, self.queue, clock, Some(origin))
    }
}

impl<K> Clone for Keyed<K> {
    fn clone(&self) -> Self {
        Keyed { inner: StdArc::clone(&self.inner) }
    }
}

impl<K> fmt::Debug for Keyed<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = self.inner.len.load(Ordering::Relaxed);
        f.debug_struct("Keyed").field("quota", &self.inner.quota).field("len", &len).finish_non_exhaustive()
    }
}

/// Why a key cannot be given a quota of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetQuotaError {
    /// The quota is not one of a rate.
    Quota(QuotaError),
    /// The key is new, and there is no room for it, or the limiter is closed.
    Key(AcquireError),
}

impl fmt::Display for SetQuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetQuotaError::Quota(error) => error.fmt(f),
            SetQuotaError::Key(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SetQuotaError {}

/// Keyed limits in the making.
#[must_use = "a builder is not a limiter yet: call `build`"]
pub struct KeyedBuilder<K> {
    quota: Quota,
    quota_of: Option<QuotaOf<K>>,
    max_keys: usize,
    flood: Flood,
    queue: usize,
    clock: TimeSource,
}

impl<K: Hash + Eq> KeyedBuilder<K> {
    /// How many keys are remembered unless said otherwise.
    pub const DEFAULT_MAX_KEYS: usize = 100_000;

    /// How many keys are remembered at most.
    pub fn max_keys(mut self, keys: usize) -> Self {
        self.max_keys = keys.max(1);
        self
    }

    /// What becomes of a new key when there is no room for it.
    pub fn flood(mut self, flood: Flood) -> Self {
        self.flood = flood;
        self
    }

    /// The quota of each key, asked whenever the key is made anew. One of permits counts as the common one.
    pub fn quota_of(mut self, quota_of: impl Fn(&K) -> Quota + Send + Sync + 'static) -> Self {
        self.quota_of = Some(Box::new(quota_of));
        self
    }

    /// How many may wait for one key; the next one is refused at once.
    pub fn queue(mut self, bound: usize) -> Self {
        self.queue = bound;
        self
    }

    /// Another clock than the process's.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = TimeSource::new(clock);
        self
    }

    /// The limits, if the common quota is one of a rate.
    pub fn build(self) -> Result<Keyed<K>, QuotaError> {
        super::direct::check(&self.quota)?;
        let shared = Tank::of_quota(self.quota);
        let overflow =
            Limiter { core: Core::new(LimiterKind::Keyed, shared, self.queue, self.clock.clone()) };
        let inner = Inner {
            shards: (0..SHARDS).map(|_| Mutex::new(Table::default())).collect(),
            returns: Arc::default(),
            hasher: foldhash::quality::RandomState::default(),
            len: AtomicUsize::new(0),
            max_keys: self.max_keys,
            quota: self.quota,
            quota_of: self.quota_of,
            overflow: (self.flood == Flood::Share).then_some(overflow),
            queue: self.queue,
            clock: self.clock,
            closed: AtomicBool::new(false),
        };
        Ok(Keyed { inner: StdArc::new(inner) })
    }
}

impl<K> fmt::Debug for KeyedBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("KeyedBuilder");
        debug.field("quota", &self.quota).field("max_keys", &self.max_keys).field("flood", &self.flood);
        debug.finish_non_exhaustive()
    }
}
