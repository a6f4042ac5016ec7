//! The store as programs use it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ratekeeper::port::{
    Answer, Charge, Grant, HoldAction, HoldChange, HoldOutcome, HoldRequest, HoldState, Judgment, Request,
    Standing, Store, Whole,
};
use ratekeeper::store::LoadedKeys;
use ratekeeper::{Amounts, Charged, Cost, Decision, MemoryStore, Name, StoreError, StoreErrorKind};
use tokio::sync::oneshot;

use crate::call::{Call, KeptCharges, KeptRequest, OwnedKey, kept_units, key, unasked};
use crate::counters::PostgresCounts;
use crate::crew::Crew;
use crate::held_plans::HeldPlans;

/// How often it is asked what the plans of a hold are called, which somebody else may change meanwhile.
const MOST_LOOKS: usize = 4;

/// A [`Store`] on PostgreSQL. Clones share the connections.
///
/// One statement decides all requests that wait, by the server's clock. A call is answered within the timeout, or told that
/// it was not decided in time, whatever the server does; there is no breaker: put it
/// behind [`Guarded`](ratekeeper::store::Guarded), and behind a [`StoreFront`](ratekeeper::store::StoreFront) if refusals are to
/// be remembered or tokens to be leased. Works without a runtime: it has a thread of its own.
///
/// # Cancel safety
///
/// Dropping the future of a call before its statement is sent means that it was never made; later, that it is not known
/// whether it was.
#[derive(Clone, Debug)]
pub struct PostgresStore {
    crew: Arc<Crew>,
    held: Arc<HeldPlans>,
    timeout: Duration,
}

/// An answer of the engine, which is always ready.
fn ready<T>(answer: Answer<'_, T>) -> Result<T, StoreError> {
    answer.now().unwrap_or_else(|_| Err(unasked()))
}

impl PostgresStore {
    pub(crate) fn new(crew: Crew, timeout: Duration) -> Self {
        PostgresStore { crew: Arc::new(crew), held: Arc::default(), timeout }
    }

    /// Returns what was done so far.
    pub fn counts(&self) -> PostgresCounts {
        self.crew.counters.read()
    }

    /// Connects by a connection of its own, and makes the table if it is not there: to know at the start what is wrong with the
    /// address or the user. May take as long as connecting may, for each host.
    ///
    /// # Errors
    ///
    /// What keeps the server from serving.
    pub async fn check(&self) -> Result<(), StoreError> {
        self.crew.check().await
    }

    /// Asks the engine about some keys, on the rows that they have.
    async fn ask<T: Send + 'static>(
        &self,
        keys: Vec<OwnedKey>,
        decide: impl FnMut(&LoadedKeys) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.ask_since(Instant::now(), keys, decide).await
    }

    /// Asks like [`PostgresStore::ask`]; but the time of the question began before.
    async fn ask_since<T: Send + 'static>(
        &self,
        began: Instant,
        keys: Vec<OwnedKey>,
        decide: impl FnMut(&LoadedKeys) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let answer = self.send(keys, (began, self.timeout), decide)?;
        answer.await.unwrap_or_else(|_| Err(unasked()))
    }

    /// Sends a question on its way, which had so much time at some instant. Those about one key are decided in the order in which
    /// they were sent.
    fn send<T: Send + 'static>(
        &self,
        keys: Vec<OwnedKey>,
        time: (Instant, Duration),
        decide: impl FnMut(&LoadedKeys) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<oneshot::Receiver<Result<T, StoreError>>, StoreError> {
        let (call, answer) = Call::new(keys, time, decide);
        self.crew.send(call)?;
        Ok(answer)
    }

    /// Asks the engine by a request.
    fn verb<'a, T: Send + 'static>(
        &'a self,
        request: Request<'a>,
        verb: impl Fn(&MemoryStore, Request<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<'a, T> {
        Answer::later(async move {
            let kept = KeptRequest::of(&request);
            let keys = vec![kept.key().clone()];
            self.ask(keys, move |loaded| kept.with(|request| verb(loaded.store(), request))).await
        })
    }

    /// Changes a hold. Its plans of now are told by their names, which its row has: if this process did not make it, they are
    /// looked at first, in the time of one call.
    async fn change(&self, change: HoldChange<'_>) -> Result<HoldOutcome, StoreError> {
        let (id, began) = (change.id, Instant::now());
        let mut known = self.held.of(id, change.plans);
        for _ in 0..MOST_LOOKS {
            let (own, plans, action) =
                (OwnedKey::from(change.key.as_bytes()), known.clone(), KeptAction::of(change.action));
            let keys = vec![own.clone()];
            let decide = move |loaded: &LoadedKeys| -> Result<Result<HoldOutcome, Vec<Name>>, StoreError> {
                let key = key(&own)?;
                let missing = plans.missing(&loaded.plans_of_hold(key, id));
                if !missing.is_empty() {
                    return Ok(Err(missing));
                }
                let changed = action.with(|action| {
                    ready(loaded.store().change_hold(HoldChange { key, id, action, plans: &plans }))
                });
                changed.map(Ok)
            };
            match self.ask_since(began, keys, decide).await? {
                Ok(outcome) => {
                    if outcome.state != HoldState::Extended {
                        self.held.remove(id);
                    }
                    return Ok(outcome);
                }
                Err(names) => names.iter().for_each(|name| known.ask(name, change.plans)),
            }
        }
        let message = format!("id: {id}; its plans were replaced {MOST_LOOKS} times while it was looked at");
        Err(StoreError::new(StoreErrorKind::Contended, message))
    }
}

