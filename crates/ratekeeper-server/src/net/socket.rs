//! A client's socket, encrypted or not; transports do not see the difference.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::tls;

/// The socket of one client.
#[derive(Debug)]
pub(crate) enum Socket {
    /// Plain TCP.
    Plain(TcpStream),
    /// TLS over TCP. Boxed: its buffers would enlarge every connection.
    Tls(Box<tls::TlsStream>),
}

/// Upper bound on the bytes that TLS has decrypted and not handed out yet.
const DECRYPTED: usize = 64 * 1024;

impl Socket {
    /// Returns an upper bound on the bytes that can be read without waiting for the client.
    pub(crate) fn arrived(&self) -> usize {
        match self {
            Socket::Plain(_) => self.queued(),
            Socket::Tls(_) => self.queued() + DECRYPTED,
        }
    }

    /// Returns how many bytes the kernel has received and not handed out.
    pub(crate) fn queued(&self) -> usize {
        match self {
            Socket::Plain(socket) => queued(socket),
            Socket::Tls(socket) => queued(tls::inner(socket)),
        }
    }
}

#[cfg(unix)]
fn queued(socket: &TcpStream) -> usize {
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
