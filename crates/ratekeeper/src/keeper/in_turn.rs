//! Nobody overtakes those who wait.

use super::ask::Intent;
use super::error::KeeperError;
use super::expected::turned_away;
use super::fallback::Fallback;
use super::resolve::{AskedUnits, Understood};
use super::ruling::Ruling;
use super::setup::Keeper;
use crate::port::{Answer, Request, Store, acquire_each};
use crate::{Decision, Reason, Rules, StoreError};

impl Keeper {
    /// Takes for somebody who does not wait: unless others wait for the same, who go first. Costs one atomic load while
    /// nobody waits.
    #[inline]
    pub(super) fn take_in_turn<'a, U: AskedUnits + 'a, T: Fallback + Send + 'a>(
        &'a self,
        understood: Understood<'a, U>,
        question: impl for<'q> Fn(&'q dyn Store, Request<'q>) -> Answer<'q, T> + Copy + Send + 'a,
    ) -> Answer<'a, Ruling, KeeperError> {
        let Some(ahead) = self.lines.ahead_of(&understood.request()) else {
            return self.decide(understood, Intent::Take, question);
        };
        let Understood { key, cost, units, .. } = understood;
        self.refusal_behind(understood, ahead).map(move |refused| {
            refused.inspect(|ruling| {
                self.announce(Request { key, rules: ruling.rules(), cost, units: units.list() }, ruling);
            })
        })
    }

    /// Refuses, behind others who want `ahead` together; says when it may be worth coming back. Takes nothing, and the
    /// observers are not told. Only a store that fails where the plan says `open` is answered for, as everywhere.
    pub(super) fn refusal_behind<'a, U: AskedUnits + 'a>(
        &'a self,
        understood: Understood<'a, U>,
        ahead: u64,
    ) -> Answer<'a, Ruling, KeeperError> {
        let cost = understood.cost;
        self.decide(understood, Intent::Look, |store, request| store.peek(request)).map(move |peeked| {
            peeked.map(|ruling| match ruling.reason {
                // Nobody counts while the store is down and the plan says `open`: there is nothing to stand in line for.
                Reason::FailOpen => ruling.granting(cost),
                _ => {
                    let refusal = turned_away(*ruling.decision(), ruling.rules(), ahead, cost);
                    ruling.with(refusal)
                }
            })
        })
    }

    /// Returns true if some are not to be put to the store as they are: see [`take_from`](Keeper::take_from).
    #[inline]
    pub(super) fn needs_care(&self, requests: &[Request<'_>]) -> bool {
        let is_unusual = |request: &Request<'_>| request.rules.is_empty() || !request.is_plain();
        self.lines.are_used() || requests.iter().any(is_unusual)
    }

    /// Takes for each of these by itself: some have others waiting ahead of them, or are held to nothing, and no store is
    /// asked to take for those. As many are under way at once as of a batch that a store is handed whole.
    pub(super) async fn take_each<'a>(
        &'a self,
        requests: &'a [Request<'a>],
        into: &mut Vec<Result<Decision, StoreError>>,
    ) -> Result<(), StoreError> {
        acquire_each(requests, |request| self.take_from(&*self.store, request), into).await
    }

    /// Takes from this store for somebody who does not wait: its own answer, or a refusal behind others. The observers are
    /// told of rules in shadow that would have denied.
    pub(super) fn take_from<'a>(
        &'a self,
        store: &'a dyn Store,
        request: Request<'a>,
    ) -> Answer<'a, Decision> {
        let request = match request.rules {
            Rules::Plan(plan) => {
                Request { rules: Rules::Plan(plan.to_acquire().map_or(plan, |plan| plan)), ..request }
            }
            _ => request,
        };
        if request.rules.is_empty() {
            return Answer::ready(Ok(Decision::unlimited(request)));
        }
        let Some(ahead) = self.lines.ahead_of(&request) else {
            if request.is_plain() {
                return store.acquire(request);
            }
            return store.acquire_each(request).map(move |standing| {
                let standing = standing?;
                self.tell_of_shadows(&request, &standing);
                Ok(standing.decision)
            });
        };
        store
            .peek(request)
            .map(move |peeked| peeked.map(|peeked| turned_away(peeked, request.rules, ahead, request.cost)))
    }
}
