//! The use case: a key, the names of its plans and a cost go in, a decision comes out.
//!
//! ```text
//! resolve the plans  →  ask the store  →  if it fails, what the plans say  →  tell the observers
//! ```

mod error;
mod outcome;
mod registry;
mod ruling;

pub use error::KeeperError;
pub use registry::Registry;
pub use ruling::Ruling;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::port::{Answer, FailureMode, Observer, Plans, Request, Store};
use crate::{
    Charged, Cost, Decision, IntoKey, Key, MemoryStore, Quota, Reason, Rules, StoreError, StoreErrorKind,
};
use outcome::Outcome;
use ruling::Resolved;

/// The most plans that one request may name.
pub const MAX_PLANS: usize = 8;

/// What a request is held to: plans by name, or a quota of its own.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum HeldTo<'a> {
    /// One plan.
    Plan(&'a str),
    /// Several plans, all of which must allow.
    Plans(&'a [&'a str]),
    /// A quota that comes with the request.
    Quota(&'a Quota),
}

impl<'a> From<&'a str> for HeldTo<'a> {
    fn from(plan: &'a str) -> Self {
        HeldTo::Plan(plan)
    }
}

impl<'a> From<&'a [&'a str]> for HeldTo<'a> {
    fn from(plans: &'a [&'a str]) -> Self {
        HeldTo::Plans(plans)
    }
}

impl<'a, const N: usize> From<&'a [&'a str; N]> for HeldTo<'a> {
    fn from(plans: &'a [&'a str; N]) -> Self {
        HeldTo::Plans(plans)
    }
}

impl<'a> From<&'a Quota> for HeldTo<'a> {
    fn from(quota: &'a Quota) -> Self {
        HeldTo::Quota(quota)
    }
}

/// What becomes of a request that names a plan which does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMissingPlan {
    /// An error that names it.
    #[default]
    Fail,
    /// The request goes on without it, and the observers are told. If none of its plans exists, it is allowed.
    Skip,
    /// The same, but at least one of its plans must exist.
    RequireOne,
}

/// Keeps rates: resolves plans, asks the store, and answers when the store cannot.
///
/// ```
/// use ratekeeper::{Cost, Keeper, Key, MemoryStore, Plan, Registry};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let plans = Registry::new([Plan::parse("gold", "10/s burst 20; daily=1000/day")?]);
/// let keeper = Keeper::new(MemoryStore::default(), plans);
/// let ruling = keeper.acquire(Key::new("user:42")?, "gold", Cost::ONE).await?;
/// assert!(ruling.allowed);
/// assert_eq!(ruling.rule().map(|rule| rule.name().as_str()), Some("per-s"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Keeper {
    store: Arc<dyn Store>,
    plans: Arc<dyn Plans>,
    local: Arc<MemoryStore>,
    observers: Arc<[Arc<dyn Observer>]>,
    on_missing_plan: OnMissingPlan,
    on_store_error: FailureMode,
}

impl Keeper {
    /// A keeper of these plans over this store.
    pub fn new(store: impl Store + 'static, plans: impl Plans + 'static) -> Self {
        Self::from_arcs(Arc::new(store), Arc::new(plans))
    }

    /// The same, over what others hold too.
    pub fn from_arcs(store: Arc<dyn Store>, plans: Arc<dyn Plans>) -> Self {
        Keeper {
            store,
            plans,
            local: Arc::new(MemoryStore::builder().keep_keys(true).build()),
            observers: Arc::new([]),
            on_missing_plan: OnMissingPlan::default(),
            on_store_error: FailureMode::Error,
        }
    }

    /// What becomes of a request that names a plan which does not exist.
    #[must_use]
    pub fn on_missing_plan(mut self, policy: OnMissingPlan) -> Self {
        self.on_missing_plan = policy;
        self
    }

    /// What to answer when the store fails a request that is held to no plan; a plan has its own
    /// [mode](crate::Plan::on_store_error). The error itself, unless said otherwise.
    #[must_use]
    pub fn on_store_error(mut self, mode: FailureMode) -> Self {
        self.on_store_error = mode;
        self
    }

    /// The store that decides while the real one fails, for plans that say `local`.
    #[must_use]
    pub fn local_store(mut self, store: MemoryStore) -> Self {
        self.local = Arc::new(store);
        self
    }

    /// Returns the store that decides while the real one fails.
    pub fn local(&self) -> &MemoryStore {
        &self.local
    }

    /// Somebody to be told what happens.
    #[must_use]
    pub fn observer(mut self, observer: impl Observer + 'static) -> Self {
        self.observers =
            self.observers.iter().cloned().chain([Arc::new(observer) as Arc<dyn Observer>]).collect();
        self
    }

