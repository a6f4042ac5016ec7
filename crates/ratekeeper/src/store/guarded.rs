//! A store behind a timeout and a breaker.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Sleep;

use super::breaker::{Breaker, BreakerPermit};
use super::task::alarm;
use crate::port::{
    Answer, Charge, Grant, HoldChange, HoldOutcome, HoldRequest, Judgment, Request, Standing, Store, Whole,
};
use crate::{Charged, Cost, Decision, StoreError, StoreErrorKind};

/// A store that never keeps a caller waiting for longer than its timeout: no answer within it is an error, and so is, at
/// once, any request while the [breaker](Breaker) is open. No request is ever sent twice, because the first one may have been
/// charged.
///
/// What is answered then is the [failure mode](crate::FailureMode) of the plan, as with any error of a store.
///
/// ```
/// use ratekeeper::store::{Breaker, Guarded};
/// use ratekeeper::{Keeper, MemoryStore, Registry};
///
/// let store = Guarded::new(MemoryStore::default(), Breaker::default());
/// let breaker = store.breaker();
/// let keeper = Keeper::new(store, Registry::default());
/// # let _ = (breaker, keeper);
/// ```
#[derive(Debug)]
pub struct Guarded<S> {
    store: S,
    breaker: Arc<Breaker>,
    timeout: Option<Duration>,
}

impl<S: Store> Guarded<S> {
    /// How long a store may take to answer, unless said otherwise.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_millis(100);

    /// Returns this store behind this breaker, with a timeout of its default length.
    pub fn new(store: S, breaker: Breaker) -> Self {
        Guarded { store, breaker: Arc::new(breaker), timeout: Some(Self::DEFAULT_TIMEOUT) }
    }

    /// Sets how long the store may take to answer; `None` for one that keeps a limit of its own. The timer is tokio's:
    /// outside of its runtime there is no limit.
    #[must_use]
    pub fn timeout(mut self, timeout: Option<Duration>) -> Self {
        self.timeout = timeout;
        self
    }

    /// Returns the breaker, to be looked at.
    pub fn breaker(&self) -> Arc<Breaker> {
        Arc::clone(&self.breaker)
    }

    /// Returns the store behind the breaker.
    pub fn inner(&self) -> &S {
        &self.store
    }

    fn guard<'a, T: Send + 'a>(&'a self, question: impl FnOnce(&'a S) -> Answer<'a, T>) -> Answer<'a, T> {
        let permit = match self.breaker.admit() {
            Ok(permit) => permit,
            Err(error) => return Answer::ready(Err(error)),
        };
        match question(&self.store).now() {
            Ok(answer) => Answer::ready(permit.settle(answer)),
            // Dropped before it is polled, this future drops the permit: nothing was asked, nothing is counted.
            Err(pending) => Answer::later(self.wait(permit, pending)),
        }
    }

    async fn wait<T>(&self, permit: BreakerPermit<'_>, answer: Answer<'_, T>) -> Result<T, StoreError> {
        permit.settle(self.in_time(answer).await)
    }

    async fn in_time<T>(&self, answer: Answer<'_, T>) -> Result<T, StoreError> {
        match self.timeout.and_then(|timeout| Some((timeout, alarm(timeout.into())?))) {
            Some((timeout, alarm)) => within(timeout, alarm, answer).await,
            None => answer.await,
        }
    }
}

/// Returns the answer, or an error when the alarm goes off.
async fn within<T>(timeout: Duration, alarm: Sleep, mut answer: Answer<'_, T>) -> Result<T, StoreError> {
    let mut alarm = pin!(alarm);
    poll_fn(|context| {
        if let Poll::Ready(answer) = Pin::new(&mut answer).poll(context) {
            return Poll::Ready(answer);
        }
        alarm.as_mut().poll(context).map(|()| {
            let message = format!("no answer within {timeout:?}; whether the store charged is not known");
            Err(StoreError::new(StoreErrorKind::Timeout, message))
        })
    })
    .await
}

impl<S: Store> Store for Guarded<S> {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        self.guard(|store| store.acquire(request))
    }

    fn acquire_up_to<'a>(&'a self, request: Request<'a>, most: Cost) -> Answer<'a, Grant> {
        self.guard(|store| store.acquire_up_to(request, most))
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        self.guard(|store| store.peek(request))
    }

    fn acquire_each<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        self.guard(|store| store.acquire_each(request))
    }

    fn peek_each<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        self.guard(|store| store.peek_each(request))
    }

    fn debit<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        self.guard(|store| store.debit(request))
    }

    /// One question to the breaker for all of them.
    fn charge<'a>(&'a self, charges: &'a [Charge<'a>], whole: Whole) -> Answer<'a, Judgment> {
        self.guard(move |store| store.charge(charges, whole))
    }

    fn hold<'a>(&'a self, hold: HoldRequest<'a>) -> Answer<'a, Standing> {
        self.guard(move |store| store.hold(hold))
    }

    fn change_hold<'a>(&'a self, change: HoldChange<'a>) -> Answer<'a, HoldOutcome> {
        self.guard(move |store| store.change_hold(change))
    }

    fn refund<'a>(&'a self, request: Request<'a>, charged: Charged) -> Answer<'a, Decision> {
        self.guard(move |store| store.refund(request, charged))
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, u64> {
        self.guard(|store| store.reset(request))
    }

    /// Passed on as it is: it looks at all keys, and may take longer than any timeout. Whether it succeeds says little
    /// about whether requests do, and while it is the one question that finds out, nobody else would be asked.
    fn forget<'a>(&'a self, prefix: &'a [u8]) -> Answer<'a, u64> {
        self.store.forget(prefix)
    }

    /// One question to the breaker for all of them: it counts as failed if any of them did, and for nothing if the store
    /// was asked for none of them.
    fn acquire_many<'a>(
        &'a self,
        requests: &'a [Request<'a>],
        into: &'a mut Vec<Result<Decision, StoreError>>,
    ) -> Answer<'a, ()> {
        let permit = match self.breaker.admit() {
            Ok(permit) => permit,
            Err(error) => return Answer::ready(Err(error)),
        };
        Answer::later(async move {
            let before = into.len();
            let whole = self.in_time(self.store.acquire_many(requests, into)).await;
            let each = into.iter().skip(before).map(|answer| answer.as_ref().err());
            permit.settle_all(whole.as_ref().err().map(Some).into_iter().chain(each));
            whole
        })
    }
}
