//! Listening sockets: one per event loop on the same address; the kernel spreads connections over them.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

/// Connections that may wait to be accepted, per event loop.
pub(super) const BACKLOG: i32 = 4096;

/// Binds `count` listeners to one address; port 0 becomes the same free port for all.
///
/// # Errors
///
/// The address is in use, also by another server of this program, or cannot be bound.
pub(crate) fn bind(address: SocketAddr, count: usize) -> io::Result<Vec<TcpListener>> {
    let first = {
        // Sockets that share a port would also share it with another server of the same user, and each would decide
        // about half of the requests. The second server must fail, so the address is first bound without sharing.
        let alone = open(address, false)?;
        let found = alone.local_addr()?;
        if count == 1 {
            return Ok(vec![alone]);
        }
        found
    };
    (0..count).map(|_| open(first, true)).collect()
}

fn open(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // On Unix this means only that a restart need not wait for old connections to be forgotten.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    #[cfg(unix)]
    socket.set_reuse_port(shared)?;
    #[cfg(not(unix))]
    let _ = shared;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_loops_share_one_port_and_a_second_server_is_refused() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let first = bind(any, 2).unwrap();
        let address = first[0].local_addr().unwrap();
        assert_eq!(first[1].local_addr().unwrap(), address);
        assert_eq!(bind(address, 2).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(first);
        assert_eq!(bind(address, 1).unwrap().len(), 1);
    }
}
