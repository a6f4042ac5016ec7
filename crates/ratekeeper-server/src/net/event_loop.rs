//! One event loop on one core: accepts connections, and serves them where it accepted them.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout, timeout_at};
use tracing::{Instrument, Level};

use super::acceptor::AcceptingSocket;
use super::connection::{CoarseClock, Connection};
use super::listener::{self, ListeningSocket};
use super::slots::{ConnectionSlot, ConnectionSlots};
use super::socket::Socket;
use super::stop::Stop;
use super::tls::Handshake;
use super::transport::{Serving, Transport};

/// How long the backlog is left alone when there is no descriptor for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long a client may take for a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// A listener of one transport on one event loop.
#[derive(Debug)]
pub(crate) struct BoundListener {
    /// Where connections come in.
    pub(crate) listener: ListeningSocket,
    /// The protocol that is spoken there.
    pub(crate) transport: Arc<dyn Transport>,
    /// How many connections there may be.
    pub(crate) slots: Arc<ConnectionSlots>,
    /// How connections are encrypted, if they are.
    pub(crate) tls: Option<Handshake>,
    /// How long clients are waited for.
    pub(crate) timeouts: ConnectionTimeouts,
}

/// How long clients are waited for, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionTimeouts {
    /// For a client that sends nothing; 0 means no limit.
    pub(crate) idle: u32,
    /// For a client that has to finish a request, or to read a reply.
    pub(crate) request: u32,
}

/// The connections of one event loop, by their ids.
#[derive(Debug, Default)]
struct OpenConnections(Mutex<HashMap<u64, OpenConnection>>);

#[derive(Debug)]
struct OpenConnection {
    connection: Arc<Connection>,
    task: AbortHandle,
    timeouts: ConnectionTimeouts,
}

impl OpenConnections {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, OpenConnection>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes connections that have been silent, or have left something unfinished, for too long.
    fn close_expired(&self) {
        self.lock().retain(|_, open| {
            let (silent, unfinished) = open.connection.silence();
            let ConnectionTimeouts { idle, request } = open.timeouts;
            let expired = unfinished > request || (idle > 0 && silent > idle);
            if expired {
                let id = open.connection.id();
                tracing::debug!(id, silent, unfinished, "connection: timed out");
                open.task.abort();
            }
            !expired
        });
    }
}

/// Serves until `stop` is raised, and then until all connections have ended, `grace` has passed, or `cut` is raised.
///
/// # Errors
///
/// A listener cannot be registered with the runtime.
pub(crate) async fn run_event_loop(
    listeners: Vec<BoundListener>,
    stop: Arc<Stop>,
    cut: Arc<Stop>,
    grace: Duration,
) -> io::Result<()> {
    let open = Arc::new(OpenConnections::default());
    let clock = Arc::new(CoarseClock::default());
    let mut acceptors = Vec::with_capacity(listeners.len());
    for bound in listeners {
        let BoundListener { listener, transport, slots, tls, timeouts } = bound;
        let listener = AcceptingSocket::new(listener)?;
        let acceptor = Acceptor {
            transport,
            slots,
            tls,
            timeouts,
            stop: Arc::clone(&stop),
            open: Arc::clone(&open),
            clock: Arc::clone(&clock),
        };
        acceptors.push(tokio::spawn(acceptor.run(listener)));
    }
    let watch = tokio::spawn(watch(Arc::clone(&open), clock));
    stop.wait().await;
    watch.abort();
    let deadline = Instant::now() + grace;
    let last = async {
        // The kernel has accepted the connections in the backlog, so they are served: each acceptor empties its own.
        for acceptor in acceptors {
            let _ = acceptor.await;
        }
        // A connection is removed when it ends, and no more are added.
        while !open.lock().is_empty() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    let is_over = tokio::select! {
        ended = timeout_at(deadline, last) => ended.is_ok(),
        () = cut.wait() => open.lock().is_empty(),
    };
    if !is_over {
        tracing::warn!(connections = open.lock().len(), "stop: closed connections that did not end in time");
    }
    Ok(())
}

/// Advances the clock and closes expired connections, once a second.
async fn watch(open: Arc<OpenConnections>, clock: Arc<CoarseClock>) {
    let mut seconds = interval(Duration::from_secs(1));
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        seconds.tick().await;
        clock.advance();
        open.close_expired();
    }
}

/// Accepts the connections of one listener.
struct Acceptor {
    transport: Arc<dyn Transport>,
    slots: Arc<ConnectionSlots>,
    tls: Option<Handshake>,
    timeouts: ConnectionTimeouts,
    stop: Arc<Stop>,
    open: Arc<OpenConnections>,
    clock: Arc<CoarseClock>,
}

