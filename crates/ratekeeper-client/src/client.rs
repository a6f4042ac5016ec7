//! The client as a program uses it: one verb to take, one to look.

use std::sync::Arc;

use crate::decision::RemoteDecision;
use crate::error::ClientError;
use crate::frame;
use crate::pool::ConnectionPool;
use crate::quota::{RemoteQuota, ThrottleParts};

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
        self.0.ask(frame::throttle(ThrottleParts::new(key, quota, cost)?)).await
    }
}
