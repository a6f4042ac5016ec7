//! Nobody overtakes those who wait.

use super::ask::Intent;
use super::error::KeeperError;
use super::expected::turned_away;
use super::fallback::Fallback;
use super::resolve::Understood;
use super::ruling::Ruling;
use super::setup::Keeper;
use crate::port::{Answer, Request, Store, acquire_each};
use crate::{Decision, Reason, StoreError};

impl Keeper {
    /// Takes for somebody who does not wait: unless others wait for the same, who go first. Costs one atomic load while
    /// nobody waits.
    #[inline]
    pub(super) fn take_in_turn<'a, T: Fallback + Send + 'a>(
        &'a self,
        understood: Understood<'a>,
        question: impl for<'q> Fn(&'q dyn Store, Request<'q>) -> Answer<'q, T> + Copy + Send + 'a,
    ) -> Answer<'a, Ruling, KeeperError> {
        let Some(ahead) = self.lines.ahead_of(&understood.request()) else {
            return self.decide(understood, Intent::Take, question);
        };
        let (key, cost) = (understood.key, understood.cost);
        self.refusal_behind(understood, ahead)
            .map(move |refused| refused.inspect(|ruling| self.announce(key, cost, ruling)))
    }

    /// Takes for one of those who wait. The observers are not told.
    #[inline]
    pub(super) fn take<'a>(&'a self, understood: Understood<'a>) -> Answer<'a, Ruling, KeeperError> {
        self.decide(understood, Intent::Try, |store, request| store.acquire(request))
    }

    /// Refuses, behind others who want `ahead` together; says when it may be worth coming back. Takes nothing, and the
    /// observers are not told. Only a store that fails where the plan says `open` is answered for, as everywhere.
    pub(super) fn refusal_behind<'a>(
        &'a self,
        understood: Understood<'a>,
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
        self.lines.are_used() || requests.iter().any(|request| request.rules.is_empty())
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

    /// Takes from this store for somebody who does not wait: its own answer, or a refusal behind others.
    pub(super) fn take_from<'a>(
        &'a self,
        store: &'a dyn Store,
        request: Request<'a>,
    ) -> Answer<'a, Decision> {
        if request.rules.is_empty() {
            return Answer::ready(Ok(Decision::unlimited(request)));
        }
        let Some(ahead) = self.lines.ahead_of(&request) else { return store.acquire(request) };
        store
            .peek(request)
            .map(move |peeked| peeked.map(|peeked| turned_away(peeked, request.rules, ahead, request.cost)))
    }
}
