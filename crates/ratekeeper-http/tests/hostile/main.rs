//! A real axum server on loopback, more clients than cores, real clocks, and a count from outside: whatever the clients
//! do, in no span of wall time are more of them served than the quota allows.
//!
//! ```text
//! server      the server, on a runtime of its own     client   raw sockets, one request after another
//! bound       what a span of time may hold            flood    every algorithm, as fast as it goes
//! held_back   slow requests, released or hung up on   bodies   what nobody polls, who hangs up
//! ```

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod bodies;
mod bound;
mod client;
mod flood;
mod held_back;
mod server;
