//! Answers requests: the one place where a verb becomes a question to the keeper.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ratekeeper::keeper::KeeperError;
use ratekeeper::port::{AmountError, HoldId, HoldOutcome, HoldState};
use ratekeeper::{Key, Nanos, Ruling, StoreError, StoreErrorKind};

use crate::engine::Engine;
use crate::guesses::TokenCheck;
use crate::net::Connection;
use crate::otel::note_ruling;
use crate::request::{RequestError, RequestLimits, RequestedCharge, RequestedLimits, WireRequest};
use crate::rls::{RateLimitService, RlsAnswer, RlsCode, RlsError, RlsRequest};
use crate::secret::{Admin, AdminRight, LiveTokens, ShownRole};
use crate::watch::{AskedRequest, TransportMetrics};

/// What one transport on one event loop answers with: the engine, its counters, and the tokens of the server.
#[derive(Debug)]
pub(crate) struct Responder {
    transport: &'static str,
    engine: Arc<Engine>,
    metrics: Arc<TransportMetrics>,
    tokens: LiveTokens,
}

/// The answer to a request, which each wire writes its own way.
#[derive(Debug)]
pub(crate) enum WireAnswer {
    /// To a request to take, to look, to give back or to charge.
    Ruling(Ruling),
    /// To a request to hold; the id is there if it was allowed.
    Held(Ruling, Option<HoldId>),
    /// To a request to end a hold, or to prolong it.
    Changed(HoldOutcome),
    /// To a request to forget: how many states were forgotten.
    Forgotten(u64),
}

impl Responder {
    /// Returns what a transport of this name answers with on one event loop.
    pub(crate) fn new(transport: &'static str, engine: Arc<Engine>, tokens: LiveTokens) -> Self {
        let metrics = engine.metrics().transport(transport);
        Responder { transport, engine, metrics, tokens }
    }

    /// Returns the engine.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the engine, for work that outlives a request.
    pub(crate) fn shared_engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Returns the counters of this transport on this event loop.
    pub(crate) fn metrics(&self) -> &TransportMetrics {
        &self.metrics
    }

    /// Returns the tokens of the server.
    pub(crate) fn tokens(&self) -> &LiveTokens {
        &self.tokens
    }

    /// Returns the defaults and bounds for quotas that come with requests.
    pub(crate) fn limits(&self) -> &RequestLimits {
        self.engine.limits()
    }

    /// Returns what the tokens of a connection are checked with.
    pub(crate) fn check<'a>(&'a self, connection: &'a Connection) -> TokenCheck<'a> {
        TokenCheck {
            tokens: &self.tokens,
            guesses: self.engine.guesses(),
            metrics: &self.metrics,
            transport: self.transport,
            auth: connection.auth(),
        }
    }

    /// Returns whether a client that has shown a token of this role is an administrator.
    pub(crate) fn right(&self, shown: Option<ShownRole>, is_local: bool) -> AdminRight {
        self.tokens.admin(shown, is_local)
    }

    /// Answers a request, and counts the decision. Errors are counted by the wire, which also knows of mistakes that
    /// never become a request.
    ///
    /// # Errors
    ///
    /// A plan is unknown, it cannot be asked for these amounts, or the store failed and no failure mode answers for it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may leave a remote store with the request: what it took is not given back.
    pub(crate) async fn answer(&self, request: &WireRequest<'_>) -> Result<WireAnswer, RequestError> {
        let keeper = self.engine.keeper();
        let began = Instant::now();
        let ruling = match request {
            WireRequest::Acquire(charge) => {
                let attempt = keeper.acquire(charge.key, charge.limits.held_to(), charge.amounts);
                // One wait for both: it is inlined then.
                let ruling = if charge.tells_each { attempt.each() } else { attempt }.await?;
                self.metrics.took(charge.key, charge.amounts.cost().get(), &ruling, began);
                note_ruling(&ruling);
                return Ok(WireAnswer::Ruling(ruling));
            }
            WireRequest::Peek(charge) if charge.tells_each => {
                keeper.peek_each(charge.key, charge.limits.held_to(), charge.amounts).await?
            }
            WireRequest::Peek(charge) => {
                keeper.peek(charge.key, charge.limits.held_to(), charge.amounts).await?
            }
            WireRequest::Refund(charge, charged, Admin { .. }) => {
                keeper.refund(charge.key, charge.limits.held_to(), charge.amounts, *charged).await?
            }
            // Boxed: what is kept across these waits would otherwise enlarge every other request.
            WireRequest::Debit(charge, Admin { .. }) => return Box::pin(self.debit(charge, began)).await,
            WireRequest::Hold(charge, lease) => return Box::pin(self.hold(charge, *lease, began)).await,
            WireRequest::Settle(hold, amounts) => {
                let settled = Box::pin(async { keeper.settle(hold.key, hold.id, *amounts).await });
                return self.changed(settled.await, began);
            }
            WireRequest::Cancel(hold) => {
                let cancelled = Box::pin(async { keeper.cancel(hold.key, hold.id).await });
                return self.changed(cancelled.await, began);
            }
            WireRequest::Extend(hold, lease) => {
                let extended = Box::pin(async { keeper.extend(hold.key, hold.id, *lease).await });
                return self.changed(extended.await, began);
            }
            WireRequest::Reset(key, limits, Admin { .. }) => {
                return Ok(WireAnswer::Forgotten(self.reset(*key, limits).await?));
            }
            WireRequest::Forget(prefix, Admin { .. }) => {
                return self.engine.forget(prefix).await.map(WireAnswer::Forgotten).map_err(not_forgotten);
            }
        };
        self.metrics.looked(&ruling, began.elapsed());
        note_ruling(&ruling);
        Ok(WireAnswer::Ruling(ruling))
    }