impl Acceptor {
    async fn run(self, listener: AcceptingSocket) {
        let mut troubled = false;
        // After a stop the backlog is emptied, once: clients that connect all the time must not keep it open.
        let mut last = listener::BACKLOG;
        while last > 0 {
            if self.stop.is_raised() {
                last -= 1;
            }
            let accepted = tokio::select! {
                biased;
                accepted = listener.accept() => accepted,
                () = self.stop.wait() => return,
            };
            match accepted {
                Ok((socket, peer)) => {
                    troubled = false;
                    self.admit(socket, peer);
                }
                Err(error) => {
                    // A client that has gone is skipped. Anything else is a lack of descriptors or memory: it passes when
                    // a connection ends, and must not be retried in a tight loop.
                    if is_the_clients(&error) {
                        continue;
                    }
                    if !troubled {
                        tracing::error!(transport = self.transport.name(), %error, "accept: cannot accept connections");
                    }
                    troubled = true;
                    tokio::select! {
                        () = sleep(ACCEPT_PAUSE) => {}
                        () = self.stop.wait() => return,
                    }
                }
            }
        }
    }

    fn admit(&self, socket: Socket, peer: SocketAddr) {
        let transport = &self.transport;
        let Some(slot) = self.slots.take() else {
            tracing::debug!(transport = transport.name(), %peer, "accept: refused, max_connections reached");
            // Not sent to a client that cannot take these bytes at once, nor to one that expects a handshake first.
            if self.tls.is_none() {
                socket.send_at_once(transport.refusal());
            }
            return;
        };
        if socket.tune().is_err() {
            return;
        }
        let connection = self.connection(slot, peer);
        let id = connection.id();
        let serving: Serving = match (&self.tls, socket) {
            (Some(tls), Socket::Plain(socket)) => {
                Box::pin(encrypted(tls.clone(), Arc::clone(transport), socket, Arc::clone(&connection)))
            }
            (_, socket) => Arc::clone(transport).serve(socket, Arc::clone(&connection)),
        };
        let closed = RemoveOnDrop { open: Arc::clone(&self.open), id };
        // Locked while spawning, so that the connection is listed before its task can end and remove it.
        let mut open = self.open.lock();
        let serving = async move {
            let _closed = closed;
            serving.await;
        };
        // One span per connection, none per decision; and none at all, nor the room for it, unless it is logged.
        let task = if tracing::enabled!(Level::DEBUG) {
            let span = tracing::debug_span!("connection", transport = transport.name(), id, %peer);
            span.in_scope(|| tracing::debug!("connection: opened"));
            tokio::spawn(serving.instrument(span))
        } else {
            tokio::spawn(serving)
        };
        open.insert(id, OpenConnection { connection, task: task.abort_handle(), timeouts: self.timeouts });
    }

    fn connection(&self, slot: ConnectionSlot, peer: SocketAddr) -> Arc<Connection> {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Arc::new(Connection::new(id, peer.ip(), Arc::clone(&self.stop), Arc::clone(&self.clock), slot))
    }
}

/// Performs the TLS handshake on the connection's own task, and serves.
async fn encrypted(
    tls: Handshake,
    transport: Arc<dyn Transport>,
    socket: TcpStream,
    connection: Arc<Connection>,
) {
    connection.owes();
    let shaken = tokio::select! {
        shaken = timeout(HANDSHAKE_TIMEOUT, tls.perform(socket)) => shaken,
        () = connection.stop().wait() => return,
    };
    match shaken {
        Ok(Ok(stream)) => {
            connection.settled();
            transport.serve(Socket::Tls(Box::new(stream)), connection).await;
        }
        Ok(Err(error)) => tracing::debug!(transport = transport.name(), %error, "tls: handshake failed"),
        Err(_) => {
            tracing::debug!(transport = transport.name(), "tls: no handshake within {HANDSHAKE_TIMEOUT:?}")
        }
    }
}

fn is_the_clients(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// Removes a connection from the list however it ends: by itself, by a panic, or aborted.
struct RemoveOnDrop {
    open: Arc<OpenConnections>,
    id: u64,
}

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        // `close_expired` holds the lock while it aborts, but the loop drops an aborted task, not its caller.
        self.open.lock().remove(&self.id);
        // Within the connection's span, which is entered for whatever its task drops.
        tracing::debug!("connection: closed");
    }
}
