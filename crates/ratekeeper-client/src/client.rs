//! The client as a program uses it: verbs by quotas, by the names of plans, and about holds.

use std::sync::Arc;
use std::time::Duration;

use crate::amounts::RemoteAmounts;
use crate::decision::RemoteDecision;
use crate::error::ClientError;
use crate::frame::{self, PlanCommand};
use crate::hold_id::RemoteHoldId;
use crate::pool::ConnectionPool;
use crate::quota::{RemoteQuota, ThrottleParts};
use crate::reply_map::ReplyMap;
use crate::request::{PlanRequest, RequestParts, checked_lease, in_millis};
use crate::ruling::{RemoteHold, RemoteOutcome, RemoteRuling};

/// A client of one server. Cheap to clone; clones share their connections.
///
/// A program may have several tokio runtimes: each has connections of its own, made when it first asks. So no caller
/// waits for a runtime that has ended, or that nobody drives.
#[derive(Clone, Debug)]
pub struct Client(Arc<ConnectionPool>);

impl Client {
    pub(crate) fn over(pool: ConnectionPool) -> Self {
        Client(Arc::new(pool))
    }

    /// Takes `cost` from what a key may still take under a quota, all of it or nothing.
    ///
    /// One round trip. Requests of many callers travel together on a few connections, so that none waits for the reply
    /// to another.
    ///
    /// ```no_run
    /// # async fn example(client: ratekeeper_client::Client) -> Result<(), ratekeeper_client::ClientError> {
    /// use ratekeeper_client::RemoteQuota;
    ///
    /// let decision = client.acquire("user:123", RemoteQuota::per_minute(30).burst(15), 1).await?;
    /// if !decision.allowed {
    ///     println!("retry after {:?}", decision.retry_after);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ClientError::Invalid`] if the request cannot be right for any server, before anything is sent; a cost of 0 is
    /// such a request, which [`peek`](Client::peek) is for. Otherwise what the server or the connection says; a request
    /// that [may have been executed](ClientError::may_have_been_executed) is never sent again.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is done leaves it open whether the cost was taken.
    pub async fn acquire(
        &self,
        key: impl AsRef<[u8]>,
        quota: RemoteQuota,
        cost: u64,
    ) -> Result<RemoteDecision, ClientError> {
        if cost == 0 {
            let remedy = "pass at least 1, or use `peek` to look without taking";
            return Err(ClientError::Invalid { field: "cost", value: "0".to_owned(), remedy });
        }
        self.ask(key.as_ref(), quota, cost).await
    }

