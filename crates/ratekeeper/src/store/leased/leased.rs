//! The store in front of the store.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use super::instance::Instance;
use super::returns::give_back_all;
use super::statistics::LeaseStatistics;
use crate::clock::TimeSource;
use crate::port::{
    Answer, Charge, ChargeAction, Clock, Grant, HoldChange, HoldOutcome, HoldRequest, Judgment, Request,
    Standing, Store, Whole, acquire_each,
};
use crate::{Charged, Cost, Decision, Lease, Nanos, StoreError, StoreErrorKind, When};

/// A store that takes for a busy key as much at once as is asked for here in a moment, and hands it out without asking again.
///
/// Only requests under [plans with a lease](crate::Plan::lease) are leased, and of those the keys that are busy here. In any
/// span of time all instances together admit the quota and what refills in the life of a lease, at most: however many
/// instances there are, whatever they are asked for, and whichever of them crash. Fixed windows admit their limit, as
/// without leases. What answers mean then is in the semantics, Leases.
///
/// Memory is bounded: a fixed number of keys, of which one that nobody asks for makes room. A request that is paid for takes one
/// short lock and allocates nothing.
///
/// ```
/// use ratekeeper::port::{Request, Store};
/// use ratekeeper::store::Leased;
/// use ratekeeper::{Cost, Key, MemoryStore, Plan, Rules};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Leased::new(MemoryStore::default());
/// let plan = Plan::parse("api", "100000/s")?.lease("10%".parse()?)?;
/// let request = Request::new(Key::new("tenant:7")?, Rules::Plan(&plan), Cost::ONE);
/// for _ in 0..1_000 {
///     assert!(store.acquire(request).await?.allowed);
/// }
/// assert!(store.statistics().by_lease > 0, "the store behind decided only the others");
/// # Ok(()) }
/// ```
pub struct Leased<S> {
    instance: Arc<Instance<S>>,
}

impl<S: Store + 'static> Leased<S> {
    /// How many keys are leased at most, unless said otherwise.
    pub const DEFAULT_KEYS: usize = 4_096;

    /// How long a refusal is trusted, unless said otherwise.
    pub const DEFAULT_TRUST: Nanos = Nanos::from_secs(1);

    /// Returns leases in front of this store, by the process's clock, or tokio's in a test that has paused it.
    pub fn new(store: S) -> Self {
        Leased { instance: Arc::new(Instance::new(store, Self::DEFAULT_KEYS, Self::DEFAULT_TRUST)) }
    }

    /// Sets how many keys are leased at most, rounded up to a power of two.
    ///
    /// As every setting here, it counts before the first request only.
    #[must_use]
    pub fn keys(self, keys: usize) -> Self {
        self.set(|instance| instance.set_keys(keys))
    }

    /// Sets the lease of requests that bring their own quota. [`Lease::OFF`], unless said otherwise.
    #[must_use]
    pub fn lease(self, lease: Lease) -> Self {
        self.set(|instance| instance.own = lease)
    }

    /// Sets how long a refusal is trusted at most: so long can something that others gave back go unnoticed.
    #[must_use]
    pub fn trust(self, trust: impl Into<Nanos>) -> Self {
        let trust = trust.into();
        self.set(|instance| instance.trust = trust)
    }

    /// Sets the clock. It need not agree with the store's: only spans are read from it.
    #[must_use]
    pub fn clock(self, clock: impl Clock + 'static) -> Self {
        self.set(|instance| instance.clock = TimeSource::new(clock))
    }

    /// Sets what chance begins with: it tells how long this instance waits before it asks again, and no two that share a
    /// key should wait equally long. For tests that are to be the same twice; else it begins anew in each process.
    #[cfg(feature = "testkit")]
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        self.set(|instance| instance.set_seed(seed))
    }

    /// Returns the store behind.
    pub fn inner(&self) -> &S {
        &self.instance.store
    }

    /// Returns what is leased, and what became of it. Takes every lock in turn.
    pub fn statistics(&self) -> LeaseStatistics {
        self.instance.statistics()
    }

    /// Gives back what is left of all leases: for an instance that stops.
    pub async fn close(&self) {
        give_back_all(&self.instance).await;
    }

    /// Answers what is paid for in place, and asks for the rest together; the requests of one key in order.
    async fn take_many(
        &self,
        requests: &[Request<'_>],
        into: &mut Vec<Result<Decision, StoreError>>,
    ) -> Result<(), StoreError> {
        let (before, now) = (into.len(), self.instance.clock.now());
        let mut rest: Vec<(usize, Request<'_>)> = Vec::new();
        let mut keys_that_wait = HashSet::new();
        for (index, request) in requests.iter().enumerate() {
            let is_first = keys_that_wait.is_empty() || !keys_that_wait.contains(&request.key);
            let is_here = is_first && request.cost != Cost::ZERO;
            let lessee = if is_here { self.instance.lessee(request) } else { None };
            let here = lessee.and_then(|lessee| Instance::try_here(&self.instance, &lessee, now));
            into.push(here.ok_or_else(|| {
                keys_that_wait.insert(request.key);
                rest.push((before + index, *request));
                StoreError::new(StoreErrorKind::Other, String::new())
            }));
        }
        if rest.is_empty() {
            return Ok(());
        }
        let (places, requests): (Vec<_>, Vec<_>) = rest.into_iter().unzip();
        let mut answers = Vec::with_capacity(requests.len());
        acquire_each(&requests, |request| self.acquire(request), &mut answers).await?;
        for (place, answer) in places.into_iter().zip(answers) {
            into[place] = answer;
        }
        Ok(())
    }

    fn set(mut self, change: impl FnOnce(&mut Instance<S>)) -> Self {
        if let Some(instance) = Arc::get_mut(&mut self.instance) {
            change(instance);
        }
        self
    }

    /// Asks something, and does something here whatever is answered, even if nobody waits for the answer.
    fn then<'a, T: Send + 'a>(
        &'a self,
        question: impl FnOnce(&'a S) -> Answer<'a, T>,
        then: impl FnOnce(&Instance<S>) + Send + 'a,
    ) -> Answer<'a, T> {
        let then = OnDrop(Some(then), &self.instance);
        question(&self.instance.store).map(move |answer| {
            drop(then);
            answer
        })
    }
}

/// Does something when it is dropped.
struct OnDrop<'a, S, F: FnOnce(&Instance<S>)>(Option<F>, &'a Instance<S>);

