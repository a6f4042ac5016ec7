//! The client side: polite whatever the server's dialect, in paused time.

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
