//! A request whose rules come resolved.

use std::convert::Infallible;

use super::error::KeeperError;
use super::fallback::Fallback;
use super::setup::Keeper;
use crate::port::{Answer, Request};
use crate::{Decision, FailureMode, StoreError, Timestamp};

impl Keeper {
    /// Takes the cost as [`acquire`](Keeper::acquire) does, for a request whose rules come resolved: a quota of its own,
    /// or plans that were [found](crate::port::Plans::find) by name. For callers who have their plans at hand, and want
    /// nothing but the decision.
    ///
    /// The decision is the one that [`acquire`](Keeper::acquire) would have made, the failure mode included, and the
    /// observers are called. What the [local store](Keeper::local_store) took has no
    /// [`charged_at`](Decision::charged_at), because a bare decision cannot tell who took it, and the real store must not
    /// give it back.
    ///
    /// An answer that is not ready has asked nobody, whichever store is to be awaited.
    ///
    /// # Errors
    ///
    /// A store that fails where the plan's [failure mode](FailureMode) is `error`.
    ///
    /// # Cost
    ///
    /// Over a store in memory it is ready at once and allocates nothing. Nothing is looked up, and no reference is counted:
    /// threads that decide by one plan share no cache line but those of the store.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratekeeper::port::Request;
    /// use ratekeeper::{Cost, Keeper, Key, MemoryStore, Plan, Registry, Rules};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let keeper = Keeper::new(MemoryStore::default(), Registry::default());
    /// let plan = Plan::parse("free", "1/h")?;
    /// let request = Request::new(Key::new("user:42")?, Rules::Plan(&plan), Cost::ONE);
    /// assert!(keeper.acquire_resolved(request).await?.allowed);
    /// assert!(!keeper.acquire_resolved(request).await?.allowed);
    /// # Ok(()) }
    /// ```
    #[inline]
    pub fn acquire_resolved<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        let answer = match self.needs_care(&[request]) {
            false => self.store.acquire(request),
            true => self.take_from(&*self.store, request),
        };
        match answer.now() {
            Ok(Ok(decision)) => {
                self.tell(|observer| observer.decided(&request, &decision));
                Answer::ready(Ok(decision))
            }
            Ok(Err(error)) => self.stand_in(request, error),
            Err(pending) => Answer::later(async move {
                match pending.await {
                    Ok(decision) => {
                        self.tell(|observer| observer.decided(&request, &decision));
                        Ok(decision)
                    }
                    Err(error) => self.stand_in(request, error).await,
                }
            }),
        }
    }

    /// Forgets the key as [`reset`](Keeper::reset) does, for a request whose rules come resolved; its cost does not count.
    ///
    /// # Errors
    ///
    /// A store that fails is an error here, whatever the plans say: nothing else would be true.
    pub fn reset_resolved<'a>(&'a self, request: Request<'a>) -> Answer<'a, u64, KeeperError> {
        Answer::later(async move {
            let forgotten = self.store.reset(request).await.map_err(|error| self.failed(error))?;
            let locally = self.local.reset(request).await;
            let Request { key, rules, .. } = request;
            self.lines.were_reset(|of, held_to| of == key.as_bytes() && held_to.share_state_with(rules));
            locally.map(|_| forgotten).map_err(KeeperError::Store)
        })
    }

    /// Answers for a store that has failed a request, and tells the observers.
    #[cold]
    fn stand_in<'a>(&'a self, request: Request<'a>, error: StoreError) -> Answer<'a, Decision> {
        self.answer_for(request, &error).map(move |Ok(instead)| {
            self.tell(|observer| observer.store_failed(&error, instead.as_ref()));
            let decision = instead.ok_or(error)?;
            self.tell(|observer| observer.decided(&request, &decision));
            Ok(decision)
        })
    }

    /// Returns what the failure mode answers instead of a store that failed; none if it leaves it at the error. Ready, unless
    /// the local store has to be awaited, which has not been asked yet then.
    pub(super) fn answer_for<'a>(
        &'a self,
        request: Request<'a>,
        error: &StoreError,
    ) -> Answer<'a, Option<Decision>, Infallible> {
        match self.answering_mode(request.rules, error) {
            // The local store's decision without its instant: the real store has not taken anything then.
            FailureMode::Local => self
                .take_from(&*self.local, request)
                .map(|taken| Ok(taken.ok().map(|decision| decision.charged(Timestamp::MIN)))),
            mode => Answer::ready(Ok(Decision::instead(mode, request))),
        }
    }
}
