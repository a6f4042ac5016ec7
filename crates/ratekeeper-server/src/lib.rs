//! The ratekeeper server: one engine over the network.
//!
//! A driving adapter: it reads bytes, asks the engine in the crate `ratekeeper`, and writes bytes. It never decides anything by itself, and it holds no state but that of its connections.
//!
//! # Layout
//!
//! - [`config`]: the configuration file; [`settings`]: what a server is started with; [`log`]: what is said
//! - [`reload`]: plans that change; [`watcher`]: files that are looked at again; [`snapshot`]: state across a restart;
//!   [`store_check`]: the store, asked at the start
//! - [`limits`]: what quotas of requests may be; [`units`]: sizes and percentages in words
//! - [`pressure`]: a store that is full; `failure_log`: why a store fails
//! - [`engine`]: what every transport asks; [`meter`], [`tally`], [`sketch`]: what is counted
//! - [`server`]: event loops, listeners, bounds, stopping: once, for all transports
//! - [`resp`]: the Redis protocol; [`http`]: HTTP and JSON; [`grpc`]: gRPC; [`msgpack`]: MessagePack
//! - `stream`: sockets, buffers and batches, once for the transports that are streams
//! - [`secret`]: what clients must know; `guesses`: how fast it may be guessed; `readiness`: whether the store answers;
//!   `turn`: how much is done for one client before it is another's turn; [`duration`]: how durations are written

#![forbid(unsafe_code)]

pub mod config;
pub mod duration;
pub mod engine;
mod failure_log;
pub mod grpc;
mod guesses;
pub mod http;
pub mod limits;
pub mod log;
pub mod meter;
pub mod msgpack;
pub mod pressure;
mod readiness;
pub mod reload;
pub mod resp;
pub mod secret;
pub mod server;
pub mod settings;
pub mod sketch;
pub mod snapshot;
pub mod store_check;
mod stream;
pub mod tally;
mod turn;
pub mod units;
pub mod watcher;
