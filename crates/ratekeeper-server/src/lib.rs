//! The ratekeeper server: one engine over the network.
//!
//! A driving adapter: it reads bytes, asks the engine in the crate `ratekeeper`, and writes bytes. It decides nothing by
//! itself, and holds no state but that of its connections.
//!
//! # Layout, from the ground up
//!
//! - `request`: what a client asks for, whichever wire carried it; `secret`: tokens
//! - [`settings`]: what a server is started with; [`config`]: the file; `log`, `duration`, `units`: what is in it
//! - `net`: connections below every protocol; `watch`: what is counted and logged; `guesses`: tokens guessed slowly
//! - `engine`: the keeper and everything around it; `responder`: requests to answers, once for all wires
//! - `stream`: sockets, buffers and batches of the protocols that are streams
//! - `transport`: RESP, HTTP, gRPC and MessagePack: bytes to requests, answers to bytes
//! - `server`: starts, announces and stops all of it; `reload`, `snapshot`, `store_check`: files and the store, beside it

#![forbid(unsafe_code)]

pub mod config;
pub mod duration;
mod engine;
mod guesses;
pub mod log;
mod net;
pub mod reload;
mod request;
mod responder;
pub mod secret;
mod server;
pub mod settings;
pub mod snapshot;
pub mod store_check;
mod stream;
mod transport;
pub mod units;
mod watch;
pub mod watcher;

pub use engine::Engine;
pub use request::{Limits, QuotaBounds, WrongDefault};
pub use server::{Server, serve};
pub use settings::{Endpoint, Settings};
pub use watch::ReloadCounts;
