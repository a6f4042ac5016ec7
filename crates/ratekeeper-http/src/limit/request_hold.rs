//! What is held for a request, until it is settled.

use std::sync::Arc;

use http::{Extensions, HeaderMap};
use ratekeeper::keeper::Hold;
use ratekeeper::port::HoldState;
use ratekeeper::{Amounts, Keeper, Plan};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::hold_policy::HoldPolicy;
use crate::key::KeyBuf;
use crate::log;
use crate::usage::{Spent, UnitList};

/// An estimate that is held for a request. Dropped, wherever its request ends, it is settled or cancelled as the
/// [`HoldPolicy`] says; until then its lease is extended.
pub(crate) struct RequestHold {
    /// None once it was ended.
    hold: Option<Hold>,
    policy: Arc<HoldPolicy>,
    /// What the response's fields say was spent.
    read: UnitList,
    /// What the handler says was spent, perhaps not until the body ends.
    spent: Option<Spent>,
    is_answered: bool,
    /// Extends the lease.
    extending: Option<AbortHandle>,
}

impl RequestHold {
    /// Takes over what is held for a request.
    pub(super) fn new(hold: Hold, keeper: &Keeper, key: &KeyBuf, policy: &Arc<HoldPolicy>) -> Self {
        let extending = extend(&hold, keeper, key, policy);
        RequestHold {
            hold: Some(hold),
            policy: Arc::clone(policy),
            read: UnitList::default(),
            spent: None,
            is_answered: false,
            extending,
        }
    }

    /// Notes that the request was answered, and reads what the head of the response says was spent.
    pub(crate) fn answered(&mut self, headers: &mut HeaderMap, extensions: &Extensions) {
        self.is_answered = true;
        self.spent = extensions.get::<Spent>().cloned();
        self.policy.read(headers, &mut self.read);
    }

    /// Returns true if trailers may say what was spent.
    pub(super) fn reads_trailers(&self) -> bool {
        self.policy.reads_fields()
    }

    /// Reads what the trailers say was spent.
    pub(crate) fn trailers(&mut self, trailers: &mut HeaderMap) {
        self.policy.read(trailers, &mut self.read);
    }

    /// Settles it with what was spent, as far as that is not said otherwise.
    pub(crate) fn settle(mut self, spent: &Spent) {
        self.is_answered = true;
        self.spent = Some(spent.clone());
    }

    /// Settles it as it was estimated.
    pub(crate) fn keep(mut self) {
        self.is_answered = true;
    }

    /// Returns what it is settled with; none if it is cancelled.
    fn spent(&self, hold: &Hold) -> Option<UnitList> {
        let so_far = self.spent.as_ref().map(Spent::so_far).unwrap_or_default();
        if so_far.is_nothing {
            return None;
        }
        let mut said = self.read;
        for (unit, amount) in so_far.units.as_slice() {
            said.set(unit, *amount);
        }
        let mut counted = UnitList::default();
        for (unit, amount) in said.as_slice() {
            let mut units = hold.rules().plans().flat_map(Plan::units);
            if units.any(|counted| counted == unit) {
                counted.set(unit, *amount);
            } else {
                let plan = hold.plan().map_or("", |plan| plan.name().as_str());
                log::error(plan, &format_args!("spent: `{unit}` is counted by no rule, and was ignored"));
            }
        }
        Some(counted)
    }
}

impl Drop for RequestHold {
    fn drop(&mut self) {
        if let Some(extending) = self.extending.take() {
            extending.abort();
        }
        let Some(hold) = self.hold.take() else { return };
        let is_charged = self.is_answered || self.policy.charges_unanswered();
        // One that is not settled is cancelled as it is dropped.
        if let Some(spent) = self.spent(&hold).filter(|_| is_charged) {
            hold.settle_detached(Amounts::of(spent.as_slice()));
        }
    }
}

/// Extends the lease every half of it, until the task is ended or the hold is gone.
fn extend(hold: &Hold, keeper: &Keeper, key: &KeyBuf, policy: &HoldPolicy) -> Option<AbortHandle> {
    // Without knowing the state nothing is held.
    let id = hold.id().filter(|_| hold.reason.is_informed())?;
    let runtime = Handle::try_current().ok()?;
    let (keeper, key, lease) = (keeper.clone(), key.clone(), policy.lease_time());
    let half = lease.as_duration() / 2;
    let task = runtime.spawn(async move {
        let mut pause = half;
        loop {
            tokio::time::sleep(pause).await;
            let Ok(named) = key.key() else { return };
            pause = match keeper.extend(named, id, lease).await {
                Ok(outcome) if outcome.state == HoldState::Extended => half,
                // Its lease has run out, or somebody has reset the key: its request goes on.
                Ok(_) => return,
                // Three more tries before the lease ends.
                Err(_) => half / 4,
            };
        }
    });
    Some(task.abort_handle())
}
