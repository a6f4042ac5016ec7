//! What the tests share: real servers.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod server;
