//! What the tests of the crates share: launchers of real servers, fake stores, laws to count by, and certificates.
//!
//! ```text
//! server, binary    the program `ratekeeper`, and a client that sends exactly the bytes it is given
//! redis, postgres   real servers, which tests freeze, kill and restart
//! envoy             a real Envoy in front of the server
//! port, folder      ports and folders of a test's own
//! proxy             a TCP proxy that delays, throttles, holds back and cuts
//! wait              waiting for an event, with a deadline that only a hang exceeds
//! bound, crowd      threads that ask as fast as they can, and how much they may be admitted at most
//! fake_store        a store that is slow, fails, hangs or answers late, as a test tells it to
//!                   (the fake clock is `ratekeeper::testkit::FakeClock`)
//! charging, holding charges and holds, as several stores are asked for them
//! random            numbers to draw from
//! proto             the gRPC messages, for clients
//! ```
#![allow(
    missing_docs,
    missing_debug_implementations,
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    clippy::should_implement_trait,
    reason = "helpers of tests"
)]

pub mod binary;
pub mod bound;
pub mod cases;
pub mod certificates;
pub mod charging;
pub mod commands;
pub mod crowd;
pub mod envoy;
pub mod fake_store;
pub mod folder;
pub mod holding;
pub mod lease_scale;
pub mod port;
#[cfg(unix)]
pub mod postgres;
pub mod proxy;
pub mod quotas;
pub mod random;
pub mod redis;
pub mod server;
pub mod spans;
pub mod wait;

/// The messages of `ratekeeper.v1`.
#[rustfmt::skip]
#[allow(unreachable_pub, clippy::all, reason = "generated")]
pub mod proto {
    include!("../../../crates/ratekeeper-server/src/transport/grpc/generated/ratekeeper_v1.rs");
}

/// The messages of throttlecrab's service.
#[rustfmt::skip]
#[allow(unreachable_pub, clippy::all, reason = "generated")]
pub mod throttlecrab {
    include!("../../../crates/ratekeeper-server/src/transport/grpc/generated/throttlecrab.rs");
}