    /// The plans.
    pub fn plans(&self) -> &dyn Plans {
        &*self.plans
    }

    /// The store.
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Takes the cost from every rule, or from none.
    ///
    /// ```
    /// # use ratekeeper::{Keeper, MemoryStore, Plan, Registry};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let keeper = Keeper::new(MemoryStore::default(), Registry::new([Plan::parse("free", "2/h")?]));
    /// assert_eq!(keeper.acquire("user:42", "free", 1).await?.remaining, 1);
    /// # Ok(()) }
    /// ```
    pub async fn acquire<'a, K: IntoKey<'a>>(
        &self,
        key: K,
        held_to: impl Into<HeldTo<'a>>,
        cost: impl Into<Cost>,
    ) -> Result<Ruling, KeeperError> {
        let understood = self.understand(key, held_to.into(), cost.into())?;
        let answered = self.ask(understood.request(), |store, request| store.acquire(request)).await?;
        Ok(self.acquired(understood, answered))
    }

    /// [`acquire`](Keeper::acquire) from a store that answers at once. `None` from one that has to be awaited: it was
    /// not asked, and nothing was taken. For callers who would rather not make a future of what is known already.
    pub fn try_acquire<'a, K: IntoKey<'a>>(
        &self,
        key: K,
        held_to: impl Into<HeldTo<'a>>,
        cost: impl Into<Cost>,
    ) -> Option<Result<Ruling, KeeperError>> {
        let understood = match self.understand(key, held_to.into(), cost.into()) {
            Ok(understood) => understood,
            Err(error) => return Some(Err(error)),
        };
        let request = understood.request();
        let answer = asked(&*self.store, request, |store, request| store.acquire(request)).now().ok()?;
        let answered = self.or_instead(request, answer, || self.local.acquire(request));
        Some(answered.map(|answered| self.acquired(understood, answered)))
    }

    /// Takes as much of the cost as every rule allows: see [`Ruling::granted`].
    pub async fn acquire_up_to<'a, K: IntoKey<'a>>(
        &self,
        key: K,
        held_to: impl Into<HeldTo<'a>>,
        cost: impl Into<Cost>,
    ) -> Result<Ruling, KeeperError> {
        let understood = self.understand(key, held_to.into(), cost.into())?;
        let Answered { outcome: grant, locally } =
            self.ask(understood.request(), |store, request| store.acquire_up_to(request)).await?;
        self.announce(understood.request(), &grant.decision);
        Ok(Ruling::new(grant.decision, grant.granted, understood.resolved, locally))
    }

    /// What [`acquire`](Keeper::acquire) would decide. Writes nothing.
    pub async fn peek<'a, K: IntoKey<'a>>(
        &self,
        key: K,
        held_to: impl Into<HeldTo<'a>>,
        cost: impl Into<Cost>,
    ) -> Result<Ruling, KeeperError> {
        let understood = self.understand(key, held_to.into(), cost.into())?;
        let Answered { outcome, locally } =
            self.ask(understood.request(), |store, request| store.peek(request)).await?;
        Ok(Ruling::new(outcome, Cost::PEEK, understood.resolved, locally))
    }

