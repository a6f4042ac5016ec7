//! The store: which shard a request falls to, and what happens when it is full.

use std::fmt;
use std::future::poll_fn;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use super::budget::{Allowance, Budget, Full};
use super::search::Search;
use super::shard::Subject;
use super::shards::{ShardHandle, Shards};
use super::statistics::StoreStatistics;
use super::sync::prefetch;
use super::tag::{KeyHash, KeyHasher, Tag};
use crate::algorithm::gcra::GcraView;
use crate::algorithm::{Wait, describe};
use crate::clock::TimeSource;
use crate::port::{
    Answer, Charge, Grant, HoldChange, HoldOutcome, HoldRequest, Judgment, Request, Standing, Store, Whole,
};
use crate::store::on_full::OnFull;
use crate::{
    Algorithm, Charged, Cost, Decision, Plan, Quota, Reason, RuleId, Rules, StoreError, StoreErrorKind,
    Timestamp,
};

/// Requests of a batch that are prefetched together: enough to hide memory's latency, few enough that the first
/// line is still there when its turn comes.
const BATCH: usize = 16;

/// Shards in which keys are forgotten before others may run: about a millisecond.
const SHARDS_AT_ONCE: usize = 4;

/// The store in memory. Bounded to a million keys unless said otherwise.
///
/// ```
/// use ratekeeper::port::{Request, Store};
/// use ratekeeper::{Cost, Key, MemoryStore, Quota, Rules};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = MemoryStore::default();
/// let quota: Quota = "2/m".parse()?;
/// let request = Request::new(Key::new("user:42")?, Rules::Quota(&quota), Cost::ONE);
/// assert!(store.acquire(request).await?.allowed);
/// assert!(store.acquire(request).await?.allowed);
/// // Its answers are always there: without a runtime, ask for them now.
/// assert!(matches!(store.acquire(request).now(), Ok(Ok(decision)) if !decision.allowed));
/// # Ok(()) }
/// ```
pub struct MemoryStore {
    pub(super) shards: Shards,
    pub(super) hasher: KeyHasher,
    pub(super) budget: Budget,
    pub(super) keeps_keys: bool,
    pub(super) on_full: OnFull,
    pub(super) clock: TimeSource,
    pub(super) search: Search,
    pub(super) refused: AtomicU64,
    pub(super) refused_of_requests: AtomicU64,
    /// What was charged before this instant is not given back: which keys were reset is not in a snapshot.
    pub(super) restored_at: Timestamp,
}

impl MemoryStore {
    /// Returns the number of states held; see [`StoreStatistics::keys`].
    pub fn len(&self) -> usize {
        self.budget.taken().states
    }

    /// Returns true if nothing is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns what the store holds. Reads counters, and takes no lock.
    pub fn statistics(&self) -> StoreStatistics {
        let taken = self.budget.taken();
        StoreStatistics {
            keys: taken.states,
            max_keys: self.budget.most(),
            keys_of_requests: taken.brought,
            bytes: taken.bytes,
            max_bytes: self.budget.most_bytes(),
            bytes_of_requests: taken.brought_bytes,
            kept_for_plans: self.budget.kept(),
            expired: self.budget.expired(),
            refused: self.refused.load(Ordering::Relaxed),
            refused_of_requests: self.refused_of_requests.load(Ordering::Relaxed),
        }
    }

    /// Drops expired states, and [kept keys](super::MemoryStoreBuilder::keep_keys) that have no state any more, and gives the
    /// memory back, shard by shard: others are served in between. Returns how many states were dropped. Never needed; good
    /// for an idle process. Holds each lock for some microseconds.
    pub fn sweep(&self) -> usize {
        let now = self.clock.now();
        self.shards.iter().map(|shard| shard.lock().tidy(now, &self.budget)).sum()
    }

    /// Changes the percentage that is [kept for plans](super::MemoryStoreBuilder::kept_for_plans), from now on: what quotas of
    /// requests have taken already, they keep until it expires.
    pub fn keep_for_plans(&self, percent: u8) {
        self.budget.keep(percent);
    }

