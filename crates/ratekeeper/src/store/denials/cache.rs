//! The store in front of the store.

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::quality::RandomState;
use futures_util::future::{join, join_all};

use super::super::memory::{Hashing, KeyHash, KeyHasher};
use super::super::task::within;
use super::crowd::{Crowd, CrowdPlace, CrowdShare, CrowdTurn};
use super::denial::{Deniable, KnownDenial, LearntDenial};
use super::set::{DenialSet, WAYS};
use crate::clock::TimeSource;
use crate::port::{
    Answer, Charge, ChargeAction, Clock, Grant, HoldChange, HoldOutcome, HoldRequest, Judgment, Request,
    Standing, Store, Whole,
};
use crate::sync::{Arc, Mutex};
use crate::{Charged, Cost, Decision, Key, Nanos, Rules, StoreError, StoreErrorKind};

/// How long a request waits for somebody else's question.
const LONGEST_WAIT: Nanos = Nanos::from_secs(1);

/// A store that repeats the denials of the store behind it without asking again.
///
/// A key that was denied until some time is denied until then, `retry_after` counting down. A denial holds for the very
/// same rules and the very same cost: a changed quota, another plan or a smaller cost is asked for. As long as nobody else
/// refunds or resets, every request is allowed or denied just as it would be without the cache.
///
/// What is refunded or reset through this store is honoured at once; what others refund or reset, within the
/// [trust](DenialCache::trust), one second. `remaining` of a cost above one is as of the denial, and at most as old. A
/// [peek](Store::peek) always asks.
///
/// A denial that ends sooner than its answer arrives cannot be repeated: at 100,000 a second a token is there again after
/// 10 µs. Such denials are [counted](DenialStatistics::too_short), and for as long as a denial is trusted
/// after one of them, those who ask for one of the same key ask together: while one question is on its way the others wait,
/// and the next question is for all of them. Each is decided by the store after it came, as if it had asked alone; it may
/// wait a round trip longer, and `remaining` and `reset_after` are as after all of them.
///
/// Memory is bounded: a fixed number of denials, of which the one that ends first makes room. A request costs one short lock
/// and two hashes of its key.
///
/// ```
/// use ratekeeper::port::{Request, Store};
/// use ratekeeper::store::DenialCache;
/// use ratekeeper::{Cost, Key, MemoryStore, Quota, Rules};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = DenialCache::new(MemoryStore::default());
/// let quota: Quota = "1/h".parse()?;
/// let request = Request::new(Key::new("user:42")?, Rules::Quota(&quota), Cost::ONE);
/// assert!(store.acquire(request).await?.allowed);
/// for _ in 0..100 {
///     assert!(!store.acquire(request).await?.allowed);
/// }
/// assert!(store.statistics().answered > 90, "the store behind refused once a second at most");
/// # Ok(()) }
/// ```
pub struct DenialCache<S> {
    store: S,
    sets: Box<[Mutex<DenialSet>]>,
    hasher: KeyHasher,
    matters: RandomState,
    clock: TimeSource,
    trust: Nanos,
}

/// What a denial cache holds, and how often it has answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DenialStatistics {
    /// Refusals held. Some may have ended and not been dropped yet.
    pub held: usize,
    /// The most denials that are held.
    pub capacity: usize,
    /// Requests denied without asking the store.
    pub answered: u64,
    /// Denials of the store that had ended before they were heard, because their `retry_after` was shorter than the way to
    /// the store and back. They cannot be repeated: those who ask for such a key ask together, one question after another.
    pub too_short: u64,
}

impl<S: Store> DenialCache<S> {
    /// How many refusals are remembered, unless said otherwise: about a megabyte of them.
    pub const DEFAULT_CAPACITY: usize = 8_192;

    /// How long a refusal is trusted, unless said otherwise.
    pub const DEFAULT_TRUST: Nanos = Nanos::from_secs(1);

    /// Returns a cache in front of this store, by the process's clock, or tokio's in a test that has paused it.
    pub fn new(store: S) -> Self {
        DenialCache {
            store,
            sets: sets(Self::DEFAULT_CAPACITY),
            hasher: KeyHasher::random(Hashing::Fold),
            matters: RandomState::default(),
            clock: TimeSource::default(),
            trust: Self::DEFAULT_TRUST,
        }
    }

    /// Sets how many refusals are remembered at most, rounded up to a power of two.
    #[must_use]
    pub fn capacity(mut self, refusals: usize) -> Self {
        self.sets = sets(refusals);
        self
    }

