//! What a keeper can be asked.

use super::ask::{Intent, ask};
use super::attempt::Attempt;
use super::error::KeeperError;
use super::fallback::Fallback;
use super::held_to::HeldTo;
use super::holding::HoldAttempt;
use super::resolve::{NamedRequest, Understood};
use super::ruling::Ruling;
use super::setup::Keeper;
use crate::port::{Answer, Grant, HoldAction, HoldId, HoldOutcome, HoldRequest, Request, Standing, Store};
use crate::{Amounts, Charged, Cost, Decision, IntoKey, Key, Nanos, StoreErrorKind};

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
        amounts: impl Into<Amounts<'a>>,
    ) -> Attempt<'a> {
        let (key, held_to, amounts) = (key.into_key(), held_to.into(), amounts.into());
        Attempt::new(NamedRequest { keeper: self, key, held_to, amounts })
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
        amounts: impl Into<Amounts<'a>>,
    ) -> Answer<'a, Ruling, KeeperError> {
        self.understood(key, held_to, amounts, |understood| self.take_in_turn(understood, acquire_part))
    }

    /// Returns what [`acquire`](Keeper::acquire) would decide if nobody waited for the same. Of a plan that counts what is in
    /// flight, it is what a [hold](Keeper::hold) would find. Writes nothing, and calls no observer.
    ///
    /// # Errors
    ///
    /// Those of [`acquire`](Keeper::acquire).
    pub fn peek<'a>(
        &'a self,
        key: impl IntoKey<'a>,
        held_to: impl Into<HeldTo<'a>>,
        amounts: impl Into<Amounts<'a>>,
    ) -> Answer<'a, Ruling, KeeperError> {
        self.looked_at(key, held_to, amounts, |understood| match understood.request().is_plain() {
            true => self.decide(understood, Intent::Look, |store, request| store.peek(request)),
            false => self.decide(understood, Intent::Look, |store, request| store.peek_each(request)),
        })
    }

    /// Like [`peek`](Keeper::peek), and the ruling tells what [each](Ruling::each) rule says, also of rules that are plain.
    ///
    /// # Errors
    ///
    /// Those of [`acquire`](Keeper::acquire).
    pub fn peek_each<'a>(
        &'a self,
        key: impl IntoKey<'a>,
        held_to: impl Into<HeldTo<'a>>,
        amounts: impl Into<Amounts<'a>>,
    ) -> Answer<'a, Ruling, KeeperError> {
        self.looked_at(key, held_to, amounts, |understood| {
            self.decide(understood, Intent::Look, |store, request| store.peek_each(request))
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
        amounts: impl Into<Amounts<'a>>,
        charged: Charged,
    ) -> Answer<'a, Ruling, KeeperError> {
        self.understood(key, held_to, amounts, |understood| self.give_back(understood, charged))
    }

    /// Charges every rule without asking whether it passes, for what has happened already, and tells where the key stands
    /// then, as one more of every unit would find it: see [`Store::debit`]. A debt is bounded.
    ///
    /// # Errors
    ///
    /// Those of [`acquire`](Keeper::acquire), but that a store that fails is an error here, whatever the plans say: it would
    /// not be true that anything was charged.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ratekeeper::{Keeper, MemoryStore, Plan, Registry};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let keeper = Keeper::new(MemoryStore::default(), Registry::new([Plan::parse("free", "2/h")?]));
    /// let standing = keeper.debit("user:42", "free", 3).await?;
    /// assert_eq!((standing.remaining, standing.retry_after.unwrap().ceil_secs()), (0, 3600));
    /// # Ok(()) }
    /// ```
    pub fn debit<'a>(
        &'a self,
        key: impl IntoKey<'a>,
        held_to: impl Into<HeldTo<'a>>,
        amounts: impl Into<Amounts<'a>>,
    ) -> Answer<'a, Ruling, KeeperError> {
        self.understood(key, held_to, amounts, |understood| {
            ask(
                &*self.store,
                understood,
                |store, request| match request.rules.is_empty() {
                    true => Answer::ready(Ok(Standing::unlimited(request))),
                    false => store.debit(request),
                },
                move |understood, debited| {
                    let key = understood.key;
                    let debited = debited.map_err(|error| self.failed(error)).inspect(|standing| {
                        self.tell(|observer| observer.debited(key, standing));
                    });
                    Answer::ready(debited.map(|standing| {
                        let ruling = Ruling::new(standing.decision, Cost::ZERO, understood.resolved, false);
                        ruling.telling(&standing.each, false)
                    }))
                },
            )
        })
    }

    /// Takes an estimate from every rate rule and a place in every concurrency rule, all or nothing, until it is ended:
    /// [settled](super::Hold::settle) with what was spent, [cancelled](super::Hold::cancel), or left to its lease. Nothing is held until the
    /// attempt is awaited.
    ///
    /// While others wait for the same, it is denied with [`Reason::Queued`](crate::Reason::Queued).
    ///
    /// # Errors
    ///
    /// Those of [`acquire`](Keeper::acquire), and a lease that is too short or too long. Where the store fails and the plan
    /// says `open`, nothing is held, and ending it says that it is gone.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ratekeeper::{Keeper, MemoryStore, Plan, Registry};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let keeper = Keeper::new(MemoryStore::default(), Registry::new([Plan::parse("llm", "100 tokens/m; 1 concurrent")?]));
    /// let hold = keeper.hold("user:42", "llm", &[("tokens", 58)]).await?;
    /// assert!(!keeper.hold("user:42", "llm", &[("tokens", 1)]).await?.allowed, "there is one place");
    /// hold.cancel().await?;
    /// # Ok(()) }
    /// ```
    pub fn hold<'a>(
        &'a self,
        key: impl IntoKey<'a>,
        held_to: impl Into<HeldTo<'a>>,
        amounts: impl Into<Amounts<'a>>,
    ) -> HoldAttempt<'a> {
        let (key, held_to, amounts) = (key.into_key(), held_to.into(), amounts.into());
        HoldAttempt::new(NamedRequest { keeper: self, key, held_to, amounts })
    }

    /// Ends a hold by its id with what was spent, as [`Hold::settle`](super::Hold::settle) does. Ending it again, within its lease and a minute
    /// after, answers the same and changes nothing.
    ///
    /// # Errors
    ///
    /// A store that fails, whatever the plans say: it may be repeated. A unit that no plan of the hold counts.
    pub fn settle<'a>(
        &'a self,
        key: impl IntoKey<'a>,
        id: HoldId,
        amounts: impl Into<Amounts<'a>>,
    ) -> Answer<'a, HoldOutcome, KeeperError> {
        match key.into_key() {
            Ok(key) => self.change(key, id, HoldAction::Settle(amounts.into())),
            Err(error) => Answer::ready(Err(error.into())),
        }
    }

    /// Ends a hold by its id, and gives all back, as [`Hold::cancel`](super::Hold::cancel) does.
    ///
    /// # Errors
    ///
    /// Those of [`settle`](Keeper::settle).
    pub fn cancel<'a>(&'a self, key: impl IntoKey<'a>, id: HoldId) -> Answer<'a, HoldOutcome, KeeperError> {
        match key.into_key() {
            Ok(key) => self.change(key, id, HoldAction::Cancel),
            Err(error) => Answer::ready(Err(error.into())),
        }
    }

    /// Has a hold last so long from now: 1 ms to 24 h.
    ///
    /// # Errors
    ///
    /// Those of [`settle`](Keeper::settle), and a lease that is too short or too long.
    pub fn extend<'a>(
        &'a self,
        key: impl IntoKey<'a>,
        id: HoldId,
        lease: impl Into<Nanos>,
    ) -> Answer<'a, HoldOutcome, KeeperError> {
        let lease = lease.into();
        let checked = || -> Result<Key<'a>, KeeperError> {
            HoldRequest::check_lease(lease)?;
            Ok(key.into_key()?)
        };
        match checked() {
            Ok(key) => self.change(key, id, HoldAction::Extend(lease)),
            Err(error) => Answer::ready(Err(error)),
        }
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
        let (key, held_to, amounts) = (key.into_key(), held_to.into(), Cost::ZERO.into());
        match (NamedRequest { keeper: self, key, held_to, amounts }).resolve() {
            Err(error) => Answer::ready(Err(error)),
            Ok(understood) => {
                ask(&*self.store, understood, reset, move |understood, forgotten| match forgotten {
                    Ok(forgotten) => ask(&*self.local, understood, reset, move |understood, locally| {
                        let Request { key, rules, .. } = understood.request();
                        self.lines.were_reset(|of, held_to| {
                            of == key.as_bytes() && held_to.share_state_with(rules)
                        });
                        Answer::ready(locally.map(|_| forgotten).map_err(KeeperError::Store))
                    }),
                    Err(error) => Answer::ready(Err(self.failed(error))),
                })
            }
        }
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
        let named = NamedRequest { keeper: self, key, held_to, amounts: Cost::ZERO.into() };
        named.resolve().map_or(0, |understood| self.lines.depth(&understood.request()))
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

    /// Resolves what the caller wants to look at, and goes on with it: as a hold would, if a plan counts what is in flight.
    fn looked_at<'a, R>(
        &'a self,
        key: impl IntoKey<'a>,
        held_to: impl Into<HeldTo<'a>>,
        amounts: impl Into<Amounts<'a>>,
        then: impl FnOnce(Understood<'a>) -> Answer<'a, R, KeeperError>,
    ) -> Answer<'a, R, KeeperError> {
        let (key, held_to, amounts) = (key.into_key(), held_to.into(), amounts.into());
        let checked =
            (NamedRequest { keeper: self, key, held_to, amounts }).resolve().and_then(|understood| {
                understood.request().check_hold()?;
                Ok(understood)
            });
        match checked {
            Ok(understood) => then(understood),
            Err(error) => Answer::ready(Err(error)),
        }
    }

    /// Resolves what the caller has named, and goes on with it.
    #[inline]
    fn understood<'a, R>(
        &'a self,
        key: impl IntoKey<'a>,
        held_to: impl Into<HeldTo<'a>>,
        amounts: impl Into<Amounts<'a>>,
        then: impl FnOnce(Understood<'a>) -> Answer<'a, R, KeeperError>,
    ) -> Answer<'a, R, KeeperError> {
        let (key, held_to, amounts) = (key.into_key(), held_to.into(), amounts.into());
        match (NamedRequest { keeper: self, key, held_to, amounts }).understand() {
            Ok(understood) => then(understood),
            Err(error) => Answer::ready(Err(error)),
        }
    }
}

fn reset<'q>(store: &'q dyn Store, request: Request<'q>) -> Answer<'q, u64> {
    store.reset(request)
}

/// Takes as much of a cost as there is, one at least: a cost of zero stays zero.
fn acquire_part<'q>(store: &'q dyn Store, request: Request<'q>) -> Answer<'q, Grant> {
    // Checked as it was named, before the amounts become those of the least.
    match request.check_up_to() {
        Ok(()) => store.acquire_up_to(request.at_cost(request.cost.min(Cost::ONE)), request.cost),
        Err(error) => Answer::ready(Err(error.into())),
    }
}
