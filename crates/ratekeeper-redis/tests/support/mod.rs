//! What the tests share: real servers, alone and in groups, and load on them.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod charging;
pub(crate) mod cluster;
pub(crate) mod holding;
pub(crate) mod port;
pub(crate) mod sentinel;
pub(crate) mod server;
pub(crate) mod wait;

/// The first of these servers, or all of them if `cargo xtask test --thorough` tries all cases.
pub(crate) fn one_unless_thorough<S>(servers: Vec<S>) -> impl Iterator<Item = S> {
    let is_thorough = std::env::var_os("RATEKEEPER_THOROUGH").is_some();
    servers.into_iter().take(if is_thorough { usize::MAX } else { 1 })
}