    /// Sets how long a refusal is trusted at most: so long can something that others gave back or reset go unnoticed.
    #[must_use]
    pub fn trust(mut self, trust: impl Into<Nanos>) -> Self {
        self.trust = trust.into();
        self
    }

    /// Sets the clock. It need not agree with the store's: only spans are read from it.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = TimeSource::new(clock);
        self
    }

    /// Returns the store behind the cache.
    pub fn inner(&self) -> &S {
        &self.store
    }

    /// Returns what the cache holds and has answered. Takes every lock in turn.
    pub fn statistics(&self) -> DenialStatistics {
        let start = DenialStatistics { capacity: self.sets.len() * WAYS, ..DenialStatistics::default() };
        self.sets.iter().fold(start, |mut sum, set| {
            let set = set.lock();
            sum.held += set.held();
            sum.answered += set.answered();
            sum.too_short += set.too_short();
            sum
        })
    }

    /// Returns what is asked for, and by whom.
    fn inquire(&self, request: Request<'_>, cost: Cost) -> Inquiry<'_> {
        let key = self.hasher.hash(request.key);
        let mut hasher = self.matters.build_hasher();
        for (id, quota) in request.rules.iter() {
            (id, quota).hash(&mut hasher);
        }
        cost.hash(&mut hasher);
        let is_plain = request.is_plain();
        Inquiry { set: self.set_of(key), key, matter: hasher.finish(), cost, is_plain }
    }

    /// Returns what is refused already; else everything that is needed to learn from the store's answer.
    fn look_up<'a, T: Deniable>(&'a self, inquiry: Inquiry<'a>) -> Result<T, PendingLookup<'a, S>> {
        let asked = self.clock.now();
        // A cost of nothing is never refused.
        if inquiry.cost == Cost::ZERO || !inquiry.is_plain {
            let inquiry = Some(inquiry).filter(|inquiry| inquiry.is_plain);
            return Err(PendingLookup { cache: self, inquiry, version: 0, asked });
        }
        let found = inquiry.set.lock().find(inquiry.key, inquiry.matter, asked);
        found.map_err(|version| PendingLookup { cache: self, inquiry: Some(inquiry), version, asked })
    }

    /// Returns those who ask together for what is asked for, if they do.
    fn crowd_of(&self, inquiry: &Inquiry<'_>, now: crate::Timestamp) -> Option<Arc<Crowd>> {
        let is_one = inquiry.cost == Cost::ONE && inquiry.is_plain;
        is_one.then(|| inquiry.set.lock().crowd(inquiry.key, inquiry.matter, now)).flatten()
    }

    /// Asks for so many requests of cost 1, together with everybody else who asks for the same.
    async fn ask_together(
        &self,
        crowd: &Arc<Crowd>,
        request: Request<'_>,
        wanted: u64,
    ) -> Result<CrowdShare, StoreError> {
        let lead = match crowd.join(wanted) {
            CrowdPlace::Leads(lead) => lead,
            CrowdPlace::Waits(called) => match within(LONGEST_WAIT, called).await.transpose()? {
                Some(CrowdTurn::Decided(share)) => return Ok(share),
                Some(CrowdTurn::Leads(lead)) => lead,
                // Whoever asks is not heard of: its runtime may stand still.
                None => {
                    let Inquiry { set, key, matter, .. } = self.inquire(request, Cost::ONE);
                    set.lock().disperse(key, matter);
                    let grant = self.store.acquire_up_to(request, Cost::new(wanted)).await?;
                    return Ok(CrowdShare::of(&grant, wanted));
                }
            },
        };
        // Dropped in the other order: who is asked for is in the line again before the next one leads.
        let followers = lead.followers();
        let most = wanted.saturating_add(followers.requests());
        let inquiry = self.inquire(request, Cost::ONE);
        let version = inquiry.set.lock().version();
        let asked = PendingLookup { cache: self, inquiry: Some(inquiry), version, asked: self.clock.now() };
        match self.store.acquire_up_to(request, Cost::new(most)).await {
            Ok(grant) => {
                asked.learn_together(&grant, most);
                Ok(followers.share_out(&grant, wanted))
            }
            Err(error) => {
                followers.fail(&error);
                Err(error)
            }
        }
    }

    fn acquire_or_refuse<'a, T: Deniable + Send + 'a>(
        &'a self,
        inquiry: Inquiry<'a>,
        question: impl FnOnce(&'a S) -> Answer<'a, T>,
    ) -> Answer<'a, T> {
        let asked = match self.look_up(inquiry) {
            Ok(refused) => return Answer::ready(Ok(refused)),
            Err(asked) => asked,
        };
        let learn = move |answer: Result<T, StoreError>| {
            if let Ok(outcome) = &answer {
                asked.learn(outcome);
            }
            answer
        };
        match question(&self.store).now() {
            Ok(answer) => Answer::ready(learn(answer)),
            Err(pending) => Answer::later(async move { learn(pending.await) }),
        }
    }

    /// Asks something after which refusals hold no more, whatever is answered, and even if nobody waits for the answer:
    /// `forget` is dropped then.
    fn forgetting<'a, T: Send + 'a>(
        &'a self,
        forget: impl Send + 'a,
        question: impl FnOnce(&'a S) -> Answer<'a, T>,
    ) -> Answer<'a, T> {
        match question(&self.store).now() {
            Ok(answer) => {
                drop(forget);
                Answer::ready(answer)
            }
            Err(pending) => Answer::later(async move {
                let answer = pending.await;
                drop(forget);
                answer
            }),
        }
    }
}

