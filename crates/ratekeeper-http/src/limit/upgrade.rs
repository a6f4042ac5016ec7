//! Connections that leave HTTP (websockets, tunnels): in flight until they end.
//!
//! hyper hands an upgraded connection to whoever awaits the [`OnUpgrade`] in the request's extensions. That is the
//! handler, or what it spawns, long after it has dropped the request and answered: nothing that a layer can hold lives
//! as long as the connection does, except the connection itself. So the handler is given an upgrade of our own, which
//! yields the same connection with the permit and the hold inside.
//!
//! Only hyper can make an [`OnUpgrade`], and only for a connection that it serves. So it is given one to serve: a
//! handshake in memory, whose answer is held back until the real connection was upgraded. From then on bytes go
//! straight to the real one, at the cost of one more dynamic call for each read and write (ADR 10).

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use http::{Request, Response, StatusCode};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::{OnUpgrade, Upgraded};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::connection_hold::ConnectionHold;

/// What is asked in the handshake.
const HANDSHAKE: &[u8] = b"GET / HTTP/1.1\r\nconnection: upgrade\r\nupgrade: any\r\n\r\n";
/// What ends the head of a response.
const END_OF_HEAD: &[u8] = b"\r\n\r\n";

/// A request that asks for an upgrade, until it is answered. Dropped before that, or because the answer was no, it ends
/// what waits for the upgrade.
pub(crate) struct Upgrade {
    slot: Arc<ConnectionSlot>,
    /// Hands the connection over; none once nothing but the connection's own end should end it.
    task: Option<AbortHandle>,
}

/// Where what a request holds is put when the connection is upgraded: the connection holds the other end.
#[derive(Default)]
struct ConnectionSlot(Mutex<Option<ConnectionHold>>);

/// The real connection, once it was upgraded.
type Handover = Arc<Mutex<Option<Upgraded>>>;

impl Upgrade {
    /// Puts an upgrade of our own in the place of the one that the request has, if it has one.
    pub(crate) fn intercept<B>(request: &mut Request<B>) -> Option<Self> {
        let runtime = Handle::try_current().ok()?;
        let real = request.extensions_mut().remove::<OnUpgrade>()?;
        let slot = Arc::new(ConnectionSlot::default());
        let handover = Handover::default();
        let io = UpgradedConnection {
            unread: HANDSHAKE,
            matched: 0,
            handover: Arc::clone(&handover),
            live: None,
            _slot: Arc::clone(&slot),
        };
        let (sender, receiver) = oneshot::channel::<Upgraded>();
        let ours = Arc::new(Mutex::new(None));
        let (made, receiver) = (Arc::clone(&ours), Mutex::new(Some(receiver)));
        let service = service_fn(move |asked: Request<hyper::body::Incoming>| {
            *lock(&made) = Some(hyper::upgrade::on(asked));
            let (receiver, handover) = (lock(&receiver).take(), Arc::clone(&handover));
            async move {
                if let Some(receiver) = receiver
                    && let Ok(upgraded) = receiver.await
                {
                    *lock(&handover) = Some(upgraded);
                }
                let mut response = Response::new(String::new());
                *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
                Ok::<_, Infallible>(response)
            }
        });
        let mut builder = http1::Builder::new();
        builder.header_read_timeout(None).auto_date_header(false).max_buf_size(8192);
        let mut serving = Box::pin(builder.serve_connection(io, service).with_upgrades());
        // Everything that there is to read is there: the handshake is asked now, and answered by the task.
        let asked = serving.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let (Poll::Pending, Some(ours)) = (asked, lock(&ours).take()) else {
            request.extensions_mut().insert(real);
            return None;
        };
        request.extensions_mut().insert(ours);
        let task = runtime.spawn(async move {
            // Not upgraded: whoever awaits ours is told so, because the handshake is dropped.
            let Ok(upgraded) = real.await else { return };
            if sender.send(upgraded).is_ok() {
                let _ = serving.await;
            }
        });
        Some(Upgrade { slot, task: Some(task.abort_handle()) })
    }

    /// The answer was yes: has the connection hold this until the connection ends, or turns out not to be upgraded after all.
    pub(crate) fn hold(mut self, held: ConnectionHold) {
        *lock(&self.slot.0) = Some(held);
        // What waits for the upgrade has the other end of the slot. It is not ended: if the connection is lost now,
        // it hears of it.
        self.task = None;
    }
}

impl Drop for Upgrade {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

/// What is served in memory until the real connection was upgraded, and the real connection from then on.
struct UpgradedConnection {
    /// Of the handshake.
    unread: &'static [u8],
    /// How much of the end of the response's head was written last.
    matched: usize,
    handover: Handover,
    live: Option<Upgraded>,
    /// Last, so that the connection has ended when the next one is let in.
    _slot: Arc<ConnectionSlot>,
}

impl UpgradedConnection {
    /// Looks for the end of the response's head, after which everything is for the real connection. Returns how many of
    /// the bytes belong to the head.
    fn skip_head(&mut self, bytes: &[u8]) -> usize {
        for (index, byte) in bytes.iter().enumerate() {
            // No prefix of the end is repeated in it but a lone CR, which begins it.
            self.matched = match END_OF_HEAD.get(self.matched) {
                Some(expected) if expected == byte => self.matched + 1,
                _ => usize::from(*byte == END_OF_HEAD[0]),
            };
            if self.matched == END_OF_HEAD.len() {
                self.live = lock(&self.handover).take();
                return index + 1;
            }
        }
        bytes.len()
    }
}

impl Read for UpgradedConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(live) = &mut self.live {
            return Pin::new(live).poll_read(context, buffer);
        }
        if self.unread.is_empty() {
            // Nobody is woken: nothing more is read before the real connection is there, and what puts it there is
            // awake.
            return Poll::Pending;
        }
        let (now, later) = self.unread.split_at(self.unread.len().min(buffer.remaining()));
        buffer.put_slice(now);
        self.unread = later;
        Poll::Ready(Ok(()))
    }
}

impl Write for UpgradedConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.live {
            Some(live) => Pin::new(live).poll_write(context, bytes),
            None => Poll::Ready(Ok(self.skip_head(bytes))),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.live {
            Some(live) => Pin::new(live).poll_write_vectored(context, parts),
            None => {
                let first = parts.iter().find(|part| !part.is_empty());
                Poll::Ready(Ok(first.map_or(0, |part| self.skip_head(part))))
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.live.as_ref().is_some_and(Write::is_write_vectored)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.live {
            Some(live) => Pin::new(live).poll_flush(context),
            None => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.live {
            Some(live) => Pin::new(live).poll_shutdown(context),
            None => Poll::Ready(Ok(())),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
