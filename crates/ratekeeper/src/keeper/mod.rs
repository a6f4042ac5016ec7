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
use crate::{Cost, Decision, Key, MemoryStore, Quota, Reason, Rules, StoreError, StoreErrorKind};
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
            local: Arc::new(MemoryStore::default()),
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
    pub async fn acquire<'a>(
        &self,
        key: Key<'a>,
        held_to: impl Into<HeldTo<'a>>,
        cost: Cost,
    ) -> Result<Ruling, KeeperError> {
        let resolved = self.resolve(held_to.into())?;
        let decision = self.ask(&resolved, key, cost, |store, request| store.acquire(request)).await?;
        Ok(self.acquired(resolved, key, cost, decision))
    }

    /// [`acquire`](Keeper::acquire) from a store that answers at once. `None` from one that has to be awaited: it was
    /// not asked, and nothing was taken. For callers who would rather not make a future of what is known already.
    pub fn try_acquire<'a>(
        &self,
        key: Key<'a>,
        held_to: impl Into<HeldTo<'a>>,
        cost: Cost,
    ) -> Option<Result<Ruling, KeeperError>> {
        let answer = self.ask_now(key, held_to.into(), cost, |store, request| store.acquire(request))?;
        Some(answer.map(|(decision, resolved)| self.acquired(resolved, key, cost, decision)))
    }

    /// [`refund`](Keeper::refund) to a store that answers at once, as [`try_acquire`](Keeper::try_acquire).
    pub fn try_refund<'a>(
        &self,
        key: Key<'a>,
        held_to: impl Into<HeldTo<'a>>,
        cost: Cost,
    ) -> Option<Result<Ruling, KeeperError>> {
        let answer = self.ask_now(key, held_to.into(), cost, |store, request| store.refund(request))?;
        Some(answer.and_then(|(decision, resolved)| refunded(resolved, decision)))
    }

    /// Takes as much of the cost as every rule allows: see [`Ruling::granted`].
    pub async fn acquire_up_to<'a>(
        &self,
        key: Key<'a>,
        held_to: impl Into<HeldTo<'a>>,
        cost: Cost,
    ) -> Result<Ruling, KeeperError> {
        let resolved = self.resolve(held_to.into())?;
        let grant = self.ask(&resolved, key, cost, |store, request| store.acquire_up_to(request)).await?;
        self.announce(&resolved, key, cost, &grant.decision);
        Ok(Ruling::new(grant.decision, grant.granted, resolved))
    }

    /// What [`acquire`](Keeper::acquire) would decide. Writes nothing.
    pub async fn peek<'a>(
        &self,
        key: Key<'a>,
        held_to: impl Into<HeldTo<'a>>,
        cost: Cost,
    ) -> Result<Ruling, KeeperError> {
        let resolved = self.resolve(held_to.into())?;
        let decision = self.ask(&resolved, key, cost, |store, request| store.peek(request)).await?;
        Ok(Ruling::new(decision, Cost::PEEK, resolved))
    }

    /// Gives the cost back to every rule. A store that fails is an error here, unless the plans say `local`: it would
    /// not be true that anything was given back.
    pub async fn refund<'a>(
        &self,
        key: Key<'a>,
        held_to: impl Into<HeldTo<'a>>,
        cost: Cost,
    ) -> Result<Ruling, KeeperError> {
        let resolved = self.resolve(held_to.into())?;
        let decision = self.ask(&resolved, key, cost, |store, request| store.refund(request)).await?;
        refunded(resolved, decision)
    }

    /// Forgets the key under these rules. Tells how many states were forgotten. A store that fails is an error
    /// here, whatever the plans say: nothing else would be true.
    pub async fn reset<'a>(&self, key: Key<'a>, held_to: impl Into<HeldTo<'a>>) -> Result<u64, KeeperError> {
        let resolved = self.resolve(held_to.into())?;
        let request = Request { key, rules: resolved.rules(), cost: Cost::PEEK };
        let forgotten = self.store.reset(request).await.map_err(|error| {
            self.tell(|observer| observer.store_failed(&error, None));
            KeeperError::Store(error)
        })?;
        self.local.reset(request).await.map_err(KeeperError::Store)?;
        Ok(forgotten)
    }

    /// What is answered instead of a store that failed a request to take, for callers who asked it by themselves;
    /// `None`: the error itself. The observers are told.
    pub fn fall_back(&self, request: Request<'_>, error: &StoreError) -> Option<Decision> {
        self.instead(request, error, || self.local.acquire(request))
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
        resolved: &'r Resolved,
        key: Key<'r>,
        cost: Cost,
        question: impl Fn(&'r dyn Store, Request<'r>) -> Answer<'r, T>,
    ) -> Result<T, KeeperError> {
        let request = Request { key, rules: resolved.rules(), cost };
        if request.rules.is_empty() {
            return Ok(T::unlimited(request));
        }
        let answer = question(&*self.store, request).await;
        answer.or_else(|error| {
            self.instead(request, &error, || question(&*self.local, request)).ok_or(KeeperError::Store(error))
        })
    }

    /// The same of a store that answers at once; `None` from one that does not. A future that is dropped before it
    /// was polled has done nothing.
    fn ask_now<'a, T: Outcome>(
        &self,
        key: Key<'a>,
        held_to: HeldTo<'a>,
        cost: Cost,
        question: impl for<'q> Fn(&'q dyn Store, Request<'q>) -> Answer<'q, T>,
    ) -> Option<Result<(T, Resolved), KeeperError>> {
        let resolved = match self.resolve(held_to) {
            Ok(resolved) => resolved,
            Err(error) => return Some(Err(error)),
        };
        let request = Request { key, rules: resolved.rules(), cost };
        let outcome = if request.rules.is_empty() {
            Ok(T::unlimited(request))
        } else {
            let answer = question(&*self.store, request).now().ok()?;
            answer.or_else(|error| {
                self.instead(request, &error, || question(&*self.local, request))
                    .ok_or(KeeperError::Store(error))
            })
        };
        Some(outcome.map(|outcome| (outcome, resolved)))
    }

    /// What is answered instead of a store that failed; the observers are told. The local store is in memory, and
    /// answers at once.
    fn instead<'q, T: Outcome + 'q>(
        &self,
        request: Request<'_>,
        error: &StoreError,
        local: impl FnOnce() -> Answer<'q, T>,
    ) -> Option<T> {
        let outcome = match self.failure_mode(request.rules, error) {
            FailureMode::Open => Some(T::fallback(Reason::FailOpen, request)),
            FailureMode::Closed => Some(T::fallback(Reason::FailClosed, request)),
            FailureMode::Local => local().now().ok().and_then(Result::ok),
            FailureMode::Error => None,
        };
        self.tell(|observer| observer.store_failed(error, outcome.as_ref().map(Outcome::decision)));
        outcome
    }

    /// The ruling on a cost that was asked for; the observers are told.
    fn acquired(&self, resolved: Resolved, key: Key<'_>, cost: Cost, decision: Decision) -> Ruling {
        self.announce(&resolved, key, cost, &decision);
        Ruling::new(decision, if decision.allowed { cost } else { Cost::PEEK }, resolved)
    }

    /// Tells the observers of a decision to take. Peeks and refunds decide nothing.
    fn announce(&self, resolved: &Resolved, key: Key<'_>, cost: Cost, decision: &Decision) {
        if !self.observers.is_empty() {
            let request = Request { key, rules: resolved.rules(), cost };
            self.tell(|observer| observer.decided(&request, decision));
        }
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

/// The ruling on a cost that was given back, unless the store failed: then it was not, whatever the plans say.
fn refunded(resolved: Resolved, decision: Decision) -> Result<Ruling, KeeperError> {
    if !decision.reason.is_informed() {
        let message = "the store failed: nothing was given back";
        return Err(KeeperError::Store(StoreError::new(StoreErrorKind::Unavailable, message)));
    }
    Ok(Ruling::new(decision, Cost::PEEK, resolved))
}
