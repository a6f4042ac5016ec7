//! Something that is held, until it is ended.

use std::ops::Deref;

use super::error::KeeperError;
use super::owned_units::OwnedUnits;
use super::ruling::Ruling;
use super::setup::Keeper;
use super::taking::spawn;
use crate::port::{Answer, HoldAction, HoldChange, HoldId, HoldOutcome, HoldRequest, HoldState, Store};
use crate::{Amounts, Cost, Key, Nanos};

/// Something that is held, made by [`Keeper::hold`](Keeper::hold): an estimate is charged, and places are taken, until it is
/// [settled](Hold::settle) with what was spent, or [cancelled](Hold::cancel). Reads like the [`Ruling`] that granted it.
///
/// One that was denied holds nothing: look at [`allowed`](crate::Decision::allowed), as of any ruling.
///
/// Dropped, it is cancelled: at once where the store is in memory, and otherwise by a task of the current tokio runtime. Who
/// has spent something settles. To end it elsewhere, by its [id](Hold::id), [leave](Hold::leave) it.
///
/// # Examples
///
/// ```
/// # use ratekeeper::{Keeper, MemoryStore, Plan, Registry};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let plans = Registry::new([Plan::parse("llm", "60/m; 100000 tokens/m burst 20000; 8 concurrent")?]);
/// let keeper = Keeper::new(MemoryStore::default(), plans);
/// let hold = keeper.hold("user:42", "llm", &[("tokens", 5_000)]).await?;
/// assert!(hold.allowed);
/// // The model answers, and says what that took.
/// hold.settle(&[("tokens", 1_234)]).await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "what is held is cancelled when it is dropped"]
pub struct Hold {
    keeper: Keeper,
    key: Box<[u8]>,
    /// None if nothing is held, or not by this any more.
    id: Option<HoldId>,
    ruling: Ruling,
    /// What it is being settled with, while a store elsewhere is asked.
    spent: Option<(Option<Cost>, OwnedUnits)>,
}

impl Hold {
    pub(super) fn new(keeper: &Keeper, key: Key<'_>, id: HoldId, ruling: Ruling) -> Self {
        let id = Some(id).filter(|_| ruling.allowed);
        Hold { keeper: keeper.clone(), key: key.as_bytes().into(), id, ruling, spent: None }
    }

    /// Returns what it is ended by; none if it was denied.
    pub fn id(&self) -> Option<HoldId> {
        self.id
    }

    /// Returns the ruling that granted or denied it.
    pub fn ruling(&self) -> &Ruling {
        &self.ruling
    }

    /// Ends it with what was spent: the difference to the estimate is given back or debited, and the places are free. Units
    /// that are not named stay as they were estimated.
    ///
    /// # Errors
    ///
    /// A store that fails, whatever the plans say. It is given up then, and ends with its lease, unless it is
    /// [settled](Keeper::settle) once more by its id, which is harmless.
    ///
    /// # Cancel safety
    ///
    /// Dropped while it is awaited, it is settled all the same, as by [`settle_detached`](Hold::settle_detached).
    pub async fn settle(self, amounts: impl Into<Amounts<'_>>) -> Result<HoldOutcome, KeeperError> {
        let amounts = amounts.into();
        self.end(HoldAction::Settle(amounts)).await
    }

    /// Settles it without anybody waiting for that, as a guard that is dropped must: at once where the store is in memory, and
    /// otherwise by a task of the current tokio runtime; outside of one it ends with its lease. A store that fails is told to
    /// the observers, and the hold ends with its lease.
    pub fn settle_detached<'a>(mut self, amounts: impl Into<Amounts<'a>>) {
        self.end_detached(Some(amounts.into()));
    }

    /// Ends it, and nothing was spent: all is given back.
    ///
    /// # Errors
    ///
    /// Those of [`settle`](Hold::settle).
    pub async fn cancel(self) -> Result<HoldOutcome, KeeperError> {
        self.end(HoldAction::Cancel).await
    }

    /// Has it last so long from now: 1 ms to 24 h.
    ///
    /// # Errors
    ///
    /// A lease that is too short or too long, and a store that fails.
    pub async fn extend(&self, lease: impl Into<Nanos>) -> Result<HoldOutcome, KeeperError> {
        let lease = lease.into();
        HoldRequest::check_lease(lease)?;
        match (self.id, Key::new(&*self.key)) {
            (Some(id), Ok(key)) => {
                self.keeper.change_where(self.ruling.is_local(), key, id, HoldAction::Extend(lease)).await
            }
            _ => Ok(HoldOutcome::GONE),
        }
    }

    /// Leaves it to be ended by its id, or by its lease. None if it was denied.
    #[must_use = "nobody else knows the id"]
    pub fn leave(mut self) -> Option<HoldId> {
        self.id.take()
    }

    async fn end(mut self, action: HoldAction<'_>) -> Result<HoldOutcome, KeeperError> {
        let is_local = self.ruling.is_local();
        let outcome = match (self.id, Key::new(&*self.key)) {
            (Some(id), Ok(key)) => match self.keeper.change_where(is_local, key, id, action).now() {
                Ok(outcome) => outcome,
                // Nobody was asked yet. The id is kept until the answer is there: dropped before, it is ended in the same
                // way once more. To cancel what was to be settled would give back what was spent.
                Err(_) => {
                    if let HoldAction::Settle(amounts) = action {
                        self.spent = Some(owned(amounts));
                    }
                    self.keeper.change_where(is_local, key, id, action).await
                }
            },
            _ => Ok(HoldOutcome::GONE),
        };
        self.id = None;
        outcome
    }
}

