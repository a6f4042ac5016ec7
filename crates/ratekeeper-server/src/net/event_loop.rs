//! One event loop on one core: it accepts connections, and serves them where it accepted them.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout, timeout_at};
use tracing::{Instrument, Level};

use super::connection::{Connection, Place, Places, Tick};
use super::listener;
use super::socket::Socket;
use super::stop::Stop;
use super::tls::Acceptor;
use super::transport::{Serving, Transport};

/// How long to leave the backlog alone when there is no room for another descriptor.
const BREATH: Duration = Duration::from_millis(50);

/// How long a client may take to agree on a cipher.
const HANDSHAKE: Duration = Duration::from_secs(10);

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// A listener, what is spoken there, and how many may speak at once.
#[derive(Debug)]
pub(super) struct Post {
    pub(super) listener: StdListener,
    pub(super) transport: Arc<dyn Transport>,
    pub(super) places: Arc<Places>,
    /// What to encrypt with, if anything.
    pub(super) tls: Option<Acceptor>,
    pub(super) bounds: Bounds,
}

/// How long clients are waited for, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// For a silent one; 0 for ever.
    pub(super) idle: u32,
    /// For one that must finish a request, or read a reply.
    pub(super) request: u32,
}

/// The connections of one loop.
#[derive(Debug, Default)]
struct Roll(Mutex<HashMap<u64, Entry>>);

#[derive(Debug)]
struct Entry {
    connection: Arc<Connection>,
    task: AbortHandle,
    bounds: Bounds,
}

impl Roll {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends what has been silent, or unfinished, for too long.
    fn dismiss(&self) {
        self.lock().retain(|_, entry| {
            let (silent, debt) = entry.connection.silence();
            let Bounds { idle, request } = entry.bounds;
            let expired = debt > request || (idle > 0 && silent > idle);
            if expired {
                tracing::debug!(id = entry.connection.id(), silent, debt, "waited long enough");
                entry.task.abort();
            }
            !expired
        });
    }
}

/// Runs until the stop is raised, and then at most until `grace` has passed or `cut` is raised.
pub(super) async fn run(
    posts: Vec<Post>,
    stop: Arc<Stop>,
    cut: Arc<Stop>,
    grace: Duration,
) -> io::Result<()> {
    let roll = Arc::new(Roll::default());
    let tick = Arc::new(Tick::default());
    let mut acceptors = Vec::with_capacity(posts.len());
    for post in posts {
        let Post { listener, transport, places, tls, bounds } = post;
        let listener = TcpListener::from_std(listener)?;
        let acceptor = Doorkeeper {
            transport,
            places,
            tls,
            bounds,
            stop: Arc::clone(&stop),
            roll: Arc::clone(&roll),
            tick: Arc::clone(&tick),
        };
        acceptors.push(tokio::spawn(acceptor.run(listener)));
    }
    let watch = tokio::spawn(watch(Arc::clone(&roll), tick));
    stop.wait().await;
    watch.abort();
    let deadline = Instant::now() + grace;
    let last = async {
        // Whoever is still in the backlog was promised an answer by the kernel: each acceptor empties it.
        for acceptor in acceptors {
            let _ = acceptor.await;
        }
        // A connection leaves the roll when it ends; there are no more to come.
        while !roll.lock().is_empty() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    let is_over = tokio::select! {
        ended = timeout_at(deadline, last) => ended.is_ok(),
        () = cut.wait() => roll.lock().is_empty(),
    };
    if !is_over {
        tracing::warn!(connections = roll.lock().len(), "closed connections that did not end in time");
    }
    Ok(())
}

/// Moves the clock, and looks at everyone once a second.
async fn watch(roll: Arc<Roll>, tick: Arc<Tick>) {
    let mut seconds = interval(Duration::from_secs(1));
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        seconds.tick().await;
        tick.advance();
        roll.dismiss();
    }
}

