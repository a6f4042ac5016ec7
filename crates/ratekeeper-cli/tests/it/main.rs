//! The binary from outside: its commands, and its server over real sockets.
//!
//! Every server listens on a free loopback port, is waited for by its readiness line, and is killed by the test that started it.
//! `RATEKEEPER_BIN=PATH` runs these tests against another binary.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test that cannot go on fails"
)]

mod cli;
mod console;
mod hostile;
mod rls;
mod wire;
