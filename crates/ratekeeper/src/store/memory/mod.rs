//! The store in memory: sharded, bounded, exact.
//!
//! A key's states lie in one of many small shards, chosen by a seeded hash, each behind a lock that is held for some
//! ten nanoseconds. Shards are small on purpose: whatever must look at a whole shard (growing it, finding something
//! to evict) takes microseconds, however many keys there are.
//!
//! ```text
//! mod       the store and its settings       slot      what the slots hold
//! shard     decisions behind one lock        budget    how many states there may be
//! table     open addressing                  snapshot  to bytes and back
//! tag       seeded hashing of keys           search    for room when there is none
//! sync      the lock, and prefetching        resets    what was forgotten lately
//! ```

mod budget;
mod builder;
mod resets;
mod search;
mod shard;
mod slot;
mod snapshot;
mod sync;
mod table;
mod tag;

pub use builder::{MemoryStoreBuilder, OnFull};
pub use snapshot::SnapshotError;
pub use tag::Hashing;
pub(super) use tag::{KeyHash, KeyHasher};

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::algorithm::gcra::GcraView;
use crate::algorithm::{Algorithm, Wait, describe};
use crate::port::{Answer, Grant, Request, Store};
use crate::{Charged, Cost, Decision, Quota, Reason, RuleId, Rules, StoreError, StoreErrorKind, Timestamp};
use budget::{Budget, Full, Room};
use builder::Time;
use search::Search;
use shard::{Shard, Wanted};
use sync::{SpinLock, prefetch};
use tag::Tag;

/// Requests of a batch that are prefetched together: enough to hide memory's latency, few enough that the first
/// line is still there when its turn comes.
const BATCH: usize = 16;

/// The store in memory. Bounded to a million keys unless said otherwise.
///
/// ```
/// use ratekeeper::port::Request;
/// use ratekeeper::{Cost, Key, MemoryStore, Quota, Rules};
///
/// let store = MemoryStore::default();
/// let quota: Quota = "2/m".parse()?;
/// let request = Request { key: Key::new("user:42")?, rules: Rules::Quota(&quota), cost: Cost::ONE };
/// assert!(store.try_acquire(request)?.allowed);
/// assert!(store.try_acquire(request)?.allowed);
/// assert!(!store.try_acquire(request)?.allowed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MemoryStore {
    shards: Box<[Line<SpinLock<Shard>>]>,
    hasher: KeyHasher,
    budget: Budget,
    on_full: OnFull,
    time: Time,
    search: Search,
    refused: AtomicU64,
    /// What was charged before this instant is not given back: which keys were reset is not in a snapshot.
    restored_at: Timestamp,
}

/// A cache line to itself, so that neighbours do not slow each other down.
#[repr(align(64))]
#[derive(Debug, Default)]
struct Line<T>(T);

/// What the store holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// States held: one for every key and rule. Some may have expired and not been dropped yet.
    pub keys: usize,
    /// The most there may be; see [`MemoryStoreBuilder::max_keys`] for who gets one beyond.
    pub max_keys: usize,
    /// Bytes allocated for them.
    pub bytes: usize,
    /// States dropped because they had expired.
    pub expired: u64,
    /// New keys that found no place.
    pub refused: u64,
}

impl Default for MemoryStore {
    fn default() -> Self {
        MemoryStore::builder().build()
    }
}

impl MemoryStore {
    /// A store with settings of its own.
    pub fn builder() -> MemoryStoreBuilder {
        MemoryStoreBuilder::default()
    }

    /// States held; see [`Statistics::keys`].
    pub fn len(&self) -> usize {
        self.budget.taken()
    }

    /// True if nothing is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the store holds. Looks at every shard, so not for every request.
    pub fn statistics(&self) -> Statistics {
        let (mut bytes, mut expired) = (size_of_val(&*self.shards), 0);
        for shard in &self.shards {
            let shard = shard.0.lock();
            bytes += shard.heap_size();
            expired += shard.expired;
        }
        let refused = self.refused.load(Ordering::Relaxed);
        Statistics { keys: self.len(), max_keys: self.budget.most(), bytes, expired, refused }
    }

    /// Drops what has expired and gives the memory back, shard by shard: others are served in between. Tells how
    /// many states were dropped. Never needed; good for an idle process.
    pub fn sweep(&self) -> usize {
        let now = self.time.now();
        self.shards.iter().map(|shard| shard.0.lock().sweep(now, &self.budget)).sum()
    }

