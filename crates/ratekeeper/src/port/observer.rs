//! Callbacks for what happened: decisions, failures, breaker changes.

use std::fmt::Debug;

use super::breaker::BreakerChange;
use super::hold::{HoldId, HoldState};
use super::request::Request;
use super::standing::Standing;
use crate::{Decision, FailureMode, Key, Plan, Rule, Rules, StoreError};

/// Is told what happened. Whatever it does, a panic included, changes no decision.
///
/// It is called by the thread that decides, so a slow observer slows down requests. One that panics misses what else
/// this call would have told it, and is told of the next.
pub trait Observer: Send + Sync + Debug {
    /// Called once for every request to take that was decided, by a plan or by a quota of its own. Peeks, refunds and
    /// resets decide nothing.
    fn decided(&self, _request: &Request<'_>, _decision: &Decision) {}

    /// Called once for every batch of [`Keeper::acquire_many`](crate::Keeper::acquire_many), with each request's answer at
    /// its position; what could not be decided is an error. Calls [`decided`](Observer::decided) for the others, unless
    /// the observer can count them faster.
    fn decided_many(&self, requests: &[Request<'_>], answers: &[Result<Decision, StoreError>]) {
        for (request, answer) in requests.iter().zip(answers) {
            if let Ok(decision) = answer {
                self.decided(request, decision);
            }
        }
    }

    /// Called for every plan whose rules in shadow would have denied a request that was allowed, with the one of them that
    /// would have bound.
    fn would_deny(&self, _request: &Request<'_>, _plan: &Plan, _rule: &Rule) {}

    /// Called for every debit, and for every hold that was settled, with where the key stands then, and with what was
    /// [forgiven](Standing::forgiven).
    fn debited(&self, _key: Key<'_>, _standing: &Standing) {}

    /// Called for every hold that was taken.
    fn held(&self, _key: Key<'_>, _id: HoldId) {}

    /// Called when a hold was settled, cancelled or prolonged, now or before, or was gone already, with what it is now.
    fn hold_changed(&self, _key: Key<'_>, _id: HoldId, _state: HoldState) {}

    /// Called when the store failed, with what the failure mode answered (`None`: the error itself).
    fn store_failed(&self, _error: &StoreError, _answer: Option<&Decision>) {}

    /// Called once for every request that the store failed, with the failure mode that answers it: the strictest of its plans.
    fn failure_mode_answers(&self, _rules: Rules<'_>, _mode: FailureMode) {}

    /// Called when a request named a plan that does not exist, and went on without it.
    fn plan_missing(&self, _name: &str) {}

    /// Called once per state change, in the order of the changes, by the breaker this observer was registered with. A
    /// store on many servers has a breaker for each: the change [tells](BreakerChange::name) which.
    fn breaker_changed(&self, _change: &BreakerChange) {}
}
