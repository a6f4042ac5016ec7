//! The command `ratekeeper`: starts the server, and holds the tools that come with it.
//!
//! The composition root: the one crate that sees all others. It never decides anything by itself: `serve` wires the
//! crate `ratekeeper-server`, and the tools ask the engine in the crate `ratekeeper`.
//!
//! # Layout
//!
//! - [`cli`]: the commands, each with its flags; `log`: where logs go
//! - [`simulate`]: replays traces against limits; [`load`]: puts load on a server and measures it
//! - [`inspect`]: decodes stored states; [`headers`]: explains response headers; [`when`]: instants for people

#![forbid(unsafe_code)]

pub mod cli;
pub mod headers;
pub mod inspect;
pub mod load;
mod log;
pub mod simulate;
pub mod when;
