//! The client side: polite whatever the server's dialect, in paused time.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod limiters;
mod permits;
mod polite;
mod redirects;
mod rules;
mod sockets;
mod support;
mod timeouts;
mod units;
mod windows;
