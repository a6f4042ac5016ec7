//! The commands of the binary, as a shell runs them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bench;
#[path = "../common/binary.rs"]
mod binary;
mod check;
mod check_rls;
#[path = "../common/commands.rs"]
mod commands;
#[path = "../common/eventually.rs"]
mod eventually;
#[path = "../common/folder.rs"]
mod folder;
mod headers;
mod help;
mod inspect;
mod inspect_redis;
mod ratelimit;
#[path = "../../../ratekeeper-redis/tests/support/mod.rs"]
mod redis_support;
#[path = "../wire/support.rs"]
#[allow(dead_code, unused_imports, reason = "shared with the tests of the wires, which use more of it")]
mod server;
mod simulate;
mod support;
