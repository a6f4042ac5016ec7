//! The commands of the binary, as a shell runs them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bench;
#[path = "../common/binary.rs"]
mod binary;
mod check;
#[path = "../common/folder.rs"]
mod folder;
mod headers;
mod help;
mod inspect;
mod inspect_redis;
mod simulate;
mod support;
