//! Many requests in one call.

use std::convert::Infallible;

use super::setup::Keeper;
use crate::port::{Answer, Request};
use crate::{Decision, StoreError, StoreErrorKind};

impl Keeper {
    /// Takes many costs, as a transport does that has read many requests at once. Each request's answer is appended to
    /// `into`, in the order of the requests; requests of one key are decided in that order. One that fails does not fail
    /// the others.
    ///
    /// The rules come resolved: a quota of the request's own, or plans that were [found](crate::port::Plans::find) by
    /// name. Each answer is what [`acquire`](Keeper::acquire) would have answered, the failure mode included: an error is
    /// left only where that says [`Error`](crate::FailureMode::Error). What the [local store](Keeper::local_store) took has no
    /// [`charged_at`](Decision::charged_at), because a bare decision cannot tell who took it, and the real store must not
    /// give it back.
    ///
    /// Each observer is called once for the whole batch: [`Observer::decided_many`](crate::port::Observer::decided_many).
    ///
    /// # Cost
    ///
    /// Over a store in memory it is ready at once, reads the clock once, and allocates nothing if `into` has room; while
    /// somebody waits [within](super::Attempt::within) some time for whatever key, and for a batch in which a request is held
    /// to nothing, it has to be awaited. Over a remote store different keys are asked for at once.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it was awaited, it has asked nobody, unless it is ready: then everything is done. Dropped while it
    /// is awaited, whether the store has taken the costs is not known, and `into` may lack answers.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratekeeper::port::Request;
    /// use ratekeeper::{Cost, Keeper, Key, MemoryStore, Quota, Registry, Rules};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let keeper = Keeper::new(MemoryStore::default(), Registry::default());
    /// let quota: Quota = "1/h".parse()?;
    /// let request = Request::new(Key::new("user:42")?, Rules::Quota(&quota), Cost::ONE);
    /// let mut answers = Vec::new();
    /// let Ok(()) = keeper.acquire_many(&[request, request], &mut answers).await;
    /// let allowed: Vec<bool> = answers.iter().flatten().map(|decision| decision.allowed).collect();
    /// assert_eq!(allowed, [true, false]);
    /// # Ok(()) }
    /// ```
    #[inline]
    pub fn acquire_many<'a>(
        &'a self,
        requests: &'a [Request<'a>],
        into: &'a mut Vec<Result<Decision, StoreError>>,
    ) -> Answer<'a, (), Infallible> {
        let before = into.len();
        if let [only] = requests
            && !self.needs_care(requests)
        {
            return match self.store.acquire(*only).now() {
                Ok(answer) => {
                    into.push(answer);
                    self.settle_many(requests, into, before, Ok(()))
                }
                Err(pending) => Answer::later(async move {
                    into.push(pending.await);
                    self.settle_many(requests, into, before, Ok(())).await
                }),
            };
        }
        // An answer that is not ready borrows `into`: it is dropped, and has asked nobody.
        let at_once = self.take_many(requests, into).now().ok();
        match at_once {
            Some(whole) => self.settle_many(requests, into, before, whole),
            None => Answer::later(async move {
                let whole = self.take_many(requests, into).await;
                self.settle_many(requests, into, before, whole).await
            }),
        }
    }

    #[inline]
    fn take_many<'a>(
        &'a self,
        requests: &'a [Request<'a>],
        into: &'a mut Vec<Result<Decision, StoreError>>,
    ) -> Answer<'a, ()> {
        match self.needs_care(requests) {
            true => Answer::later(self.take_each(requests, into)),
            false => self.store.acquire_many(requests, into),
        }
    }

    /// Answers for what the store has failed, and tells the observers. `whole` is what the store said of all of them.
    #[inline]
    fn settle_many<'a>(
        &'a self,
        requests: &'a [Request<'a>],
        into: &'a mut Vec<Result<Decision, StoreError>>,
        before: usize,
        whole: Result<(), StoreError>,
    ) -> Answer<'a, (), Infallible> {
        if whole.is_err() || into.len() != before + requests.len() {
            fill_up(into, before + requests.len(), whole);
        }
        let answers = &mut into[before..];
        if answers.iter().all(Result::is_ok) {
            self.tell(|observer| observer.decided_many(requests, answers));
            return Answer::ready(Ok(()));
        }
        Answer::begun(self.answer_instead(requests, answers))
    }

    /// Answers as the failure modes say, one request after another.
    async fn answer_instead(
        &self,
        requests: &[Request<'_>],
        answers: &mut [Result<Decision, StoreError>],
    ) -> Result<(), Infallible> {
        for (request, answer) in requests.iter().zip(answers.iter_mut()) {
            let Err(error) = answer else { continue };
            let Ok(instead) = self.answer_for(*request, error).await;
            self.tell(|observer| observer.store_failed(error, instead.as_ref()));
            if let Some(decision) = instead {
                *answer = Ok(decision);
            }
        }
        self.tell(|observer| observer.decided_many(requests, answers));
        Ok(())
    }
}

/// Gives an error to every request that has no answer: the store's own to the first, and copies to the others.
#[cold]
fn fill_up(into: &mut Vec<Result<Decision, StoreError>>, upto: usize, whole: Result<(), StoreError>) {
    let message = "the store answered fewer requests than it was asked";
    let error = whole.err().unwrap_or_else(|| StoreError::new(StoreErrorKind::Other, message));
    let copies = upto.saturating_sub(into.len() + 1);
    into.truncate(upto);
    let copies: Vec<_> = (0..copies).map(|_| Err(error.without_source())).collect();
    if into.len() < upto {
        into.push(Err(error));
    }
    into.extend(copies);
}
