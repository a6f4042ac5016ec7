//! One event loop on one core: it accepts connections, and serves them where it accepted them.

use std::collections::HashMap;
use std::io;
use std::net::TcpListener as StdListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout, timeout_at};

use super::connection::{Connection, Place, Places, Tick};
use super::socket::Socket;
use super::stop::Stop;
use super::tls::Acceptor;
use super::transport::{Serving, Transport};

/// How long a client may take to finish a request, or to read a reply, in seconds.
const PATIENCE: u32 = 30;
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
    /// Seconds after which a silent connection is closed; 0 for never.
    pub(super) idle_timeout: u32,
}

/// The connections of one loop.
#[derive(Debug, Default)]
struct Roll(Mutex<HashMap<u64, Entry>>);

#[derive(Debug)]
struct Entry {
    connection: Arc<Connection>,
    task: AbortHandle,
    idle_timeout: u32,
}

impl Roll {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends what has been silent, or unfinished, for too long.
    fn dismiss(&self) {
        self.lock().retain(|_, entry| {
            let (silent, debt) = entry.connection.silence();
            let expired = debt > PATIENCE || (entry.idle_timeout > 0 && silent > entry.idle_timeout);
            if expired {
                entry.task.abort();
            }
            !expired
        });
    }
}

/// Runs until the stop is raised, and then at most until `grace` has passed.
pub(super) async fn run(posts: Vec<Post>, stop: Arc<Stop>, grace: Duration) -> io::Result<()> {
    let roll = Arc::new(Roll::default());
    let tick = Arc::new(Tick::default());
    let mut acceptors = Vec::with_capacity(posts.len());
    for post in posts {
        let Post { listener, transport, places, tls, idle_timeout } = post;
        let listener = TcpListener::from_std(listener)?;
        let acceptor = Doorkeeper {
            transport,
            places,
            tls,
            idle_timeout,
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
    if timeout_at(deadline, last).await.is_err() {
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
    idle_timeout: u32,
    stop: Arc<Stop>,
    roll: Arc<Roll>,
    tick: Arc<Tick>,
}

impl Doorkeeper {
    async fn run(self, listener: TcpListener) {
        let mut troubled = false;
        loop {
            let accepted = tokio::select! {
                biased;
                accepted = listener.accept() => accepted,
                () = self.stop.wait() => return,
            };
            match accepted {
                Ok((socket, _)) => {
                    troubled = false;
                    self.admit(socket);
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

    fn admit(&self, socket: TcpStream) {
        let transport = &self.transport;
        let Some(place) = self.places.take() else {
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
        let connection = self.connection(place);
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
        let task = tokio::spawn(async move {
            let _leaving = leaving;
            serving.await;
        });
        let idle_timeout = self.idle_timeout;
        roll.insert(id, Entry { connection, task: task.abort_handle(), idle_timeout });
    }

    fn connection(&self, place: Place) -> Arc<Connection> {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Arc::new(Connection::new(id, Arc::clone(&self.stop), Arc::clone(&self.tick), place))
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
    }
}
