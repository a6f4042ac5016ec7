//! Nobody overtakes those who wait.

use super::ask::Intent;
use super::error::KeeperError;
use super::expected::turned_away;
use super::fallback::Fallback;
use super::resolve::Understood;
use super::ruling::Ruling;
use super::setup::Keeper;
use crate::port::{Answer, Request, Store};
use crate::{Decision, StoreError};

impl Keeper {
    /// Takes for somebody who does not wait: unless others wait for the same, who go first. Costs one atomic load while
    /// nobody waits.
    #[inline]
    pub(super) fn take_in_turn<'a, T: Fallback + Send + 'a>(
        &'a self,
        understood: Understood<'a>,
        question: impl for<'q> Fn(&'q dyn Store, Request<'q>) -> Answer<'q, T> + Copy + Send + 'a,
    ) -> Answer<'a, Ruling, KeeperError> {
        let Some(ahead) = self.lines.wanted(&understood.request()) else {
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
    /// observers are not told.
    pub(super) fn refusal_behind<'a>(
        &'a self,
        understood: Understood<'a>,
        ahead: u64,
    ) -> Answer<'a, Ruling, KeeperError> {
        let cost = understood.cost;
        self.decide(understood, Intent::Look, |store, request| store.peek(request)).map(move |peeked| {
            peeked.map(|ruling| {
                let refusal = turned_away(*ruling.decision(), ruling.rules(), ahead, cost);
                ruling.with(refusal)
            })
        })
    }

    /// Takes for each of these one after another: some have others waiting ahead of them, or are held to nothing, and no
    /// store is asked about those.
    pub(super) async fn take_one_by_one(
        &self,
        requests: &[Request<'_>],
        into: &mut Vec<Result<Decision, StoreError>>,
    ) -> Result<(), StoreError> {
        for request in requests {
            let answer = if request.rules.is_empty() {
                Ok(Decision::unlimited(*request))
            } else if let Some(ahead) = self.lines.wanted(request) {
                let peeked = self.store.peek(*request).await;
                peeked.map(|peeked| turned_away(peeked, request.rules, ahead, request.cost))
            } else {
                self.store.acquire(*request).await
            };
            into.push(answer);
        }
        Ok(())
    }
}
