//! A request to hold, before it is asked.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use super::ask::Intent;
use super::asking::{Ask, Asking};
use super::error::KeeperError;
use super::fallback::Fallback;
use super::hold::Hold;
use super::resolve::{NamedRequest, Understood};
use super::ruling::{Resolved, Ruling};
use super::setup::Keeper;
use super::taker::Taker;
use super::taking::Taking;
use super::waiting::Waiting;
use crate::port::{Answer, HoldAction, HoldId, HoldRequest, Request, Standing, Store};
use crate::{Amounts, Key, Nanos, Rules};

/// A request to hold an estimate, made by [`Keeper::hold`]. Nothing happens until it is awaited, or given time
/// [`within`](HoldAttempt::within) which to wait.
///
/// # Cancel safety
///
/// Dropped while it is awaited, it takes nothing: what a store elsewhere has held meanwhile is cancelled by a task of the
/// current tokio runtime, and otherwise ends with its lease.
#[derive(Debug)]
#[must_use = "an attempt holds nothing until it is awaited"]
pub struct HoldAttempt<'a> {
    named: NamedRequest<'a>,
    terms: ForHold,
}

/// Something is to be held.
#[derive(Clone, Copy, Debug)]
pub struct ForHold {
    id: HoldId,
    lease: Nanos,
}

impl<'a> HoldAttempt<'a> {
    pub(super) fn new(named: NamedRequest<'a>) -> Self {
        HoldAttempt { named, terms: ForHold { id: random_id(), lease: HoldRequest::DEFAULT_LEASE } }
    }

    /// Sets how long it is held if nobody ends it: 1 ms to 24 h; a minute unless set.
    pub fn lease(mut self, lease: impl Into<Nanos>) -> Self {
        self.terms.lease = lease.into();
        self
    }

    /// Waits for what it is to hold, no longer than this, first come, first served among those who wait in this process for
    /// the same key and plans: see [`Waiting`].
    ///
    /// When a place in flight is free cannot be foreseen. One that is freed through this keeper is passed on at once; for
    /// those that others free, or whose lease runs out, the first in line asks again, every 50 to 100 ms.
    pub fn within(self, patience: Duration) -> Waiting<'a, ForHold> {
        Waiting::new(self.named, self.terms, patience)
    }

    /// Holds now, if the store answers at once.
    ///
    /// # Errors
    ///
    /// A store that has to be awaited: then nobody was asked and nothing is held, and the answer is given back to be
    /// awaited, or dropped.
    #[expect(
        clippy::result_large_err,
        reason = "an answer to go on with, not an error: a box would be an allocation"
    )]
    pub fn now(self) -> Result<Result<Hold, KeeperError>, Answer<'a, Hold, KeeperError>> {
        self.ask().now()
    }
}

impl<'a> IntoFuture for HoldAttempt<'a> {
    type Output = Result<Hold, KeeperError>;
    type IntoFuture = Asking<'a, Self, Hold>;

    fn into_future(self) -> Self::IntoFuture {
        Asking::new(self)
    }
}

impl<'a> Ask<'a> for HoldAttempt<'a> {
    type Answer = Hold;

    fn ask(self) -> Answer<'a, Hold, KeeperError> {
        let HoldAttempt { named, terms } = self;
        let keeper = named.keeper;
        let understood = match terms.understand(named) {
            Ok(understood) => understood,
            Err(error) => return Answer::ready(Err(error)),
        };
        let key = understood.key;
        let answer = move |ruling| terms.answer(keeper, key, ruling);
        if keeper.lines.ahead_of(&understood.request()).is_some() {
            return keeper
                .take_in_turn(understood, move |store, request| terms.question(store, request))
                .map(move |ruling| ruling.map(answer));
        }
        let again = understood.clone();
        let at_once = keeper
            .decide(understood, Intent::Take, move |store, request| terms.question(store, request))
            .now();
        match at_once {
            Ok(ruling) => Answer::ready(ruling.map(answer)),
            // Nobody was asked yet: that is done by something which sees it to its end, should this be dropped.
            Err(_) => Answer::later(async move {
                let ruling = Taking::new(keeper, &again, terms).await?;
                keeper.announce(again.request(), &ruling);
                Ok(answer(ruling))
            }),
        }
    }
}

impl ForHold {
    /// Puts the request to the store as one to hold.
    fn question<'q>(self, store: &'q dyn Store, request: Request<'q>) -> Answer<'q, Standing> {
        let Rules::Plans(plans) = request.rules else {
            return Answer::ready(Ok(Standing::unlimited(request)));
        };
        let amounts = Amounts::new(request.cost, request.units);
        store.hold(HoldRequest { key: request.key, plans, amounts, id: self.id, lease: self.lease })
    }
}

impl Taker for ForHold {
    type Answer = Hold;

    fn understand(self, named: NamedRequest<'_>) -> Result<Understood<'_>, KeeperError> {
        HoldRequest::check_lease(self.lease)?;
        let mut understood = named.resolve()?;
        understood.resolved = match understood.resolved {
            Resolved::Quota(_) => return Err(KeeperError::HoldWithoutPlan),
            Resolved::Plan(plan) => Resolved::Plans(vec![plan]),
            plans @ (Resolved::Plans(_) | Resolved::Told(_)) => plans,
        };
        understood.request().check_hold()?;
        Ok(understood)
    }

    fn take<'a>(self, keeper: &'a Keeper, understood: Understood<'a>) -> Answer<'a, Ruling, KeeperError> {
        keeper.decide(understood, Intent::Try, move |store, request| self.question(store, request))
    }

    async fn give_back(self, keeper: &Keeper, taken: Understood<'_>, ruling: Ruling) {
        if ruling.allowed {
            // It ends with its lease if the store fails: the observers are told.
            let _ = keeper.change(taken.key, self.id, HoldAction::Cancel).await;
        }
    }

    fn answer(self, keeper: &Keeper, key: Key<'_>, ruling: Ruling) -> Hold {
        // Where the store has failed and the plan is open, or there is no plan, nobody holds anything.
        if ruling.allowed && ruling.reason.is_informed() && !ruling.rules().is_empty() {
            keeper.tell(|observer| observer.held(key, self.id));
        }
        Hold::new(keeper, key, self.id, ruling)
    }
}

/// Returns 128 bits that nobody can guess: a keyed hash, under keys of the operating system.
fn random_id() -> HoldId {
    let half = |number: u8| u128::from(RandomState::new().hash_one(number));
    HoldId::from_bits(half(0) << 64 | half(1))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_ids_are_the_same() {
        let ids: HashSet<HoldId> = std::iter::repeat_with(random_id).take(10_000).collect();
        assert_eq!(ids.len(), 10_000);
    }
}
