//! The binary, over real sockets, with clients that nobody here wrote.
//!
//! Every server listens on a free loopback port, is waited for by its readiness line, and is killed by whoever
//! started it. Nothing sleeps; whatever is waited for has a deadline.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod abuse;
#[path = "../common/binary.rs"]
mod binary;
mod client;
mod clients;
mod config;
mod crash;
mod crowd;
mod edits;
#[path = "../common/eventually.rs"]
mod eventually;
mod floods;
#[path = "../common/folder.rs"]
mod folder;
mod full;
mod grpc;
mod hold_mistakes;
mod hold_wires;
mod holds;
mod http;
mod http2;
mod limits;
mod mounts;
mod msgpack;
mod observe;
mod openapi;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "postgres")]
mod postgres_support;
mod process;
#[path = "../../../ratekeeper-server/src/transport/grpc/generated/ratekeeper_v1.rs"]
#[rustfmt::skip]
#[allow(dead_code, missing_docs, unreachable_pub, reason = "nobody wrote it by hand")]
mod proto;
mod python;
mod ratelimit;
mod record;
mod redis;
#[path = "../../../ratekeeper-redis/tests/support/mod.rs"]
mod redis_support;
mod refund;
mod reload;
mod resp;
mod rls;
#[cfg(target_os = "linux")]
mod scale;
mod snapshot;
#[path = "../common/stall.rs"]
mod stall;
mod stop;
mod store;
mod support;
#[cfg(feature = "tls")]
mod tls;
mod tokens;
#[cfg(feature = "otel")]
mod traces;
mod transaction;
