//! In place of envoyproxy/ratelimit: the cases of its own tests, asked by a stock gRPC client of a real server.
//!
//! The numbers are those of the contract that the cases were written down in; what fails is told by its number. The
//! cases themselves are in `python/`, the rules that they are asked of in `fixtures/`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../common/binary.rs"]
mod binary;
#[path = "../common/eventually.rs"]
mod eventually;
mod files;
#[path = "../common/folder.rs"]
mod folder;
mod health;
#[path = "../../../ratekeeper-redis/tests/support/mod.rs"]
mod redis_support;
mod stock;
#[path = "../wire/support.rs"]
#[allow(dead_code, unused_imports, reason = "shared with the tests of the wires, which use more of it")]
mod support;
#[cfg(unix)]
mod xds;