    /// Reports what a key may still take under a quota, and takes nothing. One round trip.
    ///
    /// # Errors
    ///
    /// As of [`acquire`](Client::acquire). Repeating a peek charges nothing, whatever its error says.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub async fn peek(
        &self,
        key: impl AsRef<[u8]>,
        quota: RemoteQuota,
    ) -> Result<RemoteDecision, ClientError> {
        // The wire's way to look without taking.
        self.ask(key.as_ref(), quota, 0).await
    }

    async fn ask(&self, key: &[u8], quota: RemoteQuota, cost: u64) -> Result<RemoteDecision, ClientError> {
        self.0.ask(frame::throttle(ThrottleParts::new(key, quota, cost)?)).await?.decision()
    }

    /// Takes what the request says from every rule of its plans, all of it or nothing. One round trip.
    ///
    /// # Errors
    ///
    /// As of [`acquire`](Client::acquire); a plan that does not exist, or amounts that it cannot be asked for, are
    /// [refused](ClientError::Refused).
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, as all verbs.
    pub async fn acquire_plans(&self, request: &PlanRequest) -> Result<RemoteRuling, ClientError> {
        self.planned(PlanCommand::Acquire, &request.checked()?).await?.ruling()
    }

    /// Reports what [`acquire_plans`](Client::acquire_plans), or [`hold`](Client::hold), would be answered, and takes nothing.
    ///
    /// # Errors
    ///
    /// As of [`acquire_plans`](Client::acquire_plans).
    pub async fn peek_plans(&self, request: &PlanRequest) -> Result<RemoteRuling, ClientError> {
        self.planned(PlanCommand::Peek, &request.checked()?).await?.ruling()
    }

    /// Gives back what is left of something that was taken so long ago: what has refilled since is not given back a second
    /// time. Rather say too much than too little.
    ///
    /// # Errors
    ///
    /// As of [`acquire_plans`](Client::acquire_plans). A server whose store fails refuses it.
    pub async fn refund_plans(
        &self,
        request: &PlanRequest,
        charged_ago: Duration,
    ) -> Result<RemoteRuling, ClientError> {
        // It is not told of each rule.
        let parts = RequestParts { age_ms: Some(in_millis(charged_ago)), each: false, ..request.checked()? };
        self.planned(PlanCommand::Refund, &parts).await?.ruling()
    }

    /// Charges what has happened already: never refused, and the debt is bounded. The answer tells where the key stands then,
    /// as one more of every unit would find it.
    ///
    /// # Errors
    ///
    /// As of [`acquire_plans`](Client::acquire_plans). A server whose store fails refuses it.
    pub async fn debit(&self, request: &PlanRequest) -> Result<RemoteRuling, ClientError> {
        self.planned(PlanCommand::Debit, &request.checked()?).await?.ruling()
    }

    /// Forgets a key under these plans; without plans, under everything. Returns how many states were forgotten.
    ///
    /// # Errors
    ///
    /// As of [`acquire_plans`](Client::acquire_plans).
    pub async fn reset(
        &self,
        key: impl AsRef<[u8]>,
        plans: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<u64, ClientError> {
        let plans: Vec<String> = plans.into_iter().map(Into::into).collect();
        let parts = RequestParts::forgotten(key.as_ref(), &plans)?;
        self.planned(PlanCommand::Reset, &parts).await?.whole("forgotten")
    }

    /// Takes an estimate from every rate rule and a place in every concurrency rule, all or nothing, until it is
    /// [settled](Client::settle) or [cancelled](Client::cancel), or its lease of 1 ms to 24 h runs out.
    ///
    /// # Errors
    ///
    /// As of [`acquire_plans`](Client::acquire_plans). What [may have been held](ClientError::may_have_been_executed) all the
    /// same ends with its lease.
    pub async fn hold(&self, request: &PlanRequest, lease: Duration) -> Result<RemoteHold, ClientError> {
        let parts = RequestParts { lease_ms: Some(checked_lease(lease)?), ..request.checked()? };
        self.planned(PlanCommand::Hold, &parts).await?.hold()
    }

    /// Ends a hold with what was spent: the difference to the estimate is given back or debited. What is not named stays as
    /// estimated. Repeating it, within the lease and a minute after, is harmless: the answer is the same.
    ///
    /// # Errors
    ///
    /// As of [`acquire_plans`](Client::acquire_plans). A hold that has ended is none: it is
    /// [gone](crate::RemoteHoldState::Gone).
    pub async fn settle(
        &self,
        key: impl AsRef<[u8]>,
        id: RemoteHoldId,
        spent: &RemoteAmounts,
    ) -> Result<RemoteOutcome, ClientError> {
        let parts = RequestParts { units: spent.checked()?, ..RequestParts::held(key.as_ref(), id)? };
        self.planned(PlanCommand::Settle, &parts).await?.outcome()
    }

    /// Ends a hold and gives all of it back. Repeating it is harmless, as of [`settle`](Client::settle).
    ///
    /// # Errors
    ///
    /// As of [`settle`](Client::settle).
    pub async fn cancel(
        &self,
        key: impl AsRef<[u8]>,
        id: RemoteHoldId,
    ) -> Result<RemoteOutcome, ClientError> {
        self.planned(PlanCommand::Cancel, &RequestParts::held(key.as_ref(), id)?).await?.outcome()
    }

    /// Has a hold last so long from now: 1 ms to 24 h.
    ///
    /// # Errors
    ///
    /// As of [`settle`](Client::settle).
    pub async fn extend(
        &self,
        key: impl AsRef<[u8]>,
        id: RemoteHoldId,
        lease: Duration,
    ) -> Result<RemoteOutcome, ClientError> {
        let lease_ms = Some(checked_lease(lease)?);
        let parts = RequestParts { lease_ms, ..RequestParts::held(key.as_ref(), id)? };
        self.planned(PlanCommand::Extend, &parts).await?.outcome()
    }

    async fn planned(&self, command: PlanCommand, parts: &RequestParts<'_>) -> Result<ReplyMap, ClientError> {
        self.0.ask(frame::planned(command, parts)).await?.map()
    }
}