impl<S: Store> DenialCache<S> {
    /// Returns which of the requests that are not refused already ask together. The requests of one key are decided in order,
    /// so only if they all ask for the same.
    fn crowds_of(
        &self,
        requests: &[Request<'_>],
        looked_up: &[Result<Decision, PendingLookup<'_, S>>],
    ) -> Vec<MemberCrowd> {
        let unanswered = || {
            let asked = looked_up.iter().map(|found| found.as_ref().err()?.inquiry.as_ref());
            asked.enumerate().filter_map(|(index, inquiry)| Some((index, inquiry?)))
        };
        let mut crowds: Vec<MemberCrowd> = Vec::new();
        for (index, inquiry) in unanswered() {
            let key = requests[index].key;
            if let Some(same) = crowds.iter_mut().find(|crowd| requests[crowd.members[0]].key == key) {
                same.members.push(index);
            } else if let Some(crowd) = self.crowd_of(inquiry, self.clock.now()) {
                crowds.push(MemberCrowd { crowd, members: vec![index] });
            }
        }
        let is_same = |key: Key<'_>, matter: u64| {
            looked_up.iter().zip(requests).all(|(found, request)| {
                let inquiry = found.as_ref().err().and_then(|asked| asked.inquiry.as_ref());
                request.key != key || found.is_ok() || inquiry.is_some_and(|inquiry| inquiry.matter == matter)
            })
        };
        crowds.retain(|crowd| {
            let first = crowd.members[0];
            let inquiry = looked_up[first].as_ref().err().and_then(|asked| asked.inquiry.as_ref());
            inquiry.is_some_and(|inquiry| is_same(requests[first].key, inquiry.matter))
        });
        crowds
    }
}

impl<S> DenialCache<S> {
    /// Returns the refusals among which this key's are.
    fn set_of(&self, key: KeyHash) -> &Mutex<DenialSet> {
        // The low bits choose: the number of sets is a power of two.
        let low = usize::try_from(key.place & (self.sets.len() as u64 - 1)).unwrap_or(0);
        &self.sets[low]
    }
}

fn sets(refusals: usize) -> Box<[Mutex<DenialSet>]> {
    let count = refusals.div_ceil(WAYS).clamp(1, 1 << 24).next_power_of_two();
    std::iter::repeat_with(|| Mutex::new(DenialSet::default())).take(count).collect()
}

/// The key, rules and cost of a request, and the lock that its denials are behind.
#[derive(Clone, Copy)]
struct Inquiry<'a> {
    set: &'a Mutex<DenialSet>,
    key: KeyHash,
    /// The hash of rules and cost.
    matter: u64,
    cost: Cost,
    is_plain: bool,
}

/// A question that is on its way to the store.
struct PendingLookup<'a, S> {
    cache: &'a DenialCache<S>,
    /// None for what is not plain, from which nothing is learnt.
    inquiry: Option<Inquiry<'a>>,
    version: u64,
    asked: crate::Timestamp,
}

