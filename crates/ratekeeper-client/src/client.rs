//! The pool, and what callers see.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::{TcpStream, ToSocketAddrs};
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
#[derive(Clone, Debug)]
pub struct Client(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    settings: Builder,
    /// Each place is locked while a connection is made for it, so that a server that comes back is not stormed.
    places: Vec<Mutex<Option<Link>>>,
    next: AtomicUsize,
}

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
        let places = (0..settings.connections).map(|_| Mutex::new(None)).collect();
        Client(Arc::new(Pool { settings, places, next: AtomicUsize::new(0) }))
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
            let link = self.link(turn % self.places.len()).await?;
            // A request that was never sent can be sent on the link that replaces this one. How often is bounded by
            // the time that the caller has.
            match link.ask(frame).await {
                Ok(reply) => return reply,
                Err(Unsent(again)) => frame = again,
            }
        }
    }

    /// The link at a place; a new one if it is lost.
    async fn link(&self, index: usize) -> Result<Link, Error> {
        let mut place = self.places[index].lock().await;
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
