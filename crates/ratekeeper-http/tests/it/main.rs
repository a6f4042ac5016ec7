//! The middleware over real sockets and in paused time.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test that cannot go on fails"
)]

mod allocations;
mod client;
mod headers;
mod hostile;
mod llm_guide;
mod own_requests;
mod readme;
mod server;
