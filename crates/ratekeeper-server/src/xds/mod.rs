//! Rules that a control plane pushes over xDS, as Envoy Gateway feeds the Go service: ADS, state of the world.
//!
//! ```text
//! client     a thread that stays connected             session   what was accepted; a push to an ACK or a NACK
//! stream     one stream of gRPC, over h2               backoff   how long to wait before the next attempt
//! tls        whom the control plane is trusted by      resources   messages to what the compiler takes
//! failure    why a stream has ended                    weight      how much is in a message, before it is decoded
//! exercise   any bytes, for fuzzing
//! ```

mod backoff;
mod client;
#[cfg(any(test, fuzzing))]
mod exercise;
mod failure;
mod resources;
mod session;
mod stream;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;
mod weight;

pub use client::XdsClient;
#[cfg(any(test, fuzzing))]
pub(crate) use exercise::exercise;