    /// [`Store::acquire`] for callers who know their store: the decision itself, and no answer to unwrap.
    #[inline(always)]
    pub fn try_acquire(&self, request: Request<'_>) -> Result<Decision, StoreError> {
        self.acquire_at(request, self.time.now())
    }

    /// [`Store::acquire_many`] for callers who know their store: decisions alone are appended, up to the first request
    /// that this store cannot decide, and nothing after it is asked.
    #[inline]
    pub fn try_acquire_many(
        &self,
        requests: &[Request<'_>],
        into: &mut Vec<Decision>,
    ) -> Result<(), StoreError> {
        into.reserve(requests.len());
        self.acquire_each(requests, |answer| answer.map(|decision| into.push(decision)))
    }

    /// Like [`try_acquire`](MemoryStore::try_acquire) at an instant of the caller's choosing, for simulations and for callers who read the clock once for
    /// many. Time does not go back: after a later instant, an earlier one counts as that for all keys of the same shard.
    #[inline(always)]
    pub fn acquire_at(&self, request: Request<'_>, now: Timestamp) -> Result<Decision, StoreError> {
        let hash = self.hasher.hash(request.key);
        self.acquire_hashed(hash, request, now)
    }

    #[inline(always)]
    fn acquire_hashed(
        &self,
        hash: KeyHash,
        request: Request<'_>,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        if let Some((rule, quota)) = only_gcra(request.rules) {
            let (tag, tenancy) = (hash.under(rule, quota), request.rules.tenancy());
            let known = self.shard(hash).lock().take_known(tag, quota, tenancy, request.cost, now);
            // What is left is worked out after the lock is gone.
            if let Some((view, wait)) = known {
                return Ok(taken(&view, wait, request.cost));
            }
            return self.acquire_new(hash, tag, quota, request, now);
        }
        self.acquire_slowly(hash, request, now)
    }

    /// The key is new to one GCRA quota, or was when it was looked up: somebody may have come between. Out of line,
    /// so that a known key's decision stays in registers.
    #[inline(never)]
    fn acquire_new(
        &self,
        hash: KeyHash,
        tag: Tag,
        quota: &Quota,
        request: Request<'_>,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        let mut shard = self.shard(hash).lock();
        let known = shard.take_known(tag, quota, request.rules.tenancy(), request.cost, now);
        let decided = known.or_else(|| shard.take_new(tag, quota, request.cost, now, &self.budget));
        drop(shard);
        match decided {
            Some((view, wait)) => Ok(taken(&view, wait, request.cost)),
            None => self.acquire_slowly(hash, request, now),
        }
    }

    /// The store is full, or the rules are several or of another kind.
    #[inline(never)]
    fn acquire_slowly(
        &self,
        hash: KeyHash,
        request: Request<'_>,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        self.take(hash, request.rules, Wanted::Exactly(request.cost), now).map(|grant| grant.decision)
    }

