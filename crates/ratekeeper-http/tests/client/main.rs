//! The client side: polite whatever the server's dialect, in paused time.

mod polite;
mod rules;
mod sockets;
mod support;
