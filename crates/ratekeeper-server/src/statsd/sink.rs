//! Sockets to statsd.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use crate::settings::{StatsdFamily, StatsdProtocol, StatsdSettings};

/// How long connecting, and each write, may take.
const PATIENCE: Duration = Duration::from_millis(1500);

/// Where lines are written.
#[derive(Debug)]
pub(super) enum StatsdSink {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

impl StatsdSink {
    /// Looks up the host, and connects to the first address of the family that can be.
    pub(super) fn open(settings: &StatsdSettings) -> io::Result<Self> {
        let missing = match settings.family {
            StatsdFamily::Any => "the host has no address",
            StatsdFamily::V4 => "the host has no IPv4 address",
            StatsdFamily::V6 => "the host has no IPv6 address",
        };
        let mut failure = io::Error::new(io::ErrorKind::NotFound, missing);
        let is_of_family = |address: &SocketAddr| match settings.family {
            StatsdFamily::Any => true,
            StatsdFamily::V4 => address.is_ipv4(),
            StatsdFamily::V6 => address.is_ipv6(),
        };
        let addresses = (settings.host.as_str(), settings.port).to_socket_addrs()?;
        for address in addresses.filter(is_of_family) {
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

    /// Returns true if it is known that the other side is gone. The first write to a connection that was closed there still
    /// succeeds, so this is to be asked before.
    pub(super) fn is_gone(&mut self) -> bool {
        match self {
            StatsdSink::Tcp(socket) => is_closed(socket).unwrap_or(true),
            StatsdSink::Udp(socket) => !matches!(socket.take_error(), Ok(None)),
        }
    }

    /// Sends whole lines.
    ///
    /// # Errors
    ///
    /// They could not be sent, or nobody takes them. For datagrams that is known at once on this machine, later from another
    /// one, and never from a network that does not say so.
    pub(super) fn send(&mut self, text: &str) -> io::Result<()> {
        match self {
            StatsdSink::Tcp(socket) => socket.write_all(text.as_bytes()),
            StatsdSink::Udp(socket) => {
                socket.send(text.as_bytes())?;
                socket.take_error()?.map_or(Ok(()), Err)
            }
        }
    }
}

/// Returns true if the other side has closed a connection, or says more than a listener has any reason to. What it says is of
/// no interest.
fn is_closed(mut socket: &TcpStream) -> io::Result<bool> {
    socket.set_nonblocking(true)?;
    let mut scrap = [0; 4096];
    let mut read = Ok(0);
    for _ in 0..16 {
        read = socket.read(&mut scrap);
        if !matches!(read, Ok(1..)) {
            break;
        }
    }
    socket.set_nonblocking(false)?;
    match read {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn settings(port: u16, protocol: StatsdProtocol, family: StatsdFamily) -> StatsdSettings {
        StatsdSettings {
            host: "127.0.0.1".to_owned(),
            port,
            protocol,
            family,
            every: Duration::from_secs(1),
            tags: Vec::new(),
        }
    }

    /// The kernel says so while the datagram is sent, unless it is busy: hence several attempts.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_datagram_that_nobody_on_this_machine_takes_is_not_sent() {
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let settings = settings(port, StatsdProtocol::Udp, StatsdFamily::Any);
        let is_noticed = |_| StatsdSink::open(&settings).unwrap().send("a:1|c\n").is_err();
        assert!((0..20).any(is_noticed));
    }

    #[test]
    fn a_connection_that_was_closed_is_gone_whatever_was_said_on_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let settings = settings(port, StatsdProtocol::Tcp, StatsdFamily::V4);
        let mut sink = StatsdSink::open(&settings).unwrap();
        let (peer, _) = listener.accept().unwrap();
        assert!(!sink.is_gone());
        sink.send("a:1|c\n").unwrap();
        drop(peer);
        assert!(sink.is_gone(), "with a line that nobody has read");
        let mut sink = StatsdSink::open(&settings).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        peer.write_all(b"hello\n").unwrap();
        assert!(!sink.is_gone(), "it has said something");
        peer.write_all(b"bye\n").unwrap();
        drop(peer);
        assert!(sink.is_gone(), "and has gone");
    }

    #[test]
    fn only_addresses_of_the_family_are_used() {
        let settings = settings(1, StatsdProtocol::Udp, StatsdFamily::V6);
        assert_eq!(StatsdSink::open(&settings).unwrap_err().to_string(), "the host has no IPv6 address");
    }
}
