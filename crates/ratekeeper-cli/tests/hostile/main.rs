//! The binary under fire: 1, 2 and 16 event loops, every transport, many connections, pipelined. What is admitted is
//! counted outside of the process, by wall clocks that it knows nothing of.
//!
//! Event loops read the clock once for a batch. A batch that was decided with the instant of another loop, or before
//! its lock was free, used to look like a clock that had stepped back: 6 % too much was admitted by two loops, and up
//! to 28 % by sixteen.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../common/binary.rs"]
mod binary;
#[path = "../../../ratekeeper/tests/hostile/bound.rs"]
mod bound;
mod client;
#[path = "../../../ratekeeper/tests/hostile/crowd.rs"]
mod crowd;
#[path = "../common/eventually.rs"]
mod eventually;
#[path = "../common/folder.rs"]
mod folder;
mod grpc;
#[path = "../../../ratekeeper-server/src/transport/grpc/generated/ratekeeper_v1.rs"]
#[rustfmt::skip]
#[allow(dead_code, missing_docs, unreachable_pub, reason = "nobody wrote it by hand")]
mod proto;
#[path = "../../../ratekeeper/tests/hostile/random.rs"]
#[allow(dead_code, reason = "shared with the tests of the store, which use more of it")]
mod random;
#[path = "../wire/support.rs"]
#[allow(dead_code, unused_imports, reason = "shared with the tests of the wires, which use more of it")]
mod support;
mod transports;