    fn take(
        &self,
        hash: KeyHash,
        rules: Rules<'_>,
        wanted: Wanted,
        now: Timestamp,
    ) -> Result<Grant, StoreError> {
        check(rules)?;
        // A place that was made free may be taken by another before this one returns for it: try as often as
        // there are rules, and once more.
        for _ in 0..=rules.len() {
            // Bound first: in a `match` the lock would be held while other shards are searched, and its own could
            // not be looked at.
            let taken = self.shard(hash).lock().take(hash, rules, wanted, now, Room::Within(&self.budget));
            match taken {
                Ok(grant) => return Ok(grant),
                Err(Full { missing }) if self.search.evict(&self.shards, missing, now, &self.budget) => {}
                Err(Full { .. }) => break,
            }
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        Ok(match self.on_full {
            OnFull::Refuse => Grant { granted: Cost::PEEK, decision: refusal(rules) },
            OnFull::Share => {
                let (hash, room) = (KeyHash::OVERFLOW, Room::Beyond(&self.budget));
                let taken = self.shard(hash).lock().take(hash, rules, wanted, now, room);
                // Beyond the bound there is room, but for a crowd of quotas.
                taken.unwrap_or(Grant { granted: Cost::PEEK, decision: refusal(rules) })
            }
        })
    }

    /// What [`take`](MemoryStore::take) would decide, also if it would find no room.
    fn look(&self, hash: KeyHash, rules: Rules<'_>, cost: Cost, now: Timestamp) -> Decision {
        let mut shard = self.shard(hash).lock();
        let decision = shard.look(hash, rules, cost, now);
        // What takes nothing needs no room.
        if !decision.allowed || cost == Cost::PEEK {
            return decision;
        }
        // Evicting is not writing: what has expired is there or not, and nobody can tell.
        let is_crowded = shard.thin_out(hash, rules, now, &self.budget).is_err();
        if !is_crowded && (!self.budget.is_full() || shard.knows(hash, rules, now)) {
            return decision;
        }
        drop(shard);
        // What has expired elsewhere is of no use to a crowded shard.
        if !is_crowded && self.search.evict(&self.shards, rules.len(), now, &self.budget) {
            return self.shard(hash).lock().look(hash, rules, cost, now);
        }
        match self.on_full {
            OnFull::Refuse => refusal(rules),
            OnFull::Share => {
                let hash = KeyHash::OVERFLOW;
                let mut shard = self.shard(hash).lock();
                let decision = shard.look(hash, rules, cost, now);
                let needs_room = decision.allowed && shard.thin_out(hash, rules, now, &self.budget).is_err();
                if needs_room { refusal(rules) } else { decision }
            }
        }
    }

    #[inline]
    fn shard(&self, hash: KeyHash) -> &SpinLock<Shard> {
        self.shard_at(hash.place)
    }

    #[inline]
    fn shard_at(&self, place: u64) -> &SpinLock<Shard> {
        // The number of shards is a power of two.
        let index = (place >> 32) as usize & (self.shards.len() - 1);
        &self.shards[index].0
    }

    /// Takes many costs by one look at the clock, and has each answer heard, until one is heard with an error.
    #[inline]
    fn acquire_each(
        &self,
        requests: &[Request<'_>],
        mut hear: impl FnMut(Result<Decision, StoreError>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let now = self.time.now();
        requests.chunks(BATCH).try_for_each(|batch| self.acquire_batch(batch, now, &mut hear))
    }

    fn acquire_batch(
        &self,
        requests: &[Request<'_>],
        now: Timestamp,
        hear: &mut impl FnMut(Result<Decision, StoreError>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut hashes = [KeyHash::OVERFLOW; BATCH];
        // One pass each: a lock waits for all reads before it, so keys that are hashed between locks are fetched
        // from memory one by one, and keys that are hashed in a row all at once.
        requests.iter().for_each(|request| prefetch(request.key.as_bytes()));
        for (hash, request) in hashes.iter_mut().zip(requests) {
            *hash = self.hasher.hash(request.key);
        }
        for (hash, request) in hashes.iter().zip(requests) {
            if let Some((rule, quota)) = only_gcra(request.rules) {
                self.shard(*hash).lock().instants.prefetch(hash.under(rule, quota));
            }
        }
        for (hash, request) in hashes.iter().zip(requests) {
            hear(self.acquire_hashed(*hash, *request, now))?;
        }
        Ok(())
    }
}

/// The decision on a cost that was asked of one GCRA, and taken if it was ready.
#[inline(always)]
fn taken(view: &GcraView<'_>, wait: Wait, cost: Cost) -> Decision {
    describe(view, wait).taken(cost, view.now())
}

/// What a new key is told when there is no place for it.
fn refusal(rules: Rules<'_>) -> Decision {
    let limit = rules.iter().map(|(_, quota)| quota.burst()).min().unwrap_or(0);
    Decision::uninformed(false, limit, Reason::StoreFull)
}

/// The one rule, if there is one and it is GCRA.
#[inline]
fn only_gcra(rules: Rules<'_>) -> Option<(RuleId, &Quota)> {
    let (rule, quota) = match rules {
        Rules::Quota(quota) => (RuleId::AD_HOC, quota),
        Rules::Plan(plan) => match plan.rules() {
            [rule] => (rule.id(), rule.quota()),
            _ => return None,
        },
        Rules::Plans(_) => return None,
    };
    (quota.algorithm() == Algorithm::Gcra).then_some((rule, quota))
}

/// A concurrency limit counts what is in flight, and nothing here is told when a flight ends. A plan that is named
/// twice would be charged twice after it was asked once.
fn check(rules: Rules<'_>) -> Result<(), StoreError> {
    if let Rules::Plans(plans) = rules
        && (1..plans.len()).any(|index| plans[..index].iter().any(|plan| plan.name() == plans[index].name()))
    {
        return Err(StoreError::new(StoreErrorKind::Unsupported, "a request names each plan once"));
    }
    if rules.iter().any(|(_, quota)| quota.algorithm() == Algorithm::Concurrency) {
        let message =
            "a store cannot hold a concurrency limit: use `Concurrency`, whose permits are given back";
        return Err(StoreError::new(StoreErrorKind::Unsupported, message));
    }
    Ok(())
}

impl Store for MemoryStore {
    #[inline(always)]
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        Answer::ready(self.try_acquire(request))
    }

    fn acquire_up_to<'a>(&'a self, Request { key, rules, cost }: Request<'a>) -> Answer<'a, Grant> {
        let (hash, now) = (self.hasher.hash(key), self.time.now());
        Answer::ready(self.take(hash, rules, Wanted::UpTo(cost), now))
    }

    fn peek<'a>(&'a self, Request { key, rules, cost }: Request<'a>) -> Answer<'a, Decision> {
        let (hash, now) = (self.hasher.hash(key), self.time.now());
        Answer::ready(check(rules).map(|()| self.look(hash, rules, cost, now)))
    }

    fn refund<'a>(
        &'a self,
        Request { key, rules, cost }: Request<'a>,
        charged: Charged,
    ) -> Answer<'a, Decision> {
        let (hash, now) = (self.hasher.hash(key), self.time.now());
        let cost = if charged.instant(now) < self.restored_at { Cost::PEEK } else { cost };
        let refund = || self.shard(hash).lock().refund(hash, rules, cost, charged, now, &self.budget);
        Answer::ready(check(rules).map(|()| refund()))
    }

    fn reset<'a>(&'a self, Request { key, rules, .. }: Request<'a>) -> Answer<'a, u64> {
        let (hash, now) = (self.hasher.hash(key), self.time.now());
        let forget = || self.shard(hash).lock().forget(hash, rules, now, &self.budget);
        Answer::ready(check(rules).map(|()| forget()))
    }

    fn acquire_many<'a>(
        &'a self,
        requests: &'a [Request<'a>],
        into: &'a mut Vec<Result<Decision, StoreError>>,
    ) -> Answer<'a, ()> {
        into.reserve(requests.len());
        Answer::ready(self.acquire_each(requests, |answer| {
            into.push(answer);
            Ok(())
        }))
    }
}