/// What is to become of a hold, kept for whoever asks later.
enum KeptAction {
    Settle(Option<Cost>, Vec<(String, u64)>),
    Cancel,
    Extend(ratekeeper::Nanos),
}

impl KeptAction {
    fn of(action: HoldAction<'_>) -> Self {
        match action {
            HoldAction::Settle(amounts) => {
                KeptAction::Settle(amounts.requests(), kept_units(amounts.units()))
            }
            HoldAction::Cancel => KeptAction::Cancel,
            HoldAction::Extend(lease) => KeptAction::Extend(lease),
        }
    }

    /// Asks something by the action as it was.
    fn with<T>(&self, ask: impl FnOnce(HoldAction<'_>) -> T) -> T {
        match self {
            KeptAction::Settle(requests, units) => {
                let units: Vec<(&str, u64)> = units.iter().map(|(unit, amount)| (&**unit, *amount)).collect();
                ask(HoldAction::Settle(amounts(*requests, &units)))
            }
            KeptAction::Cancel => ask(HoldAction::Cancel),
            KeptAction::Extend(lease) => ask(HoldAction::Extend(*lease)),
        }
    }
}

fn amounts<'a>(requests: Option<Cost>, units: &'a [(&'a str, u64)]) -> Amounts<'a> {
    match requests {
        Some(requests) => Amounts::new(requests, units),
        None => Amounts::of(units),
    }
}

impl Store for PostgresStore {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        self.verb(request, |store, request| ready(store.acquire(request)))
    }

    /// Sends all of them before it waits for the first answer, so that they share statements: also those of one key, which are
    /// decided in their order. One that cannot be decided, because others have locked its row, is given up a tenth of the timeout
    /// early: whoever guards this store by the same timeout gets the answers of the others.
    fn acquire_many<'a>(
        &'a self,
        requests: &'a [Request<'a>],
        into: &'a mut Vec<Result<Decision, StoreError>>,
    ) -> Answer<'a, ()> {
        Answer::later(async move {
            let time = (Instant::now(), self.timeout * 9 / 10);
            let send = |request| {
                let kept = KeptRequest::of(request);
                self.send(vec![kept.key().clone()], time, move |loaded| {
                    kept.with(|request| ready(loaded.store().acquire(request)))
                })
            };
            let sent: Vec<_> = requests.iter().map(send).collect();
            for answer in sent {
                into.push(match answer {
                    Ok(answer) => answer.await.unwrap_or_else(|_| Err(unasked())),
                    Err(error) => Err(error),
                });
            }
            Ok(())
        })
    }

    fn acquire_up_to<'a>(&'a self, request: Request<'a>, most: Cost) -> Answer<'a, Grant> {
        self.verb(request, move |store, request| ready(store.acquire_up_to(request, most)))
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        self.verb(request, |store, request| ready(store.peek(request)))
    }

    fn acquire_each<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        self.verb(request, |store, request| ready(store.acquire_each(request)))
    }

    fn peek_each<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        self.verb(request, |store, request| ready(store.peek_each(request)))
    }

    fn debit<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        self.verb(request, |store, request| ready(store.debit(request)))
    }

    /// Judges charges of several keys together: in one statement, which writes all of their rows or none.
    fn charge<'a>(&'a self, charges: &'a [Charge<'a>], whole: Whole) -> Answer<'a, Judgment> {
        Answer::later(async move {
            let kept = KeptCharges::of(charges);
            self.ask(kept.keys(), move |loaded| {
                kept.with(|charges| ready(loaded.store().charge(charges, whole)))
            })
            .await
        })
    }

    fn hold<'a>(&'a self, hold: HoldRequest<'a>) -> Answer<'a, Standing> {
        Answer::later(async move {
            let HoldRequest { key: of, plans, amounts: estimate, id, lease } = hold;
            let (own, kept) = (OwnedKey::from(of.as_bytes()), plans.to_vec());
            let (requests, units) = (estimate.requests(), kept_units(estimate.units()));
            let held = self
                .ask(vec![own.clone()], move |loaded| {
                    let units: Vec<(&str, u64)> =
                        units.iter().map(|(unit, amount)| (&**unit, *amount)).collect();
                    let amounts = amounts(requests, &units);
                    ready(loaded.store().hold(HoldRequest {
                        key: key(&own)?,
                        plans: &kept,
                        amounts,
                        id,
                        lease,
                    }))
                })
                .await?;
            if held.decision.allowed {
                self.held.add(id, plans);
            }
            Ok(held)
        })
    }

    /// Settles, cancels or prolongs a hold: in one statement if this process has made it lately, otherwise in two.
    fn change_hold<'a>(&'a self, change: HoldChange<'a>) -> Answer<'a, HoldOutcome> {
        Answer::later(self.change(change))
    }

    fn refund<'a>(&'a self, request: Request<'a>, charged: Charged) -> Answer<'a, Decision> {
        self.verb(request, move |store, request| ready(store.refund(request, charged)))
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, u64> {
        self.verb(request, |store, request| ready(store.reset(request)))
    }

    /// Forgets every state of every key that starts with `prefix`, a hundred rows at a time, each key once: what is made
    /// meanwhile may stay. The notes of when they were reset are forgotten, too. It is not bound by the timeout of a call; if it
    /// fails, some are gone already.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not stop it.
    fn forget<'a>(&'a self, prefix: &'a [u8]) -> Answer<'a, u64> {
        Answer::later(self.crew.forget(prefix))
    }
}
