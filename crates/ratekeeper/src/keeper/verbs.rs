//! What a keeper can be asked.

use super::ask::{Intent, ask};
use super::attempt::Attempt;
use super::error::KeeperError;
use super::held_to::HeldTo;
use super::resolve::{NamedRequest, Understood};
use super::ruling::Ruling;
use super::setup::Keeper;
use crate::port::{Answer, Request, Store};
use crate::{Charged, Cost, Decision, IntoKey, StoreErrorKind};

impl Keeper {
    /// Takes the cost from every rule, or from none. Nothing is taken until the attempt is awaited.
    ///
    /// While others wait [within](Attempt::within) some time for the same key and plans, it is denied with
    /// [`Reason::Queued`](crate::Reason::Queued): who does not wait does not overtake. A cost of zero, which takes nothing,
    /// is answered all the same.
    ///
    /// # Errors
    ///
    /// A key that is none, a plan that does not exist, and a store that fails where the plan's
    /// [failure mode](crate::FailureMode) is `error`. A denial is a ruling, not an error.
    ///
    /// # Cost
    ///
    /// Over a store in memory it is decided at once and allocates nothing for a quota or one plan. Over a remote store it
    /// is one question and two boxes.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ratekeeper::{Keeper, MemoryStore, Plan, Registry};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let keeper = Keeper::new(MemoryStore::default(), Registry::new([Plan::parse("free", "2/h")?]));
    /// assert_eq!(keeper.acquire("user:42", "free", 1).await?.remaining, 1);
    /// # Ok(()) }
    /// ```
    #[inline]
    pub fn acquire<'a>(
        &'a self,
        key: impl IntoKey<'a>,
        held_to: impl Into<HeldTo<'a>>,
        cost: impl Into<Cost>,
    ) -> Attempt<'a> {
        let (key, held_to, cost) = (key.into_key(), held_to.into(), cost.into());
        Attempt::new(NamedRequest { keeper: self, key, held_to, cost })
    }

    /// Takes as much of the cost as every rule allows: see [`Ruling::granted`].
    ///
    /// # Errors
    ///
    /// Those of [`acquire`](Keeper::acquire).
    pub fn acquire_up_to<'a>(
        &'a self,
        key: impl IntoKey<'a>,
        held_to: impl Into<HeldTo<'a>>,
        cost: impl Into<Cost>,
    ) -> Answer<'a, Ruling, KeeperError> {
        self.understood(key, held_to, cost, |understood| {
            self.take_in_turn(understood, |store, request| store.acquire_up_to(request))
        })
    }

    /// Returns what [`acquire`](Keeper::acquire) would decide if nobody waited for the same. Writes nothing, and calls no
    /// observer.
    ///
    /// # Errors
    ///
    /// Those of [`acquire`](Keeper::acquire).
    pub fn peek<'a>(
        &'a self,
        key: impl IntoKey<'a>,
        held_to: impl Into<HeldTo<'a>>,
        cost: impl Into<Cost>,
    ) -> Answer<'a, Ruling, KeeperError> {
        self.understood(key, held_to, cost, |understood| {
            self.decide(understood, Intent::Look, |store, request| store.peek(request))
        })
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
    /// # Examples
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
    pub fn refund<'a>(
        &'a self,
        key: impl IntoKey<'a>,
        held_to: impl Into<HeldTo<'a>>,
        cost: impl Into<Cost>,
        charged: Charged,
    ) -> Answer<'a, Ruling, KeeperError> {
        self.understood(key, held_to, cost, |understood| self.give_back(understood, charged))
    }

    /// Forgets the key under these rules, and returns how many states were forgotten. A quota stands for all quotas that
    /// requests brought for this key.
    ///
    /// # Errors
    ///
    /// A store that fails is an error here, whatever the plans say: nothing else would be true.
    pub fn reset<'a>(
        &'a self,
        key: impl IntoKey<'a>,
        held_to: impl Into<HeldTo<'a>>,
    ) -> Answer<'a, u64, KeeperError> {
        self.understood(key, held_to, Cost::ZERO, |understood| {
            ask(&*self.store, understood, reset, move |understood, forgotten| match forgotten {
                Ok(forgotten) => ask(&*self.local, understood, reset, move |understood, locally| {
                    let Request { key, rules, .. } = understood.request();
                    self.lines
                        .were_reset(|of, held_to| of == key.as_bytes() && held_to.share_state_with(rules));
                    Answer::ready(locally.map(|_| forgotten).map_err(KeeperError::Store))
                }),
                Err(error) => Answer::ready(Err(self.failed(error))),
            })
        })
    }

    /// Forgets every key that starts with these bytes, under all plans and quotas, and returns how many states the store
    /// has forgotten: see [`Store::forget`]. It looks at all keys.
    ///
    /// # Errors
    ///
    /// A store that fails, or that does not know its keys, is an error here, whatever the plans say.
    pub fn forget<'a>(&'a self, prefix: &'a [u8]) -> Answer<'a, u64, KeeperError> {
        Answer::later(async move {
            let forgotten = self.store.forget(prefix).await.map_err(|error| self.failed(error))?;
            // One that was set without kept keys has nothing to go by, and what it decided ends with the outage.
            let locally = self.local.forget(prefix).await;
            self.lines.were_reset(|key, _| key.starts_with(prefix));
            match locally {
                Err(error) if error.kind() != StoreErrorKind::Unsupported => Err(KeeperError::Store(error)),
                _ => Ok(forgotten),
            }
        })
    }

    /// Returns how many wait [within](super::Attempt::within) some time for this key under these plans or this quota, the
    /// first in line included; nobody waits for what cannot be resolved.
    pub fn queue_depth<'a>(&'a self, key: impl IntoKey<'a>, held_to: impl Into<HeldTo<'a>>) -> usize {
        let (key, held_to) = (key.into_key(), held_to.into());
        let named = NamedRequest { keeper: self, key, held_to, cost: Cost::ZERO };
        named.understand().map_or(0, |understood| self.lines.depth(&understood.request()))
    }

    /// Asks whether the store itself decides, by a peek: no failure mode answers instead, and no observer is called. For
    /// checks of readiness.
    ///
    /// # Errors
    ///
    /// The store's own.
    pub fn probe<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        self.store.peek(request)
    }

    /// Resolves what the caller has named, and goes on with it.
    #[inline]
    fn understood<'a, R>(
        &'a self,
        key: impl IntoKey<'a>,
        held_to: impl Into<HeldTo<'a>>,
        cost: impl Into<Cost>,
        then: impl FnOnce(Understood<'a>) -> Answer<'a, R, KeeperError>,
    ) -> Answer<'a, R, KeeperError> {
        let (key, held_to, cost) = (key.into_key(), held_to.into(), cost.into());
        match (NamedRequest { keeper: self, key, held_to, cost }).understand() {
            Ok(understood) => then(understood),
            Err(error) => Answer::ready(Err(error)),
        }
    }
}

fn reset<'q>(store: &'q dyn Store, request: Request<'q>) -> Answer<'q, u64> {
    store.reset(request)
}