impl<S> PendingLookup<'_, S> {
    fn learn(&self, answer: &impl Deniable) {
        let Some(inquiry) = &self.inquiry else { return };
        let decision = answer.decision();
        if decision.allowed {
            if answer.granted(inquiry.cost) != Cost::ZERO {
                inquiry.set.lock().taken(inquiry.key);
            }
            return;
        }
        // Part of a cost may be refused while there is something left: that says nothing about a cost of one.
        if inquiry.cost == Cost::ONE && decision.remaining > 0 {
            return;
        }
        let heard = self.cache.clock.now();
        match KnownDenial::of(answer, self.asked, heard, self.cache.trust) {
            LearntDenial::Lasting(refusal) => {
                inquiry.set.lock().remember(inquiry.key, inquiry.matter, refusal, self.version);
            }
            LearntDenial::TooShort => {
                let mut set = inquiry.set.lock();
                set.count_too_short();
                if inquiry.cost == Cost::ONE {
                    set.gather(inquiry.key, inquiry.matter, heard + self.cache.trust);
                }
            }
            LearntDenial::Nothing => {}
        }
    }

    /// Learns from what was granted to many. If that was not enough for all, one more would have been refused.
    fn learn_together(&self, grant: &Grant, most: u64) {
        self.learn(grant);
        if (1..most).contains(&grant.granted.get()) {
            self.learn(&grant.next);
        }
    }
}

/// Forgets a key's refusals when dropped.
struct ForgetKey<'a>(Inquiry<'a>);

impl Drop for ForgetKey<'_> {
    fn drop(&mut self) {
        self.0.set.lock().forget(self.0.key);
    }
}

/// Forgets the refusals of keys that were charged when dropped.
struct ForgetCharged<'a, S> {
    cache: &'a DenialCache<S>,
    charges: &'a [Charge<'a>],
}

impl<S> Drop for ForgetCharged<'_, S> {
    fn drop(&mut self) {
        for charge in self.charges {
            let key = self.cache.hasher.hash(charge.request.key);
            let mut set = self.cache.set_of(key).lock();
            match charge.action {
                // What was to be ignored may have been taken, refused to others, and given back.
                ChargeAction::GiveBack | ChargeAction::Ignore => set.forget(key),
                ChargeAction::Count => set.taken(key),
            }
        }
    }
}

/// Forgets all refusals when dropped.
struct ForgetAll<'a>(&'a [Mutex<DenialSet>]);

impl Drop for ForgetAll<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|set| set.lock().forget_all());
    }
}