    /// Gives back to every rule what is left of a cost that was charged then: see [`Store::refund`]. A ruling knows
    /// [when that was](Ruling::charged).
    ///
    /// What the [local store](Keeper::local_store) took goes back to that one, and what nobody took has nothing to be
    /// given back: such a ruling has no [`charged`](Ruling::charged).
    ///
    /// # Errors
    ///
    /// A store that fails is an error here, whatever the plans say: it would not be true that anything was given back.
    ///
    /// ```
    /// # use ratekeeper::{Keeper, MemoryStore, Plan, Registry};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let keeper = Keeper::new(MemoryStore::default(), Registry::new([Plan::parse("free", "2/h fixed")?]));
    /// let ruling = keeper.acquire("user:42", "free", 1).await?;
    /// if let Some(charged) = ruling.charged() {
    ///     assert_eq!(keeper.refund("user:42", "free", 1, charged).await?.remaining, 2);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn refund<'a, K: IntoKey<'a>>(
        &self,
        key: K,
        held_to: impl Into<HeldTo<'a>>,
        cost: impl Into<Cost>,
        charged: Charged,
    ) -> Result<Ruling, KeeperError> {
        let understood = self.understand(key, held_to.into(), cost.into())?;
        let refunded = self.give_back(understood.request(), charged).await;
        self.refunded(refunded, understood, charged)
    }

    /// [`refund`](Keeper::refund) to a store that answers at once, as [`try_acquire`](Keeper::try_acquire).
    pub fn try_refund<'a, K: IntoKey<'a>>(
        &self,
        key: K,
        held_to: impl Into<HeldTo<'a>>,
        cost: impl Into<Cost>,
        charged: Charged,
    ) -> Option<Result<Ruling, KeeperError>> {
        let understood = match self.understand(key, held_to.into(), cost.into()) {
            Ok(understood) => understood,
            Err(error) => return Some(Err(error)),
        };
        let refunded = self.give_back(understood.request(), charged).now().ok()?;
        Some(self.refunded(refunded, understood, charged))
    }

    /// Forgets the key under these rules. Tells how many states were forgotten. A quota stands for all quotas that
    /// requests brought for this key.
    ///
    /// # Errors
    ///
    /// A store that fails is an error here, whatever the plans say: nothing else would be true.
    pub async fn reset<'a, K: IntoKey<'a>>(
        &self,
        key: K,
        held_to: impl Into<HeldTo<'a>>,
    ) -> Result<u64, KeeperError> {
        let understood = self.understand(key, held_to.into(), Cost::PEEK)?;
        let request = understood.request();
        let forgotten = self.store.reset(request).await.map_err(|error| self.failed(error))?;
        self.local.reset(request).await.map_err(KeeperError::Store)?;
        Ok(forgotten)
    }

    /// Forgets every key that starts with these bytes, under all plans and quotas: see [`Store::forget`]. Tells how many
    /// states the store has forgotten.
    ///
    /// # Errors
    ///
    /// A store that fails, or that does not know its keys, is an error here, whatever the plans say.
    pub async fn forget(&self, prefix: &[u8]) -> Result<u64, KeeperError> {
        let forgotten = self.store.forget(prefix).await.map_err(|error| self.failed(error))?;
        // One that was set without kept keys has nothing to go by, and what it decided ends with the outage.
        match self.local.forget(prefix).await {
            Err(error) if error.kind() != StoreErrorKind::Unsupported => Err(KeeperError::Store(error)),
            _ => Ok(forgotten),
        }
    }

    /// What is answered instead of a store that failed a request to take, for callers who asked it by themselves;
    /// `None`: the error itself. The observers are told. What it took cannot be given back.
    pub fn fall_back(&self, request: Request<'_>, error: &StoreError) -> Option<Decision> {
        let answered = self.instead(request, error, || self.local.acquire(request))?;
        // A bare decision cannot tell that the local store took it, and the real one must not give it back.
        Some(answered.outcome.charged(crate::Timestamp::MIN))
    }

    /// Gives back to the store that took it.
    fn give_back<'q>(&'q self, request: Request<'q>, charged: Charged) -> Answer<'q, Decision> {
        let taker: &dyn Store = if charged.was_local() { &*self.local } else { &*self.store };
        asked(taker, request, |store, request| store.refund(request, charged))
    }

    fn refunded(
        &self,
        refunded: Result<Decision, StoreError>,
        understood: Understood<'_>,
        charged: Charged,
    ) -> Result<Ruling, KeeperError> {
        let decision = refunded.map_err(|error| self.failed(error))?;
        Ok(Ruling::new(decision, Cost::PEEK, understood.resolved, charged.was_local()))
    }

    /// The store failed, and nothing stands in for it; the observers are told.
    fn failed(&self, error: StoreError) -> KeeperError {
        self.tell(|observer| observer.store_failed(&error, None));
        KeeperError::Store(error)
    }

    /// What a caller's words mean.
    fn understand<'a, K: IntoKey<'a>>(
        &self,
        key: K,
        held_to: HeldTo<'a>,
        cost: Cost,
    ) -> Result<Understood<'a>, KeeperError> {
        Ok(Understood { key: key.into_key()?, resolved: self.resolve(held_to)?, cost })
    }

    fn resolve<'a>(&self, held_to: HeldTo<'a>) -> Result<Resolved, KeeperError> {
        let names: &[&'a str] = match &held_to {
            HeldTo::Quota(quota) => return Ok(Resolved::Quota(**quota)),
            // The common case: no list is made of one.
            HeldTo::Plan(name) => {
                if let Some(plan) = self.plans.find(name) {
                    return Ok(Resolved::Plan(plan));
                }
                &[*name]
            }
            HeldTo::Plans(names) => names,
        };
        if names.len() > MAX_PLANS {
            return Err(KeeperError::TooManyPlans { named: names.len() });
        }
        let mut plans = Vec::with_capacity(names.len());
        for (index, name) in names.iter().enumerate() {
            if names[..index].contains(name) {
                return Err(KeeperError::PlanTwice { name: (*name).into() });
            }
            match self.plans.find(name) {
                Some(plan) => plans.push(plan),
                None if self.on_missing_plan == OnMissingPlan::Fail => {
                    return Err(KeeperError::UnknownPlan { name: (*name).into() });
                }
                None => self.tell(|observer| observer.plan_missing(name)),
            }
        }
        if plans.is_empty() && (names.is_empty() || self.on_missing_plan == OnMissingPlan::RequireOne) {
            return Err(KeeperError::NoPlan);
        }
        Ok(Resolved::Plans(plans))
    }

    async fn ask<'r, T: Outcome>(
        &'r self,
        request: Request<'r>,
        question: impl Fn(&'r dyn Store, Request<'r>) -> Answer<'r, T>,
    ) -> Result<Answered<T>, KeeperError> {
        let answer = asked(&*self.store, request, &question).await;
        self.or_instead(request, answer, || question(&*self.local, request))
    }

    /// The store's answer, or what is answered instead.
    fn or_instead<'q, T: Outcome + 'q>(
        &self,
        request: Request<'_>,
        answer: Result<T, StoreError>,
        local: impl FnOnce() -> Answer<'q, T>,
    ) -> Result<Answered<T>, KeeperError> {
        match answer {
            Ok(outcome) => Ok(Answered { outcome, locally: false }),
            Err(error) => self.instead(request, &error, local).ok_or(KeeperError::Store(error)),
        }
    }

    /// What is answered instead of a store that failed; the observers are told. The local store is in memory, and
    /// answers at once.
    fn instead<'q, T: Outcome + 'q>(
        &self,
        request: Request<'_>,
        error: &StoreError,
        local: impl FnOnce() -> Answer<'q, T>,
    ) -> Option<Answered<T>> {
        let mode = self.failure_mode(request.rules, error);
        let outcome = match mode {
            FailureMode::Open => Some(T::fallback(Reason::FailOpen, request)),
            FailureMode::Closed => Some(T::fallback(Reason::FailClosed, request)),
            FailureMode::Local => local().now().ok().and_then(Result::ok),
            FailureMode::Error => None,
        };
        self.tell(|observer| observer.store_failed(error, outcome.as_ref().map(Outcome::decision)));
        outcome.map(|outcome| Answered { outcome, locally: mode == FailureMode::Local })
    }

    /// The ruling on a cost that was asked for; the observers are told.
    fn acquired(
        &self,
        understood: Understood<'_>,
        Answered { outcome: decision, locally }: Answered<Decision>,
    ) -> Ruling {
        self.announce(understood.request(), &decision);
        let granted = if decision.allowed { understood.cost } else { Cost::PEEK };
        Ruling::new(decision, granted, understood.resolved, locally)
    }

    /// Tells the observers of a decision to take. Peeks and refunds decide nothing.
    fn announce(&self, request: Request<'_>, decision: &Decision) {
        self.tell(|observer| observer.decided(&request, decision));
    }

    /// The strictest of the plans' modes, but for what is not a failure of the store.
    fn failure_mode(&self, rules: Rules<'_>, error: &StoreError) -> FailureMode {
        let mode = match rules {
            Rules::Quota(_) => None,
            Rules::Plan(plan) => Some(plan.failure_mode()),
            Rules::Plans(plans) => plans.iter().map(|plan| plan.failure_mode()).max(),
        };
        let mode = mode.unwrap_or(self.on_store_error);
        match error.kind() {
            // What the store cannot do is the caller's mistake, and state that cannot be read is never fresh.
            StoreErrorKind::Unsupported | StoreErrorKind::Unreadable => FailureMode::Error,
            // Every race was lost to somebody who took something: there is nothing left to be open about.
            StoreErrorKind::Contended => mode.max(FailureMode::Closed),
            _ => mode,
        }
    }

    /// Tells every observer. One that panics has had its turn.
    fn tell(&self, news: impl Fn(&dyn Observer)) {
        for observer in self.observers.iter() {
            let _ = catch_unwind(AssertUnwindSafe(|| news(&**observer)));
        }
    }
}

/// Asks a store, unless the request is held to nothing: then there is nothing to ask.
fn asked<'q, T: Outcome>(
    store: &'q dyn Store,
    request: Request<'q>,
    question: impl FnOnce(&'q dyn Store, Request<'q>) -> Answer<'q, T>,
) -> Answer<'q, T> {
    if request.rules.is_empty() {
        return Answer::ready(Ok(T::unlimited(request)));
    }
    question(store, request)
}

/// A request whose words have been understood.
struct Understood<'a> {
    key: Key<'a>,
    resolved: Resolved,
    cost: Cost,
}

impl Understood<'_> {
    /// As a store is asked.
    fn request(&self) -> Request<'_> {
        Request { key: self.key, rules: self.resolved.rules(), cost: self.cost }
    }
}

/// An answer, and whether it is the local store's.
struct Answered<T> {
    outcome: T,
    locally: bool,
}
