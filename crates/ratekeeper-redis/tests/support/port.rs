//! Ports for servers that are named before they start, or come back to the same one.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};

/// Below those that the system gives to whoever connects, or asks for any: nobody gets one by chance while its server is away.
const FIRST: u16 = 10_000;
const COUNT: u16 = 20_000;

/// A port that nobody listens on now.
pub(crate) fn free_port() -> u16 {
    let chance = RandomState::new();
    let mut drawn = (0..1_000).filter_map(|turn: u16| {
        let port = u16::try_from(chance.hash_one(turn) % u64::from(COUNT)).ok()?;
        Some(FIRST + port)
    });
    let free = drawn.find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok());
    free.expect("one of a thousand ports is free")
}