/// What is not plain is not remembered: how much is asked of each rule is not in the cost, and rules in shadow want to
/// be asked. What a debit charges makes no refusal wrong, and what a hold gives back when it ends is forgotten here.
impl<S: Store> Store for DenialCache<S> {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        if !request.is_plain() {
            return self.store.acquire(request);
        }
        let inquiry = self.inquire(request, request.cost);
        match self.crowd_of(&inquiry, self.clock.now()) {
            Some(crowd) => match self.look_up(inquiry) {
                Ok(refused) => Answer::ready(Ok(refused)),
                Err(_) => {
                    Answer::later(async move { Ok(self.ask_together(&crowd, request, 1).await?.decision(0)) })
                }
            },
            None => self.acquire_or_refuse(inquiry, |store| store.acquire(request)),
        }
    }

    /// Refused is who cannot even have the least, until that can be had: the same refusal as that of an acquire of the least.
    /// One that was learnt from an acquire does not know what comes after it, and the store is asked once more.
    fn acquire_up_to<'a>(&'a self, request: Request<'a>, most: Cost) -> Answer<'a, Grant> {
        if !request.is_plain() {
            return self.store.acquire_up_to(request, most);
        }
        self.acquire_or_refuse(self.inquire(request, request.cost), |store| {
            store.acquire_up_to(request, most)
        })
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        let inquiry = self.inquire(request, request.cost);
        // An allowed peek where a refusal is held means that somebody else gave back: believe the store.
        let learn = move |answer: Result<Decision, StoreError>| {
            if answer.as_ref().is_ok_and(|decision| decision.allowed) {
                inquiry.set.lock().taken(inquiry.key);
            }
            answer
        };
        match self.store.peek(request).now() {
            Ok(answer) => Answer::ready(learn(answer)),
            Err(pending) => Answer::later(async move { learn(pending.await) }),
        }
    }

    fn acquire_each<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        self.store.acquire_each(request)
    }

    fn peek_each<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        self.store.peek_each(request)
    }

    fn debit<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        self.store.debit(request)
    }

    /// Always asked, because what is counted counts however often it is over. What is given back is forgotten here, and what is
    /// charged changes how long others must wait.
    fn charge<'a>(&'a self, charges: &'a [Charge<'a>], whole: Whole) -> Answer<'a, Judgment> {
        self.forgetting(ForgetCharged { cache: self, charges }, |store| store.charge(charges, whole))
    }

    fn hold<'a>(&'a self, hold: HoldRequest<'a>) -> Answer<'a, Standing> {
        self.store.hold(hold)
    }

    fn change_hold<'a>(&'a self, change: HoldChange<'a>) -> Answer<'a, HoldOutcome> {
        let inquiry = self.inquire(Request::new(change.key, Rules::Plans(&[]), Cost::ZERO), Cost::ZERO);
        self.forgetting(ForgetKey(inquiry), |store| store.change_hold(change))
    }

    fn refund<'a>(&'a self, request: Request<'a>, charged: Charged) -> Answer<'a, Decision> {
        let forget = ForgetKey(self.inquire(request, request.cost));
        self.forgetting(forget, |store| store.refund(request, charged))
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, u64> {
        let forget = ForgetKey(self.inquire(request, request.cost));
        self.forgetting(forget, |store| store.reset(request))
    }

    /// Which keys these are is not known here: all refusals are forgotten.
    fn forget<'a>(&'a self, prefix: &'a [u8]) -> Answer<'a, u64> {
        self.forgetting(ForgetAll(&self.sets), |store| store.forget(prefix))
    }

    fn acquire_many<'a>(
        &'a self,
        requests: &'a [Request<'a>],
        into: &'a mut Vec<Result<Decision, StoreError>>,
    ) -> Answer<'a, ()> {
        Answer::later(async move {
            let looked_up: Vec<Result<Decision, _>> =
                requests.iter().map(|request| self.look_up(self.inquire(*request, request.cost))).collect();
            let crowds = self.crowds_of(requests, &looked_up);
            let is_alone = |index: &usize| !crowds.iter().any(|crowd| crowd.members.contains(index));
            let unanswered = looked_up.iter().enumerate().filter(|(_, found)| found.is_err());
            let alone: Vec<usize> = unanswered.map(|(index, _)| index).filter(is_alone).collect();
            let asked: Vec<Request<'_>> = alone.iter().map(|index| requests[*index]).collect();
            let mut answers = Vec::with_capacity(asked.len());
            let ask_alone = async {
                match asked.is_empty() {
                    true => Ok(()),
                    false => self.store.acquire_many(&asked, &mut answers).await,
                }
            };
            let ask_together = join_all(crowds.iter().map(|MemberCrowd { crowd, members }| {
                self.ask_together(crowd, requests[members[0]], members.len() as u64)
            }));
            let (outcome, shares) = join(ask_alone, ask_together).await;
            let mut found: Vec<Option<Result<Decision, StoreError>>> =
                looked_up.iter().map(|found| found.as_ref().ok().map(|refused| Ok(*refused))).collect();
            for (MemberCrowd { members, .. }, share) in crowds.iter().zip(shares) {
                for (position, index) in members.iter().enumerate() {
                    let share = share.as_ref().map_err(StoreError::without_source);
                    found[*index] = Some(share.map(|share| share.decision(position as u64)));
                }
            }
            // A store that failed as a whole has answered the first of them.
            for (index, answer) in alone.into_iter().zip(answers) {
                if let (Ok(decision), Err(asked)) = (&answer, &looked_up[index]) {
                    asked.learn(decision);
                }
                found[index] = Some(answer);
            }
            // Those who asked together have their answers, whatever became of the others.
            let failed = outcome.as_ref().err();
            let message = "the store answered fewer requests than it was asked";
            into.extend(found.into_iter().map(|answer| {
                let untold = || StoreError::new(StoreErrorKind::Other, message);
                answer.unwrap_or_else(|| Err(failed.map_or_else(untold, StoreError::without_source)))
            }));
            Ok(())
        })
    }
}

/// Requests of a batch that ask together, with others who do.
struct MemberCrowd {
    crowd: Arc<Crowd>,
    /// Where they are among all requests, in order; at least one.
    members: Vec<usize>,
}

impl<S: fmt::Debug> fmt::Debug for DenialCache<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DenialCache")
            .field("store", &self.store)
            .field("trust", &self.trust)
            .finish_non_exhaustive()
    }
}
