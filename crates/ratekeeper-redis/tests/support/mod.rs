//! What the tests share: real servers, alone and in groups, and load on them.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod charging;
pub(crate) mod cluster;
pub(crate) mod holding;
pub(crate) mod sentinel;
pub(crate) mod server;
pub(crate) mod wait;