    /// Takes the cost as [`acquire`](Store::acquire) does, at an instant of the caller's choosing: for simulations, and for
    /// callers who read the clock once for many. Time does not go back: after something was taken, given back or forgotten at
    /// a later instant, an earlier one counts as that for all keys of the same shard.
    ///
    /// # Errors
    ///
    /// If this store cannot decide the rules: a concurrency limit is among them, or a plan is named twice.
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
        let only = only_gcra(&request).map(|(rule, quota)| (hash.under(rule, quota), quota));
        if let Some((tag, quota)) = only {
            let tenancy = request.rules.tenancy();
            // What is left is worked out after the lock is gone.
            if let Some((view, wait)) = self.shard(hash).take_known(tag, quota, tenancy, request.cost, now) {
                return Ok(taken(&view, wait, request.cost));
            }
        }
        let otherwise = match only {
            Some((tag, quota)) => self.acquire_new(hash, tag, quota, request, now),
            None => self.acquire_slowly(hash, request, now),
        };
        // Looked at, so that it has memory of its own. Otherwise those calls write to the memory of whoever called this, and
        // then the decision above goes through memory as well: it is written in words and read again in vectors, which
        // have to wait for the words. That is ten nanoseconds of fifty.
        black_box(&otherwise);
        otherwise
    }

    /// Decides on a key that is new to one GCRA quota, or was when it was looked up: somebody may have come between. Out of line,
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
        let subject = self.subject(hash, request);
        let decided = known.or_else(|| shard.take_new(&subject, tag, quota, request.cost, now, &self.budget));
        drop(shard);
        match decided {
            Some((view, wait)) => Ok(taken(&view, wait, request.cost)),
            None => self.acquire_slowly(hash, request, now),
        }
    }

    /// Decides when the store is full, or the rules are several or of another algorithm.
    #[inline(never)]
    fn acquire_slowly(
        &self,
        hash: KeyHash,
        request: Request<'_>,
        now: Timestamp,
    ) -> Result<Decision, StoreError> {
        self.take(&self.subject(hash, request), now, &mut |_| {})
    }

    pub(super) fn subject<'a>(&self, hash: KeyHash, request: Request<'a>) -> Subject<'a> {
        Subject { hash, request, kept: self.keeps_keys.then_some(request.key), is_hold: false }
    }

    fn take(
        &self,
        subject: &Subject<'_>,
        now: Timestamp,
        tell: &mut impl FnMut(Decision),
    ) -> Result<Decision, StoreError> {
        check(&subject.request)?;
        let taken = self.with_room(subject, now, |subject, room| {
            self.shard(subject.hash).lock().take(subject, now, room, &self.budget, tell)
        });
        Ok(taken.unwrap_or_else(|| refusal(subject.request.rules)))
    }

    fn take_up_to(&self, subject: &Subject<'_>, most: Cost, now: Timestamp) -> Result<Grant, StoreError> {
        subject.request.check_up_to()?;
        check_rules(subject.request.rules)?;
        let taken = self.with_room(subject, now, |subject, room| {
            self.shard(subject.hash).lock().take_up_to(subject, most, now, room, &self.budget)
        });
        Ok(match taken {
            Some((grant, true)) => grant,
            // Room may be made elsewhere, for which no lock may be held: as a peek does.
            Some((grant, false)) => {
                let one = Subject { request: subject.request.at_cost(Cost::ONE), ..*subject };
                Grant { next: self.look(&one, grant.at, &mut |_| {}), ..grant }
            }
            None => {
                let refused = Grant::without_state(Cost::ZERO, refusal(subject.request.rules));
                Grant { at: now, ..refused }
            }
        })
    }

    /// Does something that needs room, which is made if there is none. None if there is none to be made.
    pub(super) fn with_room<T>(
        &self,
        subject: &Subject<'_>,
        now: Timestamp,
        mut ask: impl FnMut(&Subject<'_>, Allowance) -> Result<T, Full>,
    ) -> Option<T> {
        // A place that was made free may be taken by another before this one returns for it: try as often as
        // there are rules, and once more.
        let mut full = Full::Crowded;
        for _ in 0..=subject.request.rules.len() {
            // No lock is held while other shards are searched, or its own could not be looked at.
            full = match ask(subject, Allowance::Within) {
                Ok(answer) => return Some(answer),
                Err(full) => full,
            };
            if !self.search_for(full, now) {
                break;
            }
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        if let Rules::Quota(_) = subject.request.rules {
            self.refused_of_requests.fetch_add(1, Ordering::Relaxed);
        }
        // What is held is ended by its key, and nobody else's stands in for it.
        if self.on_full == OnFull::Refuse || subject.is_hold || matches!(full, Full::Known(_)) {
            return None;
        }
        let subject = Subject { hash: KeyHash::OVERFLOW, kept: None, ..*subject };
        // Beyond the bound there is room, but for a crowd of quotas and for very long logs.
        ask(&subject, Allowance::Beyond).ok()
    }

    /// Looks elsewhere for what was missing. True if it is there now.
    pub(super) fn search_for(&self, full: Full, now: Timestamp) -> bool {
        match full {
            Full::Store(needs) => {
                self.search.make_room(&self.shards, needs, Allowance::Within, now, &self.budget)
            }
            Full::Known(needs) => {
                self.search.make_room(&self.shards, needs, Allowance::Known, now, &self.budget)
            }
            // What has expired elsewhere is of no use to a crowded shard.
            Full::Crowded => false,
        }
    }

    /// Returns what an acquire would be told, or under a plan that only holds can take, what a hold would.
    fn peek_told(
        &self,
        subject: &Subject<'_>,
        now: Timestamp,
        tell: &mut impl FnMut(Decision),
    ) -> Result<Decision, StoreError> {
        if !subject.request.rules.plans().any(Plan::has_places) {
            return check(&subject.request).map(|()| self.look(subject, now, tell));
        }
        subject.request.check_hold()?;
        check_rules(subject.request.rules).map(|()| self.look_held(subject, now, tell))
    }

    /// Returns what [`take`](MemoryStore::take) would decide, also if it would find no room.
    fn look(&self, subject: &Subject<'_>, now: Timestamp, tell: &mut impl FnMut(Decision)) -> Decision {
        let mut look = |subject: &Subject<'_>, room| {
            let mut shard = self.shard(subject.hash).lock();
            shard.lapse(now, &self.budget);
            let decision = shard.look(subject, now, tell);
            // What takes nothing needs no room.
            if !decision.allowed || !subject.takes() {
                return Ok(decision);
            }
            shard.has_room(subject, room, now, &self.budget).map(|()| decision)
        };
        let full = match look(subject, Allowance::Within) {
            Ok(decision) => return decision,
            Err(full) => full,
        };
        if self.search_for(full, now) {
            return self.shard(subject.hash).lock().look(subject, now, tell);
        }
        if self.on_full == OnFull::Refuse || matches!(full, Full::Known(_)) {
            return refusal(subject.request.rules);
        }
        let subject = Subject { hash: KeyHash::OVERFLOW, kept: None, ..*subject };
        look(&subject, Allowance::Beyond).unwrap_or_else(|_| refusal(subject.request.rules))
    }

    /// Returns what is told by each rule, and what they have told: as often as something was asked again, from the start.
    fn standing(
        &self,
        request: &Request<'_>,
        ask: impl FnOnce(&mut dyn FnMut(Decision)) -> Result<(Decision, u64), StoreError>,
    ) -> Result<Standing, StoreError> {
        let mut each = Vec::new();
        let (decision, forgiven) = ask(&mut |decision| each.push(decision))?;
        // Only the last time counts, when there was room. Without any, each rule says what all do.
        each.drain(..each.len().saturating_sub(request.rules.len()));
        if each.len() < request.rules.len() || !decision.reason.is_informed() {
            each = vec![decision; request.rules.len()];
        }
        Ok(Standing { decision, each, forgiven })
    }

    /// Forgets every key that starts like this, some shards at a time.
    async fn forget_keys(&self, prefix: &[u8]) -> Result<u64, StoreError> {
        if !self.keeps_keys {
            let message = "keep_keys: false; the store in memory has only hashes of its keys: build it with `keep_keys(true)`";
            return Err(StoreError::new(StoreErrorKind::Unsupported, message));
        }
        let mut forgotten = 0;
        for index in 0..self.shards.len() {
            forgotten += self.shards.at(index).lock().forget(prefix, self.clock.now(), &self.budget);
            if (index + 1).is_multiple_of(SHARDS_AT_ONCE) {
                let_others_run().await;
            }
        }
        Ok(forgotten)
    }

    /// Returns the shard of a key. All rules of a key fall to one, so that one lock covers a decision.
    #[inline(always)]
    pub(super) fn shard(&self, hash: KeyHash) -> ShardHandle<'_> {
        self.shards.of(hash.place)
    }

    /// Takes up to [`BATCH`] costs at one instant.
    fn acquire_batch(
        &self,
        requests: &[Request<'_>],
        now: Timestamp,
        into: &mut Vec<Result<Decision, StoreError>>,
    ) {
        let mut hashes = [KeyHash::OVERFLOW; BATCH];
        // One pass each: a lock waits for all reads before it, so keys that are hashed between locks are fetched
        // from memory one by one, and keys that are hashed in a row all at once.
        requests.iter().for_each(|request| prefetch(request.key.as_bytes()));
        for (hash, request) in hashes.iter_mut().zip(requests) {
            *hash = self.hasher.hash(request.key);
        }
        for (hash, request) in hashes.iter().zip(requests) {
            if let Some((rule, quota)) = only_gcra(request) {
                self.shard(*hash).prefetch(hash.under(rule, quota));
            }
        }
        for (hash, request) in hashes.iter().zip(requests) {
            into.push(self.acquire_hashed(*hash, *request, now));
        }
    }
}

