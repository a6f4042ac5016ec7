//! Listening sockets: one per event loop on the same address; the kernel spreads connections over them.

use std::io;
use std::net::{SocketAddr, TcpListener};
#[cfg(unix)]
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use socket2::{Domain, Protocol, Socket, Type};

/// Connections that may wait to be accepted, per event loop.
pub(super) const BACKLOG: i32 = 4096;

/// Binds `count` listeners to one address; port 0 becomes the same free port for all.
///
/// # Errors
///
/// The address is in use, also by another server of this program, or cannot be bound.
pub(crate) fn bind(address: SocketAddr, count: usize) -> io::Result<Vec<TcpListener>> {
    let shared = count > 1;
    // Sockets that share a port would also share it with another server of the same user, and each would decide
    // about half of the requests. The second server must fail, so the address is first bound without sharing. A port that
    // the system chooses is nobody else's.
    if shared && address.port() != 0 {
        drop(open(address, false)?);
    }
    let first = open(address, shared)?;
    let found = first.local_addr()?;
    let others = (1..count).map(|_| open(found, true));
    std::iter::once(Ok(first)).chain(others).collect()
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

/// Where connections come in.
#[derive(Debug)]
pub(crate) enum ListeningSocket {
    /// An address of the network.
    Tcp(TcpListener),
    /// A socket of this machine, which is a file.
    #[cfg(unix)]
    Unix(UnixListener),
}

/// The file of a Unix socket, which goes with the server.
#[derive(Debug)]
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Whoever has removed it before has done what was to be done.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Binds a Unix socket for `count` event loops, all of which accept from it. A file that a server has left which is no
/// longer there is replaced.
///
/// # Errors
///
/// Somebody else listens there, there is something else of that name, or its folder does not exist.
#[cfg(unix)]
pub(crate) fn bind_unix(path: &Path, count: usize) -> io::Result<(Vec<ListeningSocket>, SocketFile)> {
    use std::os::unix::fs::FileTypeExt;
    use std::os::unix::net::UnixStream;

    let is_socket = path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket());
    // Only a server that has gone refuses.
    let refuses = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    if is_socket && UnixStream::connect(path).is_err_and(refuses) {
        std::fs::remove_file(path)?;
    }
    let first = UnixListener::bind(path)?;
    let file = SocketFile(path.to_owned());
    first.set_nonblocking(true)?;
    let more = (1..count).map(|_| first.try_clone());
    let mut listeners = more.collect::<io::Result<Vec<_>>>()?;
    listeners.push(first);
    Ok((listeners.into_iter().map(ListeningSocket::Unix).collect(), file))
}

/// Refuses: there are none on this platform.
#[cfg(not(unix))]
pub(crate) fn bind_unix(_: &Path, _: usize) -> io::Result<(Vec<ListeningSocket>, SocketFile)> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this platform has no Unix sockets"))
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

    /// Each is found and kept by the same socket, so that nobody gets it in between.
    #[test]
    fn a_port_that_the_system_chooses_is_one_servers_alone() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let servers: Vec<_> = (0..100).map(|_| bind(any, 2).unwrap()).collect();
        let ports = servers.iter().map(|listeners| listeners[0].local_addr().unwrap().port());
        assert_eq!(ports.collect::<std::collections::HashSet<_>>().len(), servers.len());
    }

    #[cfg(unix)]
    #[test]
    fn the_file_of_a_socket_goes_with_its_server_and_one_that_was_left_is_replaced() {
        let path = std::env::temp_dir().join(format!("ratekeeper-{}.sock", std::process::id()));
        let (listeners, file) = bind_unix(&path, 2).unwrap();
        assert_eq!(listeners.len(), 2);
        assert_eq!(bind_unix(&path, 1).unwrap_err().kind(), io::ErrorKind::AddrInUse, "somebody listens");
        drop(file);
        assert!(!path.exists());
        // As after a crash: the file is there, and nobody listens.
        drop(UnixListener::bind(&path).unwrap());
        drop(bind_unix(&path, 1).unwrap());
        std::fs::write(&path, "no socket").unwrap();
        assert_eq!(bind_unix(&path, 1).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "no socket");
        std::fs::remove_file(&path).unwrap();
    }
}