    /// Answers Envoy's question by the service that it is asked of, and counts the decision. Errors are counted by the wire.
    ///
    /// # Errors
    ///
    /// Those of [`RateLimitService::should_rate_limit`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may leave a remote store with the charges: what it took is not given back.
    pub(crate) async fn should_rate_limit(
        &self,
        service: &RateLimitService,
        request: &RlsRequest,
        deadline: Option<Duration>,
    ) -> Result<RlsAnswer, RlsError> {
        let began = Instant::now();
        let asked = |asked: AskedRequest<'_>| self.metrics.asked(asked, began);
        let answered = service.answer(self.engine.keeper(), request, deadline, asked).await;
        match &answered {
            Ok(answer) => self.metrics.judged(answer.overall == RlsCode::Ok, began.elapsed()),
            Err(_) => self.metrics.not_judged(),
        }
        answered
    }

    /// Counts a request of Envoy that was refused before it was read to its end.
    pub(crate) fn refused_unread(&self, service: &RateLimitService) {
        service.refused_unread();
        self.metrics.not_judged();
    }

    async fn debit(&self, charge: &RequestedCharge<'_>, began: Instant) -> Result<WireAnswer, RequestError> {
        let keeper = self.engine.keeper();
        let debited = keeper.debit(charge.key, charge.limits.held_to(), charge.amounts).await;
        let ruling = debited.map_err(not_supported)?;
        // It was not refused, whatever would be now.
        self.metrics.decided(1, 0, began.elapsed());
        note_ruling(&ruling);
        Ok(WireAnswer::Ruling(ruling))
    }

    async fn hold(
        &self,
        charge: &RequestedCharge<'_>,
        lease: Nanos,
        began: Instant,
    ) -> Result<WireAnswer, RequestError> {
        let keeper = self.engine.keeper();
        let attempt = keeper.hold(charge.key, charge.limits.held_to(), charge.amounts).lease(lease);
        let hold = attempt.await.map_err(not_supported)?;
        let ruling = hold.ruling().clone();
        self.metrics.took(charge.key, charge.amounts.cost().get(), &ruling, began);
        note_ruling(&ruling);
        // The client ends it by its id, or its lease does.
        Ok(WireAnswer::Held(ruling, hold.leave()))
    }

    /// Counts what has become of a hold: one that is gone counts as denied.
    fn changed(
        &self,
        outcome: Result<HoldOutcome, KeeperError>,
        began: Instant,
    ) -> Result<WireAnswer, RequestError> {
        let outcome = outcome.map_err(not_supported)?;
        let is_gone = outcome.state == HoldState::Gone;
        self.metrics.decided((!is_gone).into(), is_gone.into(), began.elapsed());
        Ok(WireAnswer::Changed(outcome))
    }

    async fn reset(&self, key: Key<'_>, limits: &RequestedLimits<'_>) -> Result<u64, KeeperError> {
        match limits {
            RequestedLimits::All => self.engine.reset_everywhere(key).await,
            _ => self.engine.keeper().reset(key, limits.held_to()).await,
        }
    }
}

fn not_forgotten(error: KeeperError) -> RequestError {
    match error {
        KeeperError::Store(error) if error.kind() == StoreErrorKind::Unsupported => {
            RequestError::CannotForget(error.to_string())
        }
        error => error.into(),
    }
}

/// Tells amounts that a hold cannot be settled with, and stores without debts or holds, from stores that have failed.
#[cold]
fn not_supported(error: KeeperError) -> RequestError {
    let KeeperError::Store(error) = error else { return error.into() };
    match amounts_of(&error) {
        Some(amounts) => KeeperError::Amounts(amounts).into(),
        None if error.kind() == StoreErrorKind::Unsupported => RequestError::Unsupported(error.to_string()),
        None => KeeperError::Store(error).into(),
    }
}

fn amounts_of(error: &StoreError) -> Option<AmountError> {
    std::error::Error::source(error)?.downcast_ref::<AmountError>().cloned()
}
