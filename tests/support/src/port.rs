//! Ports for servers that are named before they start, or come back to the same one.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};

/// Below those that the system gives to whoever connects, or asks for any: nobody gets one by chance while its server is away.
const FIRST: u16 = 10_000;
const COUNT: u16 = 20_000;

/// A port that nobody listens on now, and that no test gets from here as long as this process lives.
pub fn free_port() -> u16 {
    let chance = RandomState::new();
    let mut drawn = (0..1_000).filter_map(|turn: u16| {
        let port = u16::try_from(chance.hash_one(turn) % u64::from(COUNT)).ok()?;
        Some(FIRST + port)
    });
    let is_free = |port: &u16| claim(*port) && TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    drawn.find(is_free).expect("one of a thousand ports is free")
}

/// Returns true if no process on this machine has claimed the port: by a name that one listens on, which goes with the process and
/// leaves nothing behind.
#[cfg(target_os = "linux")]
fn claim(port: u16) -> bool {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    let name = SocketAddr::from_abstract_name(format!("ratekeeper-test-port-{port}")).expect("a short name");
    UnixListener::bind_addr(&name).map(std::mem::forget).is_ok()
}

/// Elsewhere chance has to do.
#[cfg(not(target_os = "linux"))]
fn claim(_: u16) -> bool {
    true
}
