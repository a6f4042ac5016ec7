//! The server's parts as an embedding program sees them.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test that cannot go on fails"
)]

mod embedded;
mod peers;
mod rls_grpc;
mod rls_rules;
mod rls_service;
mod statsd;
mod xds;
