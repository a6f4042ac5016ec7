//! What `cargo xtask codegen` made of `proto/`.

#![allow(clippy::all, missing_docs, unreachable_pub, dead_code, reason = "nobody wrote it by hand")]

#[rustfmt::skip]
pub(super) mod grpc_health_v1;
#[rustfmt::skip]
pub(super) mod grpc_reflection_v1;
#[rustfmt::skip]
pub(super) mod ratekeeper_v1;
#[rustfmt::skip]
pub(super) mod throttlecrab;

/// All of `proto/`, and what it imports, as descriptors.
pub(super) const DESCRIPTORS: &[u8] = include_bytes!("descriptors.bin");