/// Lets the thread's other tasks run, whatever runtime this is in.
async fn let_others_run() {
    let mut has_run = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_run, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Returns the decision on a cost that was asked of one GCRA, and taken if it was ready.
#[inline(always)]
fn taken(view: &GcraView<'_>, wait: Wait, cost: Cost) -> Decision {
    describe(view, wait).taken(cost, view.now())
}

/// Returns what a new key is told when there is no place for it.
pub(super) fn refusal(rules: Rules<'_>) -> Decision {
    let limit = rules.iter().map(|(_, quota)| quota.burst()).min().unwrap_or(0);
    Decision::uninformed(false, limit, Reason::StoreFull)
}

/// Returns the one rule, if there is one, it is GCRA, and a plain cost is asked of it.
#[inline]
fn only_gcra<'a>(request: &Request<'a>) -> Option<(RuleId, &'a Quota)> {
    let (rule, quota) = match request.rules {
        Rules::Quota(quota) => (RuleId::AD_HOC, quota),
        Rules::Plan(plan) => match plan.rules() {
            [rule] if plan.is_plain() => (rule.id(), rule.quota()),
            _ => return None,
        },
        Rules::Plans(_) => return None,
    };
    (quota.algorithm() == Algorithm::Gcra && request.units.is_empty()).then_some((rule, quota))
}