struct Doorkeeper {
    transport: Arc<dyn Transport>,
    places: Arc<Places>,
    tls: Option<Acceptor>,
    bounds: Bounds,
    stop: Arc<Stop>,
    roll: Arc<Roll>,
    tick: Arc<Tick>,
}

impl Doorkeeper {
    async fn run(self, listener: TcpListener) {
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
                    // The client has gone: the next one waits already. Anything else is our own want of descriptors
                    // or memory: it passes when somebody leaves, and must not be asked for in a tight loop.
                    if is_the_clients(&error) {
                        continue;
                    }
                    if !troubled {
                        tracing::error!(transport = self.transport.name(), %error, "cannot accept");
                    }
                    troubled = true;
                    tokio::select! {
                        () = sleep(BREATH) => {}
                        () = self.stop.wait() => return,
                    }
                }
            }
        }
    }

    fn admit(&self, socket: TcpStream, peer: SocketAddr) {
        let transport = &self.transport;
        let Some(place) = self.places.take() else {
            tracing::debug!(transport = transport.name(), %peer, "refused: there are as many as may be");
            // A client that cannot even take these bytes at once is told nothing; nor is one that would have to
            // shake hands first.
            if self.tls.is_none() {
                let _ = socket.try_write(transport.refusal());
            }
            return;
        };
        // Replies are written whole: waiting for more of them would only delay.
        if socket.set_nodelay(true).is_err() {
            return;
        }
        // A client that vanished without a word is noticed in the end.
        let _ = SockRef::from(&socket).set_keepalive(true);
        let connection = self.connection(place, peer);
        let id = connection.id();
        let serving: Serving = match &self.tls {
            Some(tls) => {
                Box::pin(encrypted(tls.clone(), Arc::clone(transport), socket, Arc::clone(&connection)))
            }
            None => Arc::clone(transport).serve(Socket::Plain(socket), Arc::clone(&connection)),
        };
        let leaving = Leaving { roll: Arc::clone(&self.roll), id };
        // Held while spawning, so that the entry is there before the task can end and take it away.
        let mut roll = self.roll.lock();
        let serving = async move {
            let _leaving = leaving;
            serving.await;
        };
        // A span for each connection, never for a decision; and where nobody looks, not even room for one.
        let task = if tracing::enabled!(Level::DEBUG) {
            let span = tracing::debug_span!("connection", transport = transport.name(), id, %peer);
            span.in_scope(|| tracing::debug!("opened"));
            tokio::spawn(serving.instrument(span))
        } else {
            tokio::spawn(serving)
        };
        roll.insert(id, Entry { connection, task: task.abort_handle(), bounds: self.bounds });
    }

    fn connection(&self, place: Place, peer: SocketAddr) -> Arc<Connection> {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Arc::new(Connection::new(id, peer.ip(), Arc::clone(&self.stop), Arc::clone(&self.tick), place))
    }
}

/// Shakes hands, on the connection's own task, and serves.
async fn encrypted(
    tls: Acceptor,
    transport: Arc<dyn Transport>,
    socket: TcpStream,
    connection: Arc<Connection>,
) {
    connection.owes();
    let shaken = tokio::select! {
        shaken = timeout(HANDSHAKE, tls.shake(socket)) => shaken,
        () = connection.stop().wait() => return,
    };
    match shaken {
        Ok(Ok(stream)) => {
            connection.settled();
            transport.serve(Socket::Tls(Box::new(stream)), connection).await;
        }
        Ok(Err(error)) => tracing::debug!(transport = transport.name(), %error, "no TLS"),
        Err(_) => tracing::debug!(transport = transport.name(), "no TLS within {HANDSHAKE:?}"),
    }
}

fn is_the_clients(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// Takes a connection off the roll however it ends: by itself, by a panic, or because it was ended.
struct Leaving {
    roll: Arc<Roll>,
    id: u64,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        // `dismiss` holds the lock while it aborts, but an aborted task is dropped by its loop and not by the caller.
        self.roll.lock().remove(&self.id);
        // In the connection's span, which is entered for whatever its task drops.
        tracing::debug!("closed");
    }
}
