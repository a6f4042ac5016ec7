//! The ratekeeper server: one engine over the network.
//!
//! A driving adapter and the composition root: it reads bytes, asks the engine in the crate `ratekeeper`, and writes
//! bytes. It never decides anything by itself, and it holds no state but that of its connections.
//!
//! # Layout
//!
//! - [`cli`]: the command line; [`settings`]: what it amounts to; [`log`]: what is written to standard error
//! - [`engine`]: what every transport asks; [`meter`]: what is counted
//! - [`server`]: event loops, listeners, bounds, stopping: once, for all transports
//! - [`resp`]: the Redis protocol
//! - [`secret`]: what clients must know

#![forbid(unsafe_code)]

pub mod cli;
pub mod engine;
pub mod log;
pub mod meter;
pub mod resp;
pub mod secret;
pub mod server;
pub mod settings;
