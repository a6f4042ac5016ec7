//! Answers requests: the one place where a verb becomes a question to the keeper.

use std::sync::Arc;
use std::time::Instant;

use ratekeeper::keeper::KeeperError;
use ratekeeper::{Key, Ruling, StoreErrorKind};

use crate::engine::Engine;
use crate::guesses::TokenCheck;
use crate::net::Connection;
use crate::request::{RequestError, RequestLimits, RequestedLimits, WireRequest};
use crate::secret::{Admin, NotAdmin, Role, Tokens};
use crate::watch::TransportMetrics;

/// What one transport on one event loop answers with: the engine, its counters, and the tokens of the server.
#[derive(Debug)]
pub(crate) struct Responder {
    transport: &'static str,
    engine: Arc<Engine>,
    metrics: Arc<TransportMetrics>,
    tokens: Tokens,
}

/// The answer to a request, which each wire writes its own way.
#[derive(Debug)]
pub(crate) enum WireAnswer {
    /// To a request to take, to look or to give back.
    Ruling(Ruling),
    /// To a request to forget: how many states were forgotten.
    Forgotten(u64),
}

impl Responder {
    /// Returns what a transport of this name answers with on one event loop.
    pub(crate) fn new(transport: &'static str, engine: Arc<Engine>, tokens: Tokens) -> Self {
        let metrics = engine.metrics().transport(transport);
        Responder { transport, engine, metrics, tokens }
    }

    /// Returns the engine.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the counters of this transport on this event loop.
    pub(crate) fn metrics(&self) -> &TransportMetrics {
        &self.metrics
    }

    /// Returns the tokens of the server.
    pub(crate) fn tokens(&self) -> &Tokens {
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

    /// Checks that a client in this role is an administrator.
    pub(crate) fn admin(&self, role: Option<Role>) -> Result<Admin, RequestError> {
        Ok(NotAdmin::check(&self.tokens, role)?)
    }

    /// Answers a request, and counts the decision. Errors are counted by the wire, which also knows of mistakes that
    /// never become a request.
    ///
    /// # Errors
    ///
    /// A plan is unknown or the store failed, and no failure mode answers for it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may leave a remote store with the request: what it took is not given back.
    pub(crate) async fn answer(&self, request: &WireRequest<'_>) -> Result<WireAnswer, RequestError> {
        let keeper = self.engine.keeper();
        let began = Instant::now();
        let ruling = match request {
            WireRequest::Acquire(charge) => {
                let ruling = keeper.acquire(charge.key, charge.limits.held_to(), charge.cost).await?;
                self.metrics.took(charge.key, &ruling, began.elapsed());
                return Ok(WireAnswer::Ruling(ruling));
            }
            WireRequest::Peek(charge) => {
                keeper.peek(charge.key, charge.limits.held_to(), charge.cost).await?
            }
            WireRequest::Refund(charge, charged) => {
                keeper.refund(charge.key, charge.limits.held_to(), charge.cost, *charged).await?
            }
            WireRequest::Reset(key, limits) => {
                return Ok(WireAnswer::Forgotten(self.reset(*key, limits).await?));
            }
            WireRequest::Forget(prefix, Admin { .. }) => {
                return self.engine.forget(prefix).await.map(WireAnswer::Forgotten).map_err(not_forgotten);
            }
        };
        self.metrics.looked(&ruling, began.elapsed());
        Ok(WireAnswer::Ruling(ruling))
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