/// Refuses what this store cannot decide: amounts that the rules cannot be asked for, and a quota of concurrency, of which
/// nobody says when a flight ends.
pub(super) fn check(request: &Request<'_>) -> Result<(), StoreError> {
    request.check()?;
    check_rules(request.rules)
}

/// Refuses rules that this store cannot decide. A plan that is named twice would be charged twice after it was asked once.
pub(super) fn check_rules(rules: Rules<'_>) -> Result<(), StoreError> {
    let unsupported = |message| Err(StoreError::new(StoreErrorKind::Unsupported, message));
    if let Rules::Plans(plans) = rules {
        let names_again =
            |index: &usize| plans[..*index].iter().any(|plan| plan.name() == plans[*index].name());
        if let Some(twice) = (1..plans.len()).find(names_again) {
            let name = plans[twice].name();
            return unsupported(format!("plans: `{name}` twice; a request names each plan once"));
        }
    }
    if let Rules::Quota(quota) = rules
        && quota.algorithm() == Algorithm::Concurrency
    {
        let remedy = "what is in flight is counted by holds of a plan, or by the permits of `Concurrency`";
        return unsupported(format!("quota: `{quota}`; {remedy}"));
    }
    Ok(())
}

impl Store for MemoryStore {
    #[inline(always)]
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        Answer::ready(self.acquire_at(request, self.clock.now()))
    }

    fn acquire_up_to<'a>(&'a self, request: Request<'a>, most: Cost) -> Answer<'a, Grant> {
        let subject = self.subject(self.hasher.hash(request.key), request);
        Answer::ready(self.take_up_to(&subject, most, self.clock.now()))
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        let subject = self.subject(self.hasher.hash(request.key), request);
        Answer::ready(self.peek_told(&subject, self.clock.now(), &mut |_| {}))
    }

    fn acquire_each<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        let (subject, now) = (self.subject(self.hasher.hash(request.key), request), self.clock.now());
        Answer::ready(
            self.standing(&request, |mut tell| {
                self.take(&subject, now, &mut tell).map(|decision| (decision, 0))
            }),
        )
    }

    fn peek_each<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        let (subject, now) = (self.subject(self.hasher.hash(request.key), request), self.clock.now());
        Answer::ready(self.standing(&request, |mut tell| {
            self.peek_told(&subject, now, &mut tell).map(|decision| (decision, 0))
        }))
    }

    fn debit<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        let (subject, now) = (self.subject(self.hasher.hash(request.key), request), self.clock.now());
        Answer::ready(self.standing(&request, |mut tell| {
            check(&request)?;
            let debited = self.with_room(&subject, now, |subject, room| {
                self.shard(subject.hash).lock().debit(subject, now, room, &self.budget, &mut tell)
            });
            Ok(debited.unwrap_or_else(|| (refusal(request.rules), 0)))
        }))
    }

    fn charge<'a>(&'a self, charges: &'a [Charge<'a>], whole: Whole) -> Answer<'a, Judgment> {
        Answer::ready(self.charge_at(charges, whole, self.clock.now()))
    }

    fn hold<'a>(&'a self, hold: HoldRequest<'a>) -> Answer<'a, Standing> {
        Answer::ready(self.hold_at(&hold, self.clock.now()))
    }

    fn change_hold<'a>(&'a self, change: HoldChange<'a>) -> Answer<'a, HoldOutcome> {
        Answer::ready(self.change_hold_at(&change, self.clock.now()))
    }

    fn refund<'a>(&'a self, request: Request<'a>, charged: Charged) -> Answer<'a, Decision> {
        let (mut subject, now) = (self.subject(self.hasher.hash(request.key), request), self.clock.now());
        if let Err(error) = check(&request) {
            return Answer::ready(Err(error));
        }
        if charged.instant(now) < self.restored_at {
            subject.request = Request::new(request.key, request.rules, Cost::ZERO);
        }
        Answer::ready(Ok(self.shard(subject.hash).lock().refund(&subject, charged, now, &self.budget)))
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, u64> {
        let (subject, now) = (self.subject(self.hasher.hash(request.key), request), self.clock.now());
        let reset = || self.shard(subject.hash).lock().reset(&subject, now, &self.budget);
        Answer::ready(check_rules(request.rules).map(|()| reset()))
    }

    /// Needs [kept keys](super::MemoryStoreBuilder::keep_keys). Keys of a snapshot that was taken without them are found by the
    /// empty prefix alone, which stands for all. Lets others run every millisecond or so.
    fn forget<'a>(&'a self, prefix: &'a [u8]) -> Answer<'a, u64> {
        Answer::later(self.forget_keys(prefix))
    }

    fn acquire_many<'a>(
        &'a self,
        requests: &'a [Request<'a>],
        into: &'a mut Vec<Result<Decision, StoreError>>,
    ) -> Answer<'a, ()> {
        into.reserve(requests.len());
        // One look at the clock for all of them.
        let now = self.clock.now();
        requests.chunks(BATCH).for_each(|batch| self.acquire_batch(batch, now, into));
        Answer::ready(Ok(()))
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

    /// A key that is refused again and again is refused without the lock, which somebody else may hold; nothing else is.
    #[test]
    fn refusals_take_no_lock() {
        let clock = FakeClock::at(Timestamp::from_secs(1_000));
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let quota: Quota = "2/m".parse().unwrap();
        let request = |cost| Request::new(Key::new("hot").unwrap(), Rules::Quota(&quota), Cost::new(cost));
        let ask = |cost| store.acquire(request(cost)).now().unwrap().unwrap();
        assert!(ask(2).allowed);
        let under_lock = (0..40).fold(ask(1), |_, _| ask(1));
        let hash = store.hasher.hash(Key::new("hot").unwrap());
        let held = store.shard(hash).lock();
        assert_eq!((ask(1), under_lock.retry_after), (under_lock, Some(Nanos::from_secs(30))));
        clock.advance(Nanos::from_secs(10));
        assert_eq!(
            (ask(1).retry_after, ask(2).retry_after),
            (Some(Nanos::from_secs(20)), Some(Nanos::from_secs(50)))
        );
        let mut decisions = Vec::new();
        assert!(matches!(store.acquire_many(&[request(1); 40], &mut decisions).now(), Ok(Ok(()))));
        assert!(decisions.iter().all(|decision| decision.as_ref().is_ok_and(|decision| !decision.allowed)));
        drop(held);
        clock.advance(Nanos::from_secs(20));
        assert!(ask(1).allowed && !ask(1).allowed);
    }

    /// One long key that got window after window made every other request look at all of them.
    #[test]
    fn a_long_key_is_not_looked_for_all_the_time() {
        let store = MemoryStore::builder().keep_keys(true).build();
        let name = [b'k'; Key::MAX_LEN];
        let key = Key::new(&name).unwrap();
        let kept = || {
            let shard = store.shard(store.hasher.hash(key)).lock();
            shard.rest.as_ref().map_or(0, |rest| rest.keys.iter().count())
        };
        let (mut before, mut tidied) = (0, 0);
        for millis in 1..=4_000 {
            let quota: Quota = format!("1 per {}ms fixed", 3_600_000 + millis).parse().unwrap();
            let request = Request::new(key, Rules::Quota(&quota), Cost::ONE);
            assert!(store.acquire(request).now().unwrap().unwrap().allowed);
            let now = kept();
            tidied += u32::from(now <= before);
            before = now;
        }
        assert!((1..=400).contains(&tidied), "{tidied} times in 4,000 requests");
        assert!(before <= 64, "{before} times the same key");
    }

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
            let is_elsewhere =
                |name: &[u8; 1]| !store.shard(store.hasher.hash(Key::new(name).unwrap())).is(overflow);
            let name = names.into_iter().find(is_elsewhere).unwrap();
            let key = Key::new(&name).unwrap();
            let last = 1_000 + super::super::room::CROWDED;
            for millis in 1_001..=last {
                let quota = window(millis);
                let request = Request::new(key, Rules::Quota(&quota), Cost::ONE);
                assert!(store.acquire(request).now().unwrap().unwrap().allowed);
            }
            let request = |quota, cost| Request::new(key, Rules::Quota(quota), Cost::new(cost));
            let same = |quota, cost| {
                let foreseen = store.peek(request(quota, cost)).now().unwrap().unwrap();
                let decision = store.acquire(request(quota, cost)).now().unwrap().unwrap();
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
