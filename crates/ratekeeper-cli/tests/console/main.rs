//! The console's API, and who may do what: a real server, plain sockets, and what pages from elsewhere would send.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../common/binary.rs"]
mod binary;
mod commands;
#[path = "../common/eventually.rs"]
mod eventually;
#[path = "../common/folder.rs"]
mod folder;
mod keys;
mod pages;
#[path = "../../../ratekeeper-server/src/transport/grpc/generated/ratekeeper_v1.rs"]
#[rustfmt::skip]
#[allow(dead_code, missing_docs, unreachable_pub, reason = "nobody wrote it by hand")]
mod proto;
#[path = "../../../ratekeeper-redis/tests/support/mod.rs"]
mod redis_support;
mod rights;
#[path = "../common/stall.rs"]
mod stall;
mod stats;
mod store;
mod streams;
#[path = "../wire/support.rs"]
#[allow(dead_code, unused_imports, reason = "shared with the tests of the wires, which use more of it")]
mod support;
mod tokens;
mod web;
mod wires;