impl<S, F: FnOnce(&Instance<S>)> Drop for OnDrop<'_, S, F> {
    fn drop(&mut self) {
        if let Some(then) = self.0.take() {
            then(self.1);
        }
    }
}

/// What is not an `acquire` asks the store, and is exact; what gives back ends the pause of an exhausted key here.
impl<S: Store + 'static> Store for Leased<S> {
    #[inline]
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        let lessee = self.instance.lessee(&request).filter(|_| request.cost != Cost::ZERO);
        let Some(lessee) = lessee else {
            self.instance.replace(&request);
            return self.instance.store.acquire(request);
        };
        match Instance::try_here(&self.instance, &lessee, self.instance.clock.now()) {
            Some(decision) => Answer::ready(Ok(decision)),
            None => Answer::later(Instance::take(&self.instance, lessee)),
        }
    }

    fn acquire_up_to<'a>(&'a self, request: Request<'a>, most: Cost) -> Answer<'a, Grant> {
        self.instance.store.acquire_up_to(request, most)
    }

    /// What is left here is certain; for the rest the store is asked. Takes nothing, and starts no call for a lease.
    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        let Some(lessee) = self.instance.lessee(&request) else {
            return self.instance.store.peek(request);
        };
        let is_held = self.instance.left(lessee.name) >= request.cost.get();
        let asked = if is_held { request.at_cost(Cost::ZERO) } else { request };
        let answer = self.instance.store.peek(asked);
        answer.map(move |answer| answer.map(|decision| self.instance.beside(lessee.name, decision)))
    }

    fn acquire_each<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        self.instance.store.acquire_each(request)
    }

    fn peek_each<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        self.instance.store.peek_each(request)
    }

    fn debit<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        self.instance.store.debit(request)
    }

    fn charge<'a>(&'a self, charges: &'a [Charge<'a>], whole: Whole) -> Answer<'a, Judgment> {
        let gives_back = |charge: &&Charge<'_>| charge.action == ChargeAction::GiveBack;
        self.then(
            |store| store.charge(charges, whole),
            move |here| charges.iter().filter(gives_back).for_each(|charge| here.resume(charge.request.key)),
        )
    }

    fn hold<'a>(&'a self, hold: HoldRequest<'a>) -> Answer<'a, Standing> {
        self.instance.store.hold(hold)
    }

    fn change_hold<'a>(&'a self, change: HoldChange<'a>) -> Answer<'a, HoldOutcome> {
        let key = change.key;
        self.then(|store| store.change_hold(change), move |here| here.resume(key))
    }

    /// What was paid for by a lease that has not ended can be spent here again; the rest goes to the store.
    fn refund<'a>(&'a self, request: Request<'a>, charged: Charged) -> Answer<'a, Decision> {
        if let When::At(instant) = charged.when()
            && let Some(lessee) = self.instance.lessee(&request).filter(|_| request.cost != Cost::ZERO)
            && let Some(decision) = self.instance.put_back(&lessee, instant)
        {
            return Answer::ready(Ok(decision));
        }
        self.then(|store| store.refund(request, charged), move |here| here.resume(request.key))
    }

    /// What is held here is forgotten before the store forgets, and again after it: what was taken in between is of before.
    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, u64> {
        self.then(
            |store| {
                self.instance.forget(&request);
                store.reset(request)
            },
            move |here| here.forget(&request),
        )
    }

    fn forget<'a>(&'a self, prefix: &'a [u8]) -> Answer<'a, u64> {
        self.then(
            |store| {
                self.instance.forget_all(prefix);
                store.forget(prefix)
            },
            move |here| here.forget_all(prefix),
        )
    }

    fn acquire_many<'a>(
        &'a self,
        requests: &'a [Request<'a>],
        into: &'a mut Vec<Result<Decision, StoreError>>,
    ) -> Answer<'a, ()> {
        match requests.iter().any(|request| self.instance.lessee(request).is_some()) {
            false => {
                requests.iter().for_each(|request| self.instance.replace(request));
                self.instance.store.acquire_many(requests, into)
            }
            true => Answer::later(self.take_many(requests, into)),
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for Leased<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leased").field("store", &self.instance.store).finish_non_exhaustive()
    }
}
