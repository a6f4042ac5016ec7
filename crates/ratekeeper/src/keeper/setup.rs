//! The keeper and its settings.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::held_to::OnMissingPlan;
use super::wait_lines::WaitLines;
use crate::port::{Observer, Plans, Store};
use crate::{FailureMode, MemoryStore};

/// Keeps rates: resolves plans, asks the store, and answers when the store cannot.
///
/// Clones are handles of the same keeper, as cheap as a few reference counts.
///
/// # Examples
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
    pub(super) store: Arc<dyn Store>,
    pub(super) plans: Arc<dyn Plans>,
    /// Decides for plans that say `local` while the other one fails.
    pub(super) local: Arc<dyn Store>,
    observers: Arc<[Arc<dyn Observer>]>,
    pub(super) on_missing_plan: OnMissingPlan,
    /// For requests that are held to no plan.
    pub(super) on_store_error: FailureMode,
    /// Shared by clones: they wait together.
    pub(super) lines: Arc<WaitLines>,
}

impl Keeper {
    /// Returns a keeper of these plans over this store.
    pub fn new(store: impl Store + 'static, plans: impl Plans + 'static) -> Self {
        Self::from_arcs(Arc::new(store), Arc::new(plans))
    }

    /// Like [`new`](Keeper::new), but takes shared handles.
    pub fn from_arcs(store: Arc<dyn Store>, plans: Arc<dyn Plans>) -> Self {
        Keeper {
            store,
            plans,
            local: Arc::new(MemoryStore::builder().keep_keys(true).build()),
            observers: Arc::new([]),
            on_missing_plan: OnMissingPlan::default(),
            on_store_error: FailureMode::Error,
            lines: Arc::default(),
        }
    }

    /// Sets what becomes of a request that names a plan which does not exist; [`OnMissingPlan::Fail`] unless set.
    #[must_use]
    pub fn on_missing_plan(mut self, policy: OnMissingPlan) -> Self {
        self.on_missing_plan = policy;
        self
    }

    /// Sets what to answer when the store fails a request that is held to no plan; [`FailureMode::Error`] unless set. A
    /// plan has its own [mode](crate::Plan::on_store_error).
    #[must_use]
    pub fn on_store_error(mut self, mode: FailureMode) -> Self {
        self.on_store_error = mode;
        self
    }

    /// Sets the store that decides while the real one fails, for plans that say `local`; a [`MemoryStore`] that keeps
    /// its keys unless set.
    #[must_use]
    pub fn local_store(mut self, store: impl Store + 'static) -> Self {
        self.local = Arc::new(store);
        self
    }

    /// Adds an observer: it is called for every decision to take, for failures of the store and for missing plans.
    #[must_use]
    pub fn observer(mut self, observer: impl Observer + 'static) -> Self {
        let added: Arc<dyn Observer> = Arc::new(observer);
        self.observers = self.observers.iter().cloned().chain([added]).collect();
        self
    }

    /// Returns the plans that names in requests are looked up in.
    pub fn plans(&self) -> &dyn Plans {
        &*self.plans
    }

    /// Calls every observer. A panic in one is caught, and does not stop the others.
    #[inline]
    pub(super) fn tell(&self, news: impl Fn(&dyn Observer)) {
        for observer in self.observers.iter() {
            let _ = catch_unwind(AssertUnwindSafe(|| news(&**observer)));
        }
    }
}
