//! Sockets to statsd.

use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use crate::settings::{StatsdProtocol, StatsdSettings};

/// How long connecting, and each write, may take.
const PATIENCE: Duration = Duration::from_millis(1500);

/// Where lines are written.
#[derive(Debug)]
pub(super) enum StatsdSink {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

impl StatsdSink {
    /// Looks up the host, and connects to the first address that can be.
    pub(super) fn open(settings: &StatsdSettings) -> io::Result<Self> {
        let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in (settings.host.as_str(), settings.port).to_socket_addrs()? {
            match Self::at(address, settings.protocol) {
                Ok(sink) => return Ok(sink),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    fn at(address: SocketAddr, protocol: StatsdProtocol) -> io::Result<Self> {
        Ok(match protocol {
            StatsdProtocol::Tcp => {
                let socket = TcpStream::connect_timeout(&address, PATIENCE)?;
                socket.set_write_timeout(Some(PATIENCE))?;
                StatsdSink::Tcp(socket)
            }
            StatsdProtocol::Udp => {
                let any: SocketAddr = match address {
                    SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                    SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
                };
                let socket = UdpSocket::bind(any)?;
                socket.set_write_timeout(Some(PATIENCE))?;
                socket.connect(address)?;
                StatsdSink::Udp(socket)
            }
        })
    }

    /// Sends whole lines.
    pub(super) fn send(&mut self, text: &str) -> io::Result<()> {
        match self {
            StatsdSink::Tcp(socket) => socket.write_all(text.as_bytes()),
            StatsdSink::Udp(socket) => socket.send(text.as_bytes()).map(drop),
        }
    }
}
