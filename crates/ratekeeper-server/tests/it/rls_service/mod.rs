//! The service that answers Envoy, over a store in memory and a clock that stands still.
//!
//! The tables are the cases that envoyproxy/ratelimit tests itself by; the rest is what this service promises besides.

mod better;
mod cases;
mod counts;
mod failures;
mod fields;
mod fixtures;
mod modes;
mod refused;
mod support;
