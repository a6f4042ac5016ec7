//! Every interleaving that loom can reach of small programs over limiters, stores, breakers and leases.
//!
//! `cargo xtask lint` runs it, or: `RUSTFLAGS="--cfg loom" cargo test --release -p ratekeeper --test loom`.
#![cfg(loom)]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test that cannot go on fails"
)]

mod breaker;
mod leases;
mod limiter;
mod store;
