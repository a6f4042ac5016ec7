//! Real Redis and Valkey servers: alone, in a cluster, and behind Sentinel.

pub mod cluster;
pub mod sentinel;
pub mod server;

use crate::cases::is_thorough;

/// The first of these servers, or all of them where all cases are tried (`cargo xtask slow`).
pub fn one_unless_thorough<S>(servers: Vec<S>) -> impl Iterator<Item = S> {
    servers.into_iter().take(if is_thorough() { usize::MAX } else { 1 })
}
