//! Connections of one listening socket, as they come in.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpListener;
#[cfg(unix)]
use tokio::net::UnixListener;

use super::listener::ListeningSocket;
use super::socket::Socket;

/// A listening socket, registered with an event loop.
#[derive(Debug)]
pub(super) enum AcceptingSocket {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(UnixListener),
}

impl AcceptingSocket {
    /// Registers a socket with the event loop of the caller.
    pub(super) fn new(socket: ListeningSocket) -> io::Result<Self> {
        Ok(match socket {
            ListeningSocket::Tcp(listener) => AcceptingSocket::Tcp(TcpListener::from_std(listener)?),
            #[cfg(unix)]
            ListeningSocket::Unix(listener) => AcceptingSocket::Unix(UnixListener::from_std(listener)?),
        })
    }

    /// Waits for the next client. One on this machine counts as one of the loopback address, port 0.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no client.
    pub(super) async fn accept(&self) -> io::Result<(Socket, SocketAddr)> {
        match self {
            AcceptingSocket::Tcp(listener) => {
                let (socket, peer) = listener.accept().await?;
                Ok((Socket::Plain(socket), peer))
            }
            #[cfg(unix)]
            AcceptingSocket::Unix(listener) => {
                let (socket, _) = listener.accept().await?;
                Ok((Socket::Unix(socket), (Ipv4Addr::LOCALHOST, 0).into()))
            }
        }
    }
}
