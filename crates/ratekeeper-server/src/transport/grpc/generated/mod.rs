//! What `cargo xtask codegen` made of `proto/`.

#![allow(clippy::all, missing_docs, unreachable_pub, dead_code, reason = "nobody wrote it by hand")]

#[rustfmt::skip]
pub(crate) mod envoy_config_core_v3;
#[rustfmt::skip]
pub(super) mod envoy_extensions_common_ratelimit_v3;
#[rustfmt::skip]
pub(crate) mod envoy_service_discovery_v3;
#[rustfmt::skip]
pub(super) mod envoy_service_ratelimit_v3;
#[rustfmt::skip]
pub(super) mod envoy_type_v3;
#[rustfmt::skip]
pub(crate) mod google_rpc;
#[rustfmt::skip]
pub(super) mod grpc_health_v1;
#[rustfmt::skip]
pub(super) mod grpc_reflection_v1;
#[rustfmt::skip]
pub(super) mod ratekeeper_v1;
#[rustfmt::skip]
pub(crate) mod ratelimit_config_ratelimit_v3;
#[rustfmt::skip]
pub(super) mod throttlecrab;

/// All of `proto/`, and what it imports, as descriptors.
pub(super) const DESCRIPTORS: &[u8] = include_bytes!("descriptors.bin");
