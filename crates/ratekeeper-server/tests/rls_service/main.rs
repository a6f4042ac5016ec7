//! The service that answers Envoy, over a store in memory and a clock that stands still.
//!
//! The tables are the cases that envoyproxy/ratelimit tests itself by; the rest is what this service promises besides.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod better;
mod cases;
mod counts;
mod failures;
mod fields;
mod fixtures;
mod modes;
mod refused;
mod support;
