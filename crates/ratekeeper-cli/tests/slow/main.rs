//! Tests that take minutes: soak, Envoy, a browser, schemathesis, the commands of the documentation, deployment. `cargo xtask slow`
//! runs them.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test that cannot go on fails"
)]

mod browser;
mod deploy;
mod docs;
mod envoy;
mod schemathesis;
#[cfg(target_os = "linux")]
mod soak;