impl fmt::Debug for MemoryStore {
    /// Counts, never keys: those are somebody's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("keys", &self.len())
            .field("max_keys", &self.budget.most())
            .field("shards", &self.shards.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::FakeClock;
    use crate::{Key, Nanos, Reason};

    /// A peek tells what an acquire would, also when only the key's shard has no room.
    #[test]
    fn a_peek_at_a_crowded_shard_is_honest() {
        let window = |millis| format!("1 per {millis}ms fixed").parse::<Quota>().unwrap();
        for policy in [OnFull::Refuse, OnFull::Share] {
            let clock = FakeClock::at(Timestamp::from_secs(1_761_884_055));
            let store = MemoryStore::builder().on_full(policy).clock(clock.clone()).build();
            // A key whose shard is not that of the state which all share who find no room.
            let overflow = store.shard(KeyHash::OVERFLOW);
            let names = (0_u8..=255).map(|number| [number]);
            let is_elsewhere = |name: &[u8; 1]| {
                !std::ptr::eq(store.shard(store.hasher.hash(Key::new(name).unwrap())), overflow)
            };
            let name = names.into_iter().find(is_elsewhere).unwrap();
            let key = Key::new(&name).unwrap();
            let last = 1_000 + shard::CROWDED;
            for millis in 1_001..=last {
                let request = Request { key, rules: Rules::Quota(&window(millis)), cost: Cost::ONE };
                assert!(store.try_acquire(request).unwrap().allowed);
            }
            let request = |quota, cost| Request { key, rules: Rules::Quota(quota), cost: Cost::new(cost) };
            let same = |quota, cost| {
                let foreseen = store.peek(request(quota, cost)).now().unwrap().unwrap();
                let decision = store.try_acquire(request(quota, cost)).unwrap();
                assert_eq!(
                    (foreseen.allowed, foreseen.reason),
                    (decision.allowed, decision.reason),
                    "{policy:?}"
                );
                decision
            };
            let (new, known) = (window(20_000), window(last));
            assert_eq!(same(&new, 1).allowed, policy == OnFull::Share);
            assert!(!same(&new, 1).allowed, "{policy:?}");
            assert_eq!(same(&known, 1).reason, Reason::QuotaExceeded);
            assert_eq!(
                same(&new, 2).reason,
                Reason::NeverFits,
                "{policy:?}: there is no room that would help"
            );
            clock.advance(Nanos::from_secs(30));
            assert!(same(&new, 1).allowed, "{policy:?}");
        }
    }
}
