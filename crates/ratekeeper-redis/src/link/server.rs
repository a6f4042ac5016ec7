//! A server that commands are sent to: the breaker before it, and the connections to it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ratekeeper::StoreError;
use ratekeeper::store::Breaker;
use redis::{Cmd, Value};

use super::breakers::BreakerFactory;
use super::deadline::Deadline;
use super::node::Node;
use super::options::LinkOptions;
use super::target::NodeTarget;
use crate::error::RedisError;

/// A server, with one breaker for all its callers.
pub(super) struct RedisServer {
    name: String,
    breaker: Option<Arc<Breaker>>,
    /// At least one. Each thread keeps to one of them.
    lanes: Box<[Arc<Node>]>,
}

impl RedisServer {
    /// Returns the server of this name, which must be no secret. `target` is called once for each connection of a runtime.
    pub(super) fn new(
        name: String,
        options: &LinkOptions,
        breakers: &BreakerFactory,
        target: impl Fn() -> NodeTarget,
    ) -> Arc<Self> {
        let lanes = (0..options.connections.get()).map(|_| Node::new(target(), *options)).collect();
        Arc::new(RedisServer { breaker: breakers.make(&name), name, lanes })
    }

    /// Returns what errors, logs and metrics call it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn breaker(&self) -> Option<&Arc<Breaker>> {
        self.breaker.as_ref()
    }

    /// Returns this thread's node of the server, past the breaker.
    pub(super) fn lane(&self) -> &Arc<Node> {
        &self.lanes[thread_number() % self.lanes.len()]
    }

    /// Sends a command, once, unless the breaker is open. One round trip.
    pub(super) async fn send(&self, command: &Cmd, deadline: Deadline) -> Result<Value, RedisError> {
        self.guard(deadline, self.lane().send(command)).await
    }

    /// Sends a command, after `ASKING`, to a server that is just getting the slot. One round trip.
    pub(super) async fn ask(&self, command: &Cmd, deadline: Deadline) -> Result<Value, RedisError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ASKING").add_command(command.clone());
        let exchange = async {
            let mut replies = self.lane().send_all(&pipeline, 2).await?;
            replies.pop().unwrap_or_else(|| Err(RedisError::unparsed("ASKING", "another reply after it")))
        };
        self.guard(deadline, exchange).await
    }

    /// Waits for an exchange unless the breaker is open, and records in the breaker how it ended.
    ///
    /// A future that is dropped before its end counts for nothing: its caller gave up. The end of our own patience counts
    /// as a failure. A connection that was lost counts for nothing either: each runtime has its own, and servers close what
    /// is idle; whether the server is there will show when the next one connects.
    async fn guard(
        &self,
        deadline: Deadline,
        exchange: impl Future<Output = Result<Value, RedisError>>,
    ) -> Result<Value, RedisError> {
        let Some(breaker) = &self.breaker else {
            return deadline.bound(exchange).await.map_err(|error| error.at(&self.name));
        };
        let permit = breaker.admit().map_err(RedisError::refused)?;
        let reply = deadline.bound(exchange).await.map_err(|error| error.at(&self.name));
        match &reply {
            Err(error) if error.is_lost() => drop(permit),
            Err(error) if !error.is_of_the_slot() => permit.failed(&StoreError::from(error.clone())),
            _ => permit.answered(),
        }
        reply
    }
}

/// Returns the number of this thread. Threads are numbered as they first ask, so that as many of them as there are lanes
/// have one each.
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    MINE.with(|mine| *mine)
}

impl fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisServer")
            .field("name", &self.name)
            .field("breaker", &self.breaker)
            .finish_non_exhaustive()
    }
}
