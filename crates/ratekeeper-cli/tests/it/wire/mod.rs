//! The server over real sockets: every wire, with stock clients and with clients that send exact bytes.
//!
//! Tests wait for events, with a deadline that only a hang exceeds. They assert what the server does, never how fast.

mod abuse;
mod client;
mod clients;
mod config;
mod crash;
mod crowd;
mod edits;
mod floods;
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
mod process;
mod python;
mod ratelimit;
mod record;
mod redis;
mod refund;
mod reload;
mod resp;
mod rls;
#[cfg(target_os = "linux")]
mod scale;
mod snapshot;
mod stop;
mod store;
#[cfg(feature = "tls")]
mod tls;
mod tokens;
#[cfg(feature = "otel")]
mod traces;
mod transaction;
