//! The connections of a client: a few for each runtime, each replaced when it is lost.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::runtime::{Handle, Id};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::connection::{ClientConnection, Unsent};
use crate::error::ClientError;
use crate::frame::{self, ReplyBody};

/// What a pool goes by.
#[derive(Clone, Debug)]
pub(crate) struct PoolSettings {
    pub(crate) connections: usize,
    pub(crate) timeout: Duration,
    pub(crate) token: Option<String>,
    pub(crate) addresses: Vec<SocketAddr>,
}

/// The connections to one server.
#[derive(Debug)]
pub(crate) struct ConnectionPool {
    settings: PoolSettings,
    /// Few: most programs have one runtime, and others one for each core.
    runtimes: StdMutex<Vec<(Id, Arc<RuntimeConnections>)>>,
    next: AtomicUsize,
}

/// The connections of one runtime. Each is locked while it is made, so that a server that comes back gets one attempt at
/// a time for each of them.
type RuntimeConnections = [Mutex<Option<ClientConnection>>];

impl ConnectionPool {
    /// Returns a pool that has connected once.
    pub(crate) async fn connect(settings: PoolSettings) -> Result<Self, ClientError> {
        let pool = ConnectionPool { settings, runtimes: StdMutex::default(), next: AtomicUsize::new(0) };
        pool.in_time(ClientError::Connect(io::ErrorKind::TimedOut.into()), pool.connection(0)).await?;
        Ok(pool)
    }

    /// Sends a request on the connection whose turn it is, and waits for the reply.
    pub(crate) async fn ask(&self, frame: Vec<u8>) -> Result<ReplyBody, ClientError> {
        self.in_time(ClientError::Timeout(self.settings.timeout), self.exchange(frame)).await
    }

    async fn in_time<T>(
        &self,
        late: ClientError,
        work: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        timeout(self.settings.timeout, work).await.unwrap_or(Err(late))
    }

    async fn exchange(&self, mut frame: Vec<u8>) -> Result<ReplyBody, ClientError> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        loop {
            let connection = self.connection(turn).await?;
            // A request that was never sent can be sent on the connection that replaces this one. How often is bounded
            // by the time that the caller has.
            match connection.ask(frame).await {
                Ok(reply) => return reply,
                Err(Unsent(again)) => frame = again,
            }
        }
    }

    /// Returns the connections of the current runtime: a connection is driven by a task, which runs only while its
    /// runtime does.
    fn of_runtime(&self) -> Arc<RuntimeConnections> {
        let id = Handle::current().id();
        let mut runtimes = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, connections)) = runtimes.iter().find(|(of, _)| *of == id) {
            return Arc::clone(connections);
        }
        // A runtime that has ended has dropped its connections, and nobody asks for them any longer.
        runtimes.retain(|(_, connections)| {
            Arc::strong_count(connections) > 1 || connections.iter().any(is_in_use)
        });
        let connections: Arc<RuntimeConnections> =
            (0..self.settings.connections).map(|_| Mutex::new(None)).collect();
        runtimes.push((id, Arc::clone(&connections)));
        connections
    }

    /// Returns the connection whose turn it is; a new one if it is lost.
    async fn connection(&self, turn: usize) -> Result<ClientConnection, ClientError> {
        let connections = self.of_runtime();
        let mut current = connections[turn % connections.len()].lock().await;
        if let Some(connection) = &*current
            && !connection.is_lost()
        {
            return Ok(connection.clone());
        }
        *current = None;
        let socket = TcpStream::connect(&self.settings.addresses[..]).await.map_err(ClientError::Connect)?;
        socket.set_nodelay(true).map_err(ClientError::Connect)?;
        let connection = ClientConnection::start(socket, self.settings.timeout);
        if let Some(token) = &self.settings.token {
            let gone = |_| ClientError::Connect(io::ErrorKind::ConnectionReset.into());
            // Nothing was charged, whatever became of this request.
            connection.ask(frame::auth(token)).await.map_err(gone)?.map_err(|error| match error {
                ClientError::Lost(kind) => ClientError::Connect(kind.into()),
                other => other,
            })?;
        }
        *current = Some(connection.clone());
        Ok(connection)
    }
}

/// Returns true if there is a connection here that works, or one is being made.
fn is_in_use(current: &Mutex<Option<ClientConnection>>) -> bool {
    current
        .try_lock()
        .map_or(true, |connection| connection.as_ref().is_some_and(|connection| !connection.is_lost()))
}

#[cfg(test)]
mod tests;