impl Deref for Hold {
    type Target = Ruling;

    fn deref(&self) -> &Ruling {
        &self.ruling
    }
}

impl Hold {
    /// Settles it with these amounts, or cancels it if there are none; in a task if the store has to be awaited.
    fn end_detached(&mut self, spent: Option<Amounts<'_>>) {
        let Some(id) = self.id.take() else { return };
        let (keeper, key, is_local) = (&self.keeper, &self.key, self.ruling.is_local());
        let Ok(named) = Key::new(&**key) else { return };
        let action = spent.map_or(HoldAction::Cancel, HoldAction::Settle);
        if keeper.change_where(is_local, named, id, action).now().is_err() {
            let (keeper, key) = (keeper.clone(), Box::clone(key));
            let spent = spent.map(owned);
            spawn(async move {
                let Ok(key) = Key::new(&*key) else { return };
                let units = spent.as_ref().map(|(_, units)| units.borrowed()).unwrap_or_default();
                let spent = spent.as_ref().map(|(requests, _)| amounts_of(*requests, &units));
                let action = spent.map_or(HoldAction::Cancel, HoldAction::Settle);
                // It ends with its lease if the store fails: the observers are told.
                let _ = keeper.change_where(is_local, key, id, action).await;
            });
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        match self.spent.take() {
            None => self.end_detached(None),
            Some((requests, units)) => self.end_detached(Some(amounts_of(requests, &units.borrowed()))),
        }
    }
}

/// Returns amounts that outlive who has named them.
fn owned(amounts: Amounts<'_>) -> (Option<Cost>, OwnedUnits) {
    (amounts.requests(), OwnedUnits::of(amounts.units()))
}

fn amounts_of<'a>(requests: Option<Cost>, units: &'a [(&'a str, u64)]) -> Amounts<'a> {
    match requests {
        Some(requests) => Amounts::new(requests, units),
        None => Amounts::of(units),
    }
}

impl Keeper {
    /// Changes a hold at the store that has it.
    fn change_where<'a>(
        &'a self,
        is_local: bool,
        key: Key<'a>,
        id: HoldId,
        action: HoldAction<'a>,
    ) -> Answer<'a, HoldOutcome, KeeperError> {
        let store: &'a dyn Store = if is_local { &*self.local } else { &*self.store };
        let changed = self.change_at(store, HoldChange { key, id, action, plans: &*self.plans });
        changed.map(move |outcome| self.hold_changed(key, id, outcome))
    }

    /// Changes a hold, wherever it is: while the store could not be asked, the local one may have held. It is asked if the
    /// store does not know the hold, and also if it fails: what is held locally can be ended during the outage.
    pub(super) fn change<'a>(
        &'a self,
        key: Key<'a>,
        id: HoldId,
        action: HoldAction<'a>,
    ) -> Answer<'a, HoldOutcome, KeeperError> {
        let change = HoldChange { key, id, action, plans: &*self.plans };
        let changed = match self.change_at(&*self.store, change).now() {
            Ok(outcome) => self.or_local(outcome, change),
            Err(pending) => Answer::later(async move { self.or_local(pending.await, change).await }),
        };
        changed.map(move |outcome| self.hold_changed(key, id, outcome))
    }

    /// Returns the outcome at the local store if it knows the hold and the other does not, or has failed.
    fn or_local<'a>(
        &'a self,
        outcome: Result<HoldOutcome, KeeperError>,
        change: HoldChange<'a>,
    ) -> Answer<'a, HoldOutcome, KeeperError> {
        if outcome.as_ref().is_ok_and(|outcome| outcome.state != HoldState::Gone) {
            return Answer::ready(outcome);
        }
        self.change_at(&*self.local, change).map(move |local| match local {
            Ok(known) if known.state != HoldState::Gone => Ok(known),
            // A local store that has no holds, or fails as well, knows nothing of this one.
            _ => outcome,
        })
    }

    /// Tells the observers what has become of a hold.
    fn hold_changed(
        &self,
        key: Key<'_>,
        id: HoldId,
        outcome: Result<HoldOutcome, KeeperError>,
    ) -> Result<HoldOutcome, KeeperError> {
        outcome.inspect(|outcome| self.tell(|observer| observer.hold_changed(key, id, outcome.state)))
    }

    fn change_at<'a>(
        &'a self,
        store: &'a dyn Store,
        change: HoldChange<'a>,
    ) -> Answer<'a, HoldOutcome, KeeperError> {
        store.change_hold(change).map(move |outcome| {
            let outcome = outcome.map_err(|error| self.failed(error))?;
            if let Some(standing) = &outcome.standing {
                let is_settled = matches!(change.action, HoldAction::Settle(_));
                if is_settled {
                    self.tell(|observer| observer.debited(change.key, standing));
                }
                // Places may be free, and more may be left: whoever waits for this key asks again.
                self.lines.were_reset(|key, _| key == change.key.as_bytes());
            }
            Ok(outcome)
        })
    }
}
