//! The pool, and what callers see.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpStream, ToSocketAddrs};
use tokio::runtime::{Handle, Id};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::builder::Builder;
use crate::error::Error;
use crate::frame::{self, MAX_KEY};
use crate::link::{Link, Unsent};

/// What the server decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether the request may pass; what it costs has been taken then.
    pub allowed: bool,
    /// How much may be taken at once.
    pub limit: i64,
    /// How much is left.
    pub remaining: i64,
    /// When the same request would pass, rounded up to seconds: zero if it did, `None` if it never will.
    pub retry_after: Option<Duration>,
    /// When everything is left again, rounded up to seconds.
    pub reset_after: Duration,
}

/// A client of one server. Cheap to clone; clones share their connections.
///
/// A program may have several tokio runtimes: each has connections of its own, made when it first asks. So nobody waits
/// for a runtime that has ended, or that nobody drives.
#[derive(Clone, Debug)]
pub struct Client(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    settings: Builder,
    /// Few: most programs have one runtime, and others one for each core.
    runtimes: StdMutex<Vec<(Id, Arc<Places>)>>,
    next: AtomicUsize,
}

/// The connections of one runtime. Each place is locked while a connection is made for it, so that a server that comes
/// back is not stormed.
type Places = [Mutex<Option<Link>>];

impl Client {
    /// Connects with default settings.
    pub async fn connect(server: impl ToSocketAddrs) -> Result<Self, Error> {
        Self::builder().connect(server).await
    }

    /// Other settings.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn new(settings: Builder) -> Self {
        Client(Arc::new(Pool { settings, runtimes: StdMutex::default(), next: AtomicUsize::new(0) }))
    }

    pub(crate) async fn warm_up(&self) -> Result<(), Error> {
        let pool = &self.0;
        pool.in_time(Error::Connect(io::ErrorKind::TimedOut.into()), pool.link(0)).await.map(|_| ())
    }

    /// Takes `quantity` from the quota of a key: at most `burst` at once, and `rate` in `period` seconds in the long
    /// run. A quantity of 0 only looks. A denial is a decision, not an error.
    pub async fn throttle(
        &self,
        key: impl AsRef<[u8]>,
        burst: i64,
        rate: i64,
        period: i64,
        quantity: i64,
    ) -> Result<Decision, Error> {
        let key = key.as_ref();
        if key.is_empty() || key.len() > MAX_KEY {
            return Err(Error::Key { bytes: key.len() });
        }
        let pool = &self.0;
        let frame = frame::throttle(key, [burst, rate, period, quantity]);
        pool.in_time(Error::Timeout(pool.settings.timeout), pool.ask(frame)).await
    }
}

impl Pool {
    async fn in_time<T>(
        &self,
        late: Error,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        timeout(self.settings.timeout, work).await.unwrap_or(Err(late))
    }

    async fn ask(&self, mut frame: Vec<u8>) -> Result<Decision, Error> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        loop {
            let link = self.link(turn).await?;
            // A request that was never sent can be sent on the link that replaces this one. How often is bounded by
            // the time that the caller has.
            match link.ask(frame).await {
                Ok(reply) => return reply,
                Err(Unsent(again)) => frame = again,
            }
        }
    }

    /// The places of the current runtime: a connection is driven by a task, which runs only while its runtime does.
    fn places(&self) -> Arc<Places> {
        let id = Handle::current().id();
        let mut runtimes = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, places)) = runtimes.iter().find(|(of, _)| *of == id) {
            return Arc::clone(places);
        }
        // A runtime that has ended has dropped its connections, and nobody asks for them any longer.
        runtimes.retain(|(_, places)| Arc::strong_count(places) > 1 || places.iter().any(is_in_use));
        let places: Arc<Places> = (0..self.settings.connections).map(|_| Mutex::new(None)).collect();
        runtimes.push((id, Arc::clone(&places)));
        places
    }

    /// The link whose turn it is; a new one if it is lost.
    async fn link(&self, turn: usize) -> Result<Link, Error> {
        let places = self.places();
        let mut place = places[turn % places.len()].lock().await;
        if let Some(link) = &*place
            && !link.is_lost()
        {
            return Ok(link.clone());
        }
        *place = None;
        let socket = TcpStream::connect(&self.settings.addresses[..]).await.map_err(Error::Connect)?;
        socket.set_nodelay(true).map_err(Error::Connect)?;
        let link = Link::start(socket, self.settings.timeout);
        if let Some(token) = &self.settings.token {
            let gone = |_| Error::Connect(io::ErrorKind::ConnectionReset.into());
            // Nothing was charged, whatever became of this one.
            link.ask(frame::auth(token)).await.map_err(gone)?.map_err(|error| match error {
                Error::Lost(kind) => Error::Connect(kind.into()),
                other => other,
            })?;
        }
        *place = Some(link.clone());
        Ok(link)
    }
}

/// Whether there is a connection at a place, or one is being made.
fn is_in_use(place: &Mutex<Option<Link>>) -> bool {
    place.try_lock().map_or(true, |link| link.as_ref().is_some_and(|link| !link.is_lost()))
}

#[cfg(test)]
mod tests;
