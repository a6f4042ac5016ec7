//! A real axum server on loopback, more clients than cores, real clocks, and a count from outside: whatever the clients
//! do, in no span of wall time are more of them served than the quota allows.
//!
//! ```text
//! server      the server, on a runtime of its own     client   raw sockets, one request after another
//! verdict     whether as many were served as may be   flood    every algorithm, as fast as it goes
//! held_back   slow requests, released or hung up on   bodies   what nobody polls, who hangs up
//! ```
//!
//! What a span of time may hold, and the crowd that asks, are those of the store's own tests.

mod bodies;
mod client;
mod flood;
mod held_back;
mod server;
mod verdict;
