//! A client's socket, encrypted or not; transports do not see the difference.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;

use super::tls;

/// The socket of one client.
#[derive(Debug)]
pub(crate) enum Socket {
    /// Plain TCP.
    Plain(TcpStream),
    /// A socket of this machine.
    #[cfg(unix)]
    Unix(UnixStream),
    /// TLS over TCP. Boxed: its buffers would enlarge every connection.
    Tls(Box<tls::TlsStream>),
}

/// Upper bound on the bytes that TLS has decrypted and not handed out yet.
const DECRYPTED: usize = 64 * 1024;

/// Bytes that the kernel keeps for a client that is streamed to. Linux counts its own bookkeeping among twice as many.
const UNSENT: usize = 32 * 1024;

impl Socket {
    /// Returns an upper bound on the bytes that can be read without waiting for the client.
    pub(crate) fn arrived(&self) -> usize {
        match self {
            Socket::Tls(_) => self.queued() + DECRYPTED,
            _ => self.queued(),
        }
    }

    /// Returns how many bytes the kernel has received and not handed out.
    pub(crate) fn queued(&self) -> usize {
        match self {
            Socket::Plain(socket) => queued(socket),
            #[cfg(unix)]
            Socket::Unix(socket) => queued(socket),
            Socket::Tls(socket) => queued(tls::inner(socket)),
        }
    }

    /// Prepares a socket that was just accepted.
    pub(super) fn tune(&self) -> io::Result<()> {
        let Socket::Plain(socket) = self else { return Ok(()) };
        // Replies are written whole: delaying them to gather more would gain nothing.
        socket.set_nodelay(true)?;
        // So that a client that vanished without closing is noticed in the end.
        let _ = SockRef::from(socket).set_keepalive(true);
        Ok(())
    }

    /// Has the kernel keep few bytes that the client has not taken: of a client that takes a message a second and stops to read,
    /// it would otherwise keep minutes of them before anybody noticed.
    pub(crate) fn keep_little_unsent(&self) {
        // One that cannot be told keeps more, and does no harm.
        let _ = match self {
            Socket::Plain(socket) => SockRef::from(socket).set_send_buffer_size(UNSENT),
            #[cfg(unix)]
            Socket::Unix(socket) => SockRef::from(socket).set_send_buffer_size(UNSENT),
            Socket::Tls(socket) => SockRef::from(tls::inner(socket)).set_send_buffer_size(UNSENT),
        };
    }

    /// Sends these bytes if that needs no waiting.
    pub(super) fn send_at_once(&self, bytes: &[u8]) {
        let _ = match self {
            Socket::Plain(socket) => socket.try_write(bytes),
            #[cfg(unix)]
            Socket::Unix(socket) => socket.try_write(bytes),
            Socket::Tls(_) => Ok(0),
        };
    }
}

#[cfg(unix)]
fn queued(socket: &impl std::os::fd::AsFd) -> usize {
    rustix::io::ioctl_fionread(socket).map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// Not known on this platform: a stop answers only what was already read.
#[cfg(not(unix))]
fn queued(_: &TcpStream) -> usize {
    0
}

macro_rules! each {
    ($socket:expr, $inner:ident => $call:expr) => {
        match $socket.get_mut() {
            Socket::Plain($inner) => $call,
            #[cfg(unix)]
            Socket::Unix($inner) => $call,
            Socket::Tls($inner) => $call,
        }
    };
}

impl AsyncRead for Socket {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        each!(self, socket => Pin::new(socket).poll_read(context, room))
    }
}

impl AsyncWrite for Socket {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        each!(self, socket => Pin::new(socket).poll_write(context, bytes))
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, socket => Pin::new(socket).poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, socket => Pin::new(socket).poll_shutdown(context))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Socket::Plain(socket) => socket.is_write_vectored(),
            #[cfg(unix)]
            Socket::Unix(socket) => socket.is_write_vectored(),
            Socket::Tls(socket) => socket.is_write_vectored(),
        }
    }

    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self, socket => Pin::new(socket).poll_write_vectored(context, slices))
    }
}
